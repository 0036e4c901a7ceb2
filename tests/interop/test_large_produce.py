"""Large records while the device is slow: threads write them, beside small ones for the same partition and another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from logbus.storage.filesystem import native_writes, slow_writes
from logbus.testing import Broker

SECONDS = 120.0
LARGE = 700_000


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Where in their files threads began to write, in a process in which every device is slow."""
    if native_writes.THREADS is None:
        pytest.skip("not compiled")
    positions: list[int] = []
    begin = native_writes.NativeWrites.begin

    def noted(self: Any, file: Any, position: int, data: Any) -> Any:
        positions.append(position)
        return begin(self, file, position, data)

    monkeypatch.setattr(slow_writes, "SLOW", -1.0)
    monkeypatch.setattr(native_writes.NativeWrites, "begin", noted)
    return iter([positions])


def value(tag: str, number: int, size: int) -> bytes:
    """A value that tells whether it is whole."""
    data = f"{tag} {number} ".encode() + bytes([number % 256]) * size
    return hashlib.sha256(data).digest() + data


@pytest.mark.parametrize("acks", ["1", "all"])
def test_beside_small_ones(begun: Iterator[list[int]], acks: str) -> None:
    positions = next(begun)
    with Broker(in_process=True) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("mixed", 2, 1)])["mixed"].result(SECONDS)
        settings = {"bootstrap.servers": broker.bootstrap, "acks": acks, "linger.ms": 0, "batch.size": 1_000_000}
        producers = {tag: Producer({**settings, "enable.idempotence": acks == "all"}) for tag in ("a", "b", "small")}
        acknowledged: dict[str, list[tuple[int, int, bytes]]] = {tag: [] for tag in producers}

        def told(tag: str) -> Any:
            def delivered(error: Any, message: Any) -> None:
                assert error is None, error
                acknowledged[tag].append((message.partition(), message.offset(), message.value()))

            return delivered

        for number in range(40):
            for tag, producer in producers.items():
                size = 10 if tag == "small" else LARGE
                for partition in (0, 1) if tag == "small" else (0,):
                    producer.produce("mixed", value(tag, number, size), partition=partition, on_delivery=told(tag))
                producer.poll(0.005)
        for producer in producers.values():
            assert producer.flush(SECONDS) == 0
        assert positions, "no thread wrote anything"
        found = read_all(broker.bootstrap, {0: 120, 1: 40})
    for tag, records in acknowledged.items():
        assert len(records) == (80 if tag == "small" else 40)
        for partition, offset, data in records:
            assert found[partition, offset] == data
    for data in found.values():
        assert data[:32] == hashlib.sha256(data[32:]).digest()


def read_all(bootstrap: str, count: dict[int, int]) -> dict[tuple[int, int], bytes]:
    """The values by partition and offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "check.crcs": True})
    try:
        consumer.assign([TopicPartition("mixed", partition, OFFSET_BEGINNING) for partition in count])
        found: dict[tuple[int, int], bytes] = {}
        while len(found) < sum(count.values()):
            message = consumer.poll(SECONDS)
            assert message is not None, f"only {len(found)} records came"
            assert message.error() is None, message.error()
            found[message.partition(), message.offset()] = message.value()
        return found
    finally:
        consumer.close()
