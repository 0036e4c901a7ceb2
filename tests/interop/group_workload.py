"""Topics and messages for tests of groups; each message is known by its value."""

from __future__ import annotations

from confluent_kafka import Producer

from logbus.testing import Broker
from tests.interop.consumers import SECONDS, Place

PARTITIONS = 6


def places_of(topic: str, partitions: int = PARTITIONS) -> list[Place]:
    """All partitions of a topic."""
    return [(topic, partition) for partition in range(partitions)]


def produce(broker: Broker, name: str, topic: str, partitions: int = PARTITIONS, each: int = 10) -> set[bytes]:
    """
    Write so many messages to each partition of a topic.

    :param name: begins their values, so that they differ from those of other calls.
    :return: the values.
    """
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    values = set()
    for partition in range(partitions):
        for number in range(each):
            value = f"{name}/{topic}/{partition}/{number}".encode()
            producer.produce(topic, value, partition=partition)
            values.add(value)
    assert producer.flush(SECONDS) == 0
    return values
