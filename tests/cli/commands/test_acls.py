"""logbus.cli.commands.acls: ACLs by the command line, against a broker."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from logbus.cli.app import app
from logbus.testing import Broker
from tests.cli.command_line import run

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


# Whoever does not log in is the administrator.
pytestmark = pytest.mark.logbus({"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"})


def logbus(broker: Broker, *arguments: str, status: int = 0) -> str:
    """Run a command; what it prints."""
    done = run("acls", *arguments, "--bootstrap", broker.bootstrap)
    assert done.status == status, done.out + done.err
    return done.out + done.err


def listed(broker: Broker, *arguments: str) -> list[str]:
    found = json.loads(logbus(broker, "list", "--json", *arguments))
    return [
        f"{each['principal']} {each['permission']} {each['operation']} {each['resource']} {each['name']}"
        for each in found
    ]


def test_add_list_and_remove(broker: Broker) -> None:
    """What a consumer needs, one rule more; then one of them is removed, then all of a topic."""
    logbus(
        broker,
        "add",
        "--allow-principal",
        "User:bob",
        "--consumer",
        "--topic",
        "orders",
        "--group",
        "shop",
    )
    deny = ("--deny-principal", "User:*", "--deny-host", "10.0.0.9", "--operation", "read", "--topic", "ord")
    logbus(broker, "add", *deny, "--resource-pattern-type", "prefixed")
    assert listed(broker) == [
        "User:* Deny Read Topic ord",
        "User:bob Allow Read Topic orders",
        "User:bob Allow Describe Topic orders",
        "User:bob Allow Read Group shop",
    ]
    assert len(listed(broker, "--topic", "orders", "--resource-pattern-type", "match")) == 3
    assert listed(broker, "--principal", "User:*") == ["User:* Deny Read Topic ord"]
    assert "10.0.0.9" in logbus(broker, "list")
    logbus(broker, "remove", "--allow-principal", "User:bob", "--operation", "Describe", "--topic", "orders")
    assert listed(broker, "--topic", "orders") == ["User:bob Allow Read Topic orders"]
    logbus(broker, "remove", "--topic", "orders")
    assert listed(broker) == ["User:* Deny Read Topic ord", "User:bob Allow Read Group shop"]


def test_producer(broker: Broker) -> None:
    """What an idempotent producer needs, on the cluster, too."""
    logbus(broker, "add", "--allow-principal", "User:ann", "--producer", "--idempotent", "--topic", "made")
    assert listed(broker, "--principal", "User:ann") == [
        "User:ann Allow Write Topic made",
        "User:ann Allow Create Topic made",
        "User:ann Allow Describe Topic made",
        "User:ann Allow IdempotentWrite Cluster kafka-cluster",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add", "--topic", "t", "--operation", "Read"], "say who"),
        (["add", "--allow-principal", "User:a", "--operation", "Read"], "say which resources"),
        (["add", "--allow-principal", "User:a", "--topic", "t"], "say what"),
        (["add", "--allow-principal", "a", "--topic", "t", "--operation", "Read"], "not such as User:alice"),
        (["add", "--allow-principal", "User:a", "--topic", "t", "--operation", "Eat"], "'Eat' is none of All, Read"),
        (["add", "--allow-principal", "User:a", "--group", "g", "--operation", "Write"], "a Group has Read, Delete"),
        (
            ["add", "--allow-principal", "User:a", "--topic", "t", "--operation", "Read", "--deny-host", "h"],
            "--deny-host with --deny-principal",
        ),
        (["list", "--resource-pattern-type", "suffixed"], "'suffixed' is none of Literal, Prefixed"),
        (["remove"], "say which resources"),
        (["remove", "--topic", "t", "--operation", "Read"], "say also whose"),
    ],
)
def test_wrong_options(arguments: list[str], words: str) -> None:
    """Nothing is sent, and the error says what would be right."""
    done = CliRunner().invoke(app, ["acls", *arguments])
    assert done.exit_code == 2
    assert words in done.output


def test_without_an_authorizer() -> None:
    """The error names the key."""
    with Broker() as other:
        assert "authorizer.class.name" in logbus(other, "list", status=1)
