"""Tests of :mod:`logbus.cli.doctor.configuration`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logbus.cli.doctor.configuration import all_errors, config_findings
from logbus.cli.doctor.finding import Weight
from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.listener_config import resolve_listeners

SETTINGS = st.dictionaries(
    st.sampled_from(
        ["num.partitions", "log.retention.hours", "min.insync.replicas", "no.such.key", "listeners", "workers"]
    ),
    st.sampled_from(["1", "3", "-7", "x", "PLAINTEXT://127.0.0.1:9092", ""]),
)


@given(SETTINGS)
def test_all_errors(settings: dict[str, str]) -> None:
    """There are errors if and only if a broker would not start, and the one that it would say is among them."""
    found = [finding.what for finding in all_errors(settings, {})]
    try:
        ConfigView.load(set=settings)
    except ConfigError as error:
        assert str(error) in found
    else:
        assert found == []


def test_every_error() -> None:
    """All are told at once, each with its place."""
    settings = {"num.partitions": "two", "no.such.key": "1", "log.retention.hours": "1"}
    origins = {"num.partitions": "a.properties, line 1", "no.such.key": "--set"}
    first, second = (finding.what for finding in all_errors(settings, origins))
    assert first.startswith("a.properties, line 1: num.partitions")
    assert second.startswith("--set: no.such.key")


def told(resolve: bool = True, **settings: str) -> list[tuple[Weight, str, str]]:
    config = ConfigView.load(set={name.replace("_", "."): text for name, text in settings.items()})
    found = config_findings(config, resolve_listeners([], [], config), lambda host: resolve)
    return [(finding.weight, finding.subject, finding.what) for finding in found]


def test_defaults() -> None:
    """A broker of this machine alone has nothing to mend."""
    assert told() == []


PUBLIC = {"listeners": "PLAINTEXT://0.0.0.0:9092"}


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"log_flush_before_ack": "false"}, "before they are synced"),
        (PUBLIC, "without TLS"),
        (PUBLIC, "do not log in"),
        (PUBLIC, "asks for no rights"),
        ({**PUBLIC, "advertised_listeners": "PLAINTEXT://127.0.0.1:9092"}, "advertises 127.0.0.1:9092"),
        ({**PUBLIC, "advertised_listeners": "PLAINTEXT://localhost:9092"}, "advertises localhost:9092"),
        ({"zookeeper_connect": "z:2181"}, "have one replica"),
        ({"default_replication_factor": "3"}, "only one broker has"),
        ({"default_replication_factor": "3", "min_insync_replicas": "3"}, "as many as a topic has replicas"),
        ({"unclean_leader_election_enable": "true"}, "not in sync may become leaders"),
        (
            {
                "zookeeper_connect": "z:2181",
                "default_replication_factor": "3",
                "offsets_topic_replication_factor": "1",
            },
            "state of groups",
        ),
    ],
)
def test_risks(settings: dict[str, str], word: str) -> None:
    """Each is told, with its key or listener."""
    config = ConfigView.load(set={name.replace("_", "."): text for name, text in settings.items()})
    found = list(config_findings(config, resolve_listeners([], [], config), lambda host: True))
    texts = [f"{finding.what} {finding.otherwise}" for finding in found]
    assert any(word in text for text in texts), texts
    assert {finding.weight for finding in found} == {Weight.RISK}


def test_unknown_name() -> None:
    """A name that nobody resolves is worse than a risk."""
    found = told(resolve=False, **PUBLIC, advertised_listeners="PLAINTEXT://nowhere.invalid:9092")
    assert (Weight.BROKEN, "listener PLAINTEXT") in [(weight, subject) for weight, subject, _ in found]
