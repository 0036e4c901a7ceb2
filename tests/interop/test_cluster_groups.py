"""Tests groups on three brokers: members find coordinator and leaders from any bootstrap broker."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from logbus.testing import LocalCluster
from logbus.testing.local_cluster import LocalBroker
from logbus.testing.waiting import wait_until
from tests.interop.clients import CLIENTS, SECONDS, Message
from tests.interop.consumers import LIBRARIES
from tests.interop.external_members import JavaReader, KcatReader, Reader
from tests.interop.java_client import Java
from tests.interop.member_groups import Group

PARTITIONS = 3
EACH = 20


def filled(cluster: LocalCluster, java: Java, topic: str) -> set[bytes]:
    """Messages in a topic of which each broker leads a partition; their values."""
    java.run("create", cluster.bootstrap, topic, "0,1,2;1,2,0;2,0,1")
    for partition in range(PARTITIONS):
        some = [Message(f"{partition}/{number}".encode()) for number in range(EACH)]
        CLIENTS[0].produce(cluster.bootstrap, topic, some, partition=partition, idempotent=True)
    return {f"{partition}/{number}".encode() for partition in range(PARTITIONS) for number in range(EACH)}


def elsewhere(cluster: LocalCluster, java: Java) -> LocalBroker:
    """A broker that does not coordinate groups: their one partition of offsets is another's."""
    java.run("committed", cluster.bootstrap, "any")  # Whoever looks for a coordinator has the topic made.
    coordinator = cluster.leader("__consumer_offsets", 0)
    return next(broker for broker in cluster.brokers if broker is not coordinator)


def committed(cluster: LocalCluster, group_id: str, topic: str) -> list[int]:
    """Where a group goes on in each partition, as any broker's client finds out."""
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    settings = {"bootstrap.servers": cluster.brokers[-1].bootstrap, "group.id": group_id}
    with contextlib.closing(Consumer(settings)) as consumer:
        return [found.offset for found in consumer.committed(places, SECONDS)]


def told_over_http(broker: LocalBroker, group_id: str, topic: str) -> list[int]:
    """Where a group goes on in each partition, and that it is listed, as any broker tells over HTTP."""

    def asked(path: str) -> Any:
        with urllib.request.urlopen(f"{broker.admin_url}/api/v1/{path}", timeout=SECONDS) as answer:
            return json.load(answer)

    listed = asked(f"groups?limit=500&after={group_id[:-1]}")
    assert group_id in [group["id"] for group in listed["items"]]
    assert listed["unanswered"] == []
    return [row["offset"] for row in asked(f"groups/{group_id}")["offsets"] if row["topic"] == topic]


@pytest.mark.parametrize("kind", LIBRARIES)
def test_python_members(cluster: LocalCluster, java: Java, topic: str, kind: str) -> None:
    """Two members share the work and commit; one that comes later goes on there, and seeks back."""
    values = filled(cluster, java, topic)
    group_id = f"group-{topic}"
    with Group(elsewhere(cluster, java).bootstrap, group_id, [topic]) as group:
        members = [group.join(kind) for _ in range(2)]
        group.until_balanced([(topic, partition) for partition in range(PARTITIONS)])
        group.until_processed(values)
        group.until_committed({(topic, partition): EACH for partition in range(PARTITIONS)})
        group.close(*members)
        assert committed(cluster, group_id, topic) == [EACH] * PARTITIONS
        for broker in cluster.brokers:
            assert told_over_http(broker, group_id, topic) == [EACH] * PARTITIONS
        again = group.join(kind)
        group.until_balanced([(topic, partition) for partition in range(PARTITIONS)])
        group.call(again, "seek", (topic, 1), EACH - 3)
        group.until(lambda: len(again.records) == 3, "the last three")
        assert {record.value for record in again.records} == {f"1/{EACH - 3 + n}".encode() for n in range(3)}
        group.assert_never_shared()


@pytest.mark.parametrize("kind", ["kcat", "java-classic", "java-consumer"])
def test_other_members(cluster: LocalCluster, java: Java, topic: str, kind: str) -> None:
    """kcat, and Kafka's own client by either protocol: the next member begins where the last one has committed."""
    values = filled(cluster, java, topic)
    asked, group_id = elsewhere(cluster, java).bootstrap, f"group-{topic}"

    def join() -> Reader:
        if kind == "kcat":
            return KcatReader(asked, group_id, topic)
        return JavaReader(java, asked, group_id, topic, kind.removeprefix("java-"))

    with contextlib.closing(join()) as reader:
        wait_until(lambda: len(reader.values()) >= len(values), lambda: f"read {len(reader.values())}", SECONDS)
        assert sorted(reader.values()) == sorted(values)
    assert committed(cluster, group_id, topic) == [EACH] * PARTITIONS
    CLIENTS[0].produce(cluster.bootstrap, topic, [Message(b"more")], partition=2)
    with contextlib.closing(join()) as reader:
        wait_until(lambda: bool(reader.values()), lambda: "nothing came", SECONDS)
        assert reader.values() == [b"more"]
