"""Reads the committed records of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from logbus.testing import Broker
from tests.interop.clients import SECONDS


def committed_records(
    broker: Broker, topic: str, partitions: int, count: int, settings: Mapping[str, Any] | None = None
) -> list[tuple[str | None, str]]:
    """
    The keys and values of the first so many committed records, as text; they are waited for.

    :param settings: more of the consumer's.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            **(settings or {}),
        }
    )
    found: list[tuple[str | None, str]] = []
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        while len(found) < count:
            message = consumer.poll(SECONDS)
            assert message is not None, f"only {len(found)} records came of {topic}"
            assert message.error() is None, message.error()
            key, value = message.key(), message.value()
            found.append((None if key is None else key.decode(), value.decode()))
    finally:
        consumer.close()
    return found
