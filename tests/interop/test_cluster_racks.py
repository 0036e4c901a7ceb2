"""Tests that consumers with ``client.rack`` read from the replica there (KIP-392)."""

from __future__ import annotations

import json
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from logbus.testing import LocalCluster
from tests.interop.clients import CLIENTS, SECONDS, Message
from tests.interop.conftest import RACKS
from tests.interop.java_client import Java, spelled

COUNT = 40
VALUE = b"x" * 10_000

#: A consumer learns of a better replica with its first answer; as many bytes as this come without records.
LITTLE = 200_000


def filled(cluster: LocalCluster, java: Java, topic: str) -> str:
    """A topic that broker 0 leads, with records that all replicas have."""
    java.run("create", cluster.bootstrap, topic, "0,1,2")
    CLIENTS[0].produce(cluster.bootstrap, topic, [Message(VALUE)] * COUNT, idempotent=True)
    return topic


def test_java(cluster: LocalCluster, java: Java, topic: str) -> None:
    """The bytes come from the broker in the consumer's rack; from the leader where nobody is."""
    filled(cluster, java, topic)
    for rack, expected in (*((rack, number) for number, rack in enumerate(RACKS)), ("nowhere", 0)):
        settings = {"bootstrap.servers": cluster.bootstrap, "client.rack": rack, "max.partition.fetch.bytes": 50_000}
        said = java.run("sources", spelled(settings), topic, 0, COUNT)
        got = {int(node.removeprefix("node-")): float(size) for _, node, size in said}
        assert got[expected] > COUNT * len(VALUE) - LITTLE, (rack, got)
        assert all(size < LITTLE for node, size in got.items() if node != expected), (rack, got)


def test_librdkafka(cluster: LocalCluster, java: Java, topic: str) -> None:
    """The same, as the library's statistics tell it."""
    filled(cluster, java, topic)
    for rack, expected in (*((rack, number) for number, rack in enumerate(RACKS)), ("nowhere", 0)):
        told: list[int] = []

        def heard(text: str, told: list[int] = told) -> None:
            partition = json.loads(text)["topics"].get(topic, {}).get("partitions", {}).get("0")
            if partition is not None:
                told.append(partition["broker"])

        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "unused",
                "client.rack": rack,
                "fetch.message.max.bytes": 50_000,
                "fetch.wait.max.ms": 50,
                "statistics.interval.ms": 50,
                "stats_cb": heard,
            }
        )
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            read = 0
            deadline = time.monotonic() + SECONDS
            while read < COUNT or not told or told[-1] != expected:
                assert time.monotonic() < deadline, f"{rack}: {read} of {COUNT} read, from {told}"
                message = consumer.poll(0.1)
                if message is not None:
                    if message.error():
                        raise KafkaException(message.error())
                    read += 1
            assert set(told) <= {-1, 0, expected}
        finally:
            consumer.close()
