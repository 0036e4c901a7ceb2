"""Tests the requests of Kafka's own client, to a broker of the latest release and to one that claims an older one."""

from __future__ import annotations

import pytest

from logbus.testing import Broker
from tests.interop.java_client import Java, JavaFailed


def test_pages(broker: Broker, java: Java, topic: str) -> None:
    """Topics are described page by page; there are no eligible leader replicas, and no list of them is missing."""
    java.run("create", broker.bootstrap, topic, "5x1")
    expected = [["partition", str(number), "[]", "[]"] for number in range(5)]
    assert java.run("pages", broker.bootstrap, topic, 2) == expected


def test_pages_of_an_older_release(java: Java) -> None:
    """A broker without the API is asked for Metadata."""
    with Broker(as_version="3.9") as older:
        java.run("create", older.bootstrap, "t", "2x1")
        assert [words[1] for words in java.run("pages", older.bootstrap, "t", 1)] == ["0", "1"]


def test_features(broker: Broker, java: Java) -> None:
    """Features are told; they can be set to what they are, and to nothing else."""
    found = java.run("features", broker.bootstrap)
    assert sorted(found) == [
        ["finalized", "group.version", "1"],
        ["finalized", "share.version", "1"],
        ["finalized", "streams.version", "1"],
        ["finalized", "transaction.version", "2"],
        ["supported", "group.version", "0", "1"],
        ["supported", "share.version", "0", "1"],
        ["supported", "streams.version", "0", "1"],
        ["supported", "transaction.version", "0", "2"],
    ]
    java.run("finalize", broker.bootstrap, "group.version", 1)
    with pytest.raises(JavaFailed, match=r"group\.version has levels from 0 to 1, not 2"):
        java.run("finalize", broker.bootstrap, "group.version", 2)


def test_config_resources(broker: Broker, java: Java, topic: str) -> None:
    """Topics, brokers and their loggers; other kinds are none."""
    java.run("create", broker.bootstrap, topic, "1x1")
    found = java.run("resources", broker.bootstrap)
    assert ["resource", "TOPIC", topic] in found
    assert ["resource", "BROKER", "0"] in found
    assert {words[1] for words in found} == {"TOPIC", "BROKER", "BROKER_LOGGER"}
    assert java.run("resources", broker.bootstrap, "GROUP", "CLIENT_METRICS") == []
