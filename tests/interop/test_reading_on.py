"""Consumers that catch up, whose fetches threads answer: real clients get each record once and in order."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from logbus.net.native_fetches import compiled_threads
from logbus.testing import Broker

SECONDS = 120.0
RECORDS = 12_000
pytestmark = pytest.mark.one_broker


@pytest.fixture(scope="module")
def plain_broker() -> Iterator[Broker]:
    """One without the test kit in it, which would decode each request, with a topic to be read."""
    if compiled_threads() is None or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there are no threads that answer fetches")
    with Broker({"log.segment.bytes": "4000000"}, in_process=False, controlled=False) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(SECONDS)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.size": 20_000, "linger.ms": 5})
        for number in range(RECORDS):
            producer.produce("t", f"{number} ".encode() * 200, partition=0)
            if not number % 1000:
                producer.flush(SECONDS)
        assert not producer.flush(SECONDS)
        yield broker


def answered(broker: Broker) -> float:
    """How many requests threads have answered."""
    with urllib.request.urlopen(f"{broker.admin_url}/metrics", timeout=SECONDS) as answer:
        for family in text_string_to_metric_families(answer.read().decode()):
            if family.name == "logbus_requests_answered_in_threads":
                return float(family.samples[0].value)
    raise AssertionError("the metric is missing")


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("size", [1, 30_000, 300_000])
def test_catching_up(plain_broker: Broker, size: int, isolation: str) -> None:
    before = answered(plain_broker)
    settings: dict[str, Any] = {
        "bootstrap.servers": plain_broker.bootstrap,
        "group.id": f"reader-{size}-{isolation}",
        "isolation.level": isolation,
        "max.partition.fetch.bytes": size,
        # Less than all there is is kept, so that it fetches many times.
        "queued.max.messages.kbytes": 2000,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
    for number in range(RECORDS):
        message = consumer.poll(SECONDS)
        assert message is not None and message.error() is None
        assert (message.offset(), message.value()) == (number, f"{number} ".encode() * 200)
    consumer.close()
    assert answered(plain_broker) > before
