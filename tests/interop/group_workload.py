"""Topics and messages for tests of groups; each message is known by its value."""

from __future__ import annotations

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from logbus.testing import Broker
from tests.interop.consumers import SECONDS, Place

PARTITIONS = 6
SESSION_MS = 3000
"""Of members whose end is waited for."""


def places_of(topic: str, partitions: int = PARTITIONS) -> list[Place]:
    """All partitions of a topic."""
    return [(topic, partition) for partition in range(partitions)]


def end_sessions_soon(broker: Broker, group_id: str) -> None:
    """Have sessions in a group of the consumer protocol last for :data:`SESSION_MS`; in others each member says it."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    entry = ConfigEntry("consumer.session.timeout.ms", str(SESSION_MS), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group_id, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(SECONDS)


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
