"""Tests of :mod:`logbus.cli.missing_rights`, against a broker that allows nothing."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from logbus.cli.app import app
from logbus.cli.missing_rights import _OPERATIONS
from logbus.testing import Broker
from tests.cli.command_line import run
from tests.cli.test_empty_values import commands

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(scope="module")
def strict() -> Iterator[Broker]:
    with Broker({"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}) as broker:
        yield broker


@pytest.mark.parametrize(
    ("arguments", "what", "right"),
    [
        ("topics describe t", "topic t", "Describe of the topic"),
        ("topics create t", "topic t", "Create of the topic"),
        ("topics delete t", "topic t", "Delete of the topic"),
        ("topics add-partitions t --total 3", "topic t", "Alter of the topic"),
        ("produce t", "topic t", "Write of the topic"),
        ("consume t -e", "topic t", "Read of the topic"),
        ("groups describe g", "group 'g'", "Describe of the group"),
        ("groups delete g", "group 'g'", "Delete of the group"),
        ("configs describe topic t", "topic t", "DescribeConfigs of the topic"),
        ("configs set broker 0 log.retention.ms=70000", "broker 0", "AlterConfigs of the cluster"),
        ("users list", "users", "Describe of the cluster"),
        ("acls list", "ACLs", "Describe of the cluster"),
        ("quotas list", "quotas", "DescribeConfigs of the cluster"),
        ("log-dirs describe", "the log directories of broker 0", "Describe of the cluster"),
        ("transactions force-terminate x", "transactional id 'x'", "Write of the transactional id"),
        ("transactions describe-producers --topic t --partition 0", "topic t", "Read of the topic"),
        ("cluster reassign --list", "the list of reassignments", "Describe (to change: Alter) of the cluster"),
    ],
)
def test_denials(arguments: str, what: str, right: str, strict: Broker) -> None:
    """The error names what the right is missing for, and the right."""
    done = run(*arguments.split(), "--bootstrap", strict.bootstrap, stdin=b"x\n")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(f"logbus: {what}: ")
    assert done.err.endswith(f"; an ACL must allow {right} (logbus acls add)\n")


def test_commands() -> None:
    """Each that is named is one."""
    assert _OPERATIONS.keys() <= {path for path, _ in commands(app)}
    assert isinstance(app, click.Group)
