"""Tests seeking by offset and by time, timestamps, and positions beyond the ends of a log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from aiokafka import errors as aio_errors
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from kafka import TopicPartition as PyPartition
from kafka import errors as py_errors

from logbus.testing import Broker
from tests.interop.clients import CLIENTS, Client, Message, kcat

SECONDS = 120
START = 1_700_000_000_000


def create(broker: Broker, topic: str, partitions: int = 1, **config: str) -> None:
    """A topic with settings; timestamps of long ago are not past its retention."""
    settings = {"retention.ms": "-1", **{name.replace("_", "."): value for name, value in config.items()}}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
        future.result(SECONDS)


def reader(broker: Broker, **config: str | int | bool) -> Consumer:
    """A consumer of confluent-kafka that has nothing to do with groups but the name it must give."""
    own = {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    return Consumer({**own, **config})


def confluent_offset(bootstrap: str, topic: str, timestamp: int) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        [found] = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], SECONDS)
        return int(found.offset)
    finally:
        consumer.close()


def kafka_python_offset(bootstrap: str, topic: str, timestamp: int) -> int:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    try:
        found = consumer.offsets_for_times({PyPartition(topic, 0): timestamp})[PyPartition(topic, 0)]
        return -1 if found is None else int(found.offset)
    finally:
        consumer.close(autocommit=False)


def aiokafka_offset(bootstrap: str, topic: str, timestamp: int) -> int:
    async def found() -> int:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
        await consumer.start()
        try:
            at = AioPartition(topic, 0)
            consumer.assign([at])
            answer = (await consumer.offsets_for_times({at: timestamp}))[at]
            return -1 if answer is None else int(answer.offset)
        finally:
            await consumer.stop()

    return asyncio.run(found())


def kcat_offset(bootstrap: str, topic: str, timestamp: int) -> int:
    said = kcat(bootstrap, "-Q", "-t", f"{topic}:0:{timestamp}").decode()
    return int(said.rpartition(" ")[2])


@pytest.mark.parametrize("offset_at", [confluent_offset, kafka_python_offset, aiokafka_offset, kcat_offset])
def test_offsets_by_time(broker: Broker, topic: str, offset_at: Callable[[str, str, int], int]) -> None:
    """The first offset at or after a time; −1 (or the end, as librdkafka says it) after the last."""
    create(broker, topic)
    sent = [Message(b"%d" % number, timestamp=START + 1_000 * number) for number in range(100)]
    CLIENTS[0].produce(broker.bootstrap, topic, sent[:50])
    CLIENTS[0].produce(broker.bootstrap, topic, sent[50:], codec="gzip")
    for timestamp, expected in ((0, 0), (START, 0), (START + 1, 1), (START + 49_000, 49), (START + 73_500, 74)):
        assert offset_at(broker.bootstrap, topic, timestamp) == expected
    assert offset_at(broker.bootstrap, topic, START + 99_001) in (-1, 100)


def test_seeks(broker: Broker, topic: str, client: Client) -> None:
    """Every offset can be read from, those in the middle of a compressed batch too; timestamps are as given."""
    create(broker, topic)
    sent = [Message(b"%d" % number, timestamp=START - 7 * number) for number in range(60)]
    for at, codec in ((0, "none"), (20, "lz4"), (40, "zstd")):
        CLIENTS[1].produce(broker.bootstrap, topic, sent[at : at + 20], codec=codec)
    for offset in (0, 1, 19, 20, 33, 40, 59):
        found = client.fetch(broker.bootstrap, topic, 60 - offset, offset=offset)
        assert found == sent[offset:]
        assert [(m.offset, m.timestamp) for m in found] == [(n, START - 7 * n) for n in range(offset, 60)]
        assert not any(message.log_append_time for message in found)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_log_append_time(broker: Broker, topic: str, client: Client, codec: str) -> None:
    """With LogAppendTime the broker's clock counts, whatever the producer said."""
    create(broker, topic, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    CLIENTS[0].produce(broker.bootstrap, topic, [Message(b"x", timestamp=START)] * 5, codec=codec)
    after = int(time.time() * 1000)
    for message in client.fetch(broker.bootstrap, topic, 5):
        assert message.timestamp is not None
        assert before <= message.timestamp <= after
        assert message.log_append_time or client.name == "kcat"


def test_out_of_range_is_an_error_to_confluent(broker: Broker, topic: str) -> None:
    """auto.offset.reset=error tells of it."""
    create(broker, topic)
    consumer = reader(broker, **{"auto.offset.reset": "error"})
    try:
        consumer.assign([TopicPartition(topic, 0, 7)])
        [answer] = consumer.consume(1, SECONDS)
        assert answer.error().code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
    finally:
        consumer.close()


def test_out_of_range_is_an_error_to_kafka_python(broker: Broker, topic: str) -> None:
    """auto_offset_reset="none" tells of it."""
    create(broker, topic)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None, auto_offset_reset="none")
    try:
        consumer.assign([PyPartition(topic, 0)])
        consumer.seek(PyPartition(topic, 0), 7)
        with pytest.raises(py_errors.OffsetOutOfRangeError):
            consumer.poll(SECONDS * 1000)
    finally:
        consumer.close(autocommit=False)


def test_out_of_range_is_an_error_to_aiokafka(broker: Broker, topic: str) -> None:
    """auto_offset_reset="none" tells of it."""
    create(broker, topic)

    async def read() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None, auto_offset_reset="none")
        await consumer.start()
        try:
            consumer.assign([AioPartition(topic, 0)])
            consumer.seek(AioPartition(topic, 0), 7)
            with pytest.raises(aio_errors.OffsetOutOfRangeError):
                await consumer.getmany(timeout_ms=SECONDS * 1000)
        finally:
            await consumer.stop()

    asyncio.run(read())


@pytest.mark.parametrize(("reset", "expected"), [("earliest", b"old"), ("latest", b"new")])
def test_out_of_range_starts_over(broker: Broker, topic: str, reset: str, expected: bytes) -> None:
    """A consumer that lost its place goes to the beginning or to the end, as it was told."""
    create(broker, topic)
    CLIENTS[0].produce(broker.bootstrap, topic, [Message(b"old")])
    consumer = reader(broker, **{"auto.offset.reset": reset, "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(topic, 0, 700)])
        [first] = consumer.consume(1, SECONDS)
        if reset == "latest":
            assert first.error().code() == KafkaError._PARTITION_EOF
            CLIENTS[0].produce(broker.bootstrap, topic, [Message(b"new")])
            [first] = consumer.consume(1, SECONDS)
        assert first.value() == expected
    finally:
        consumer.close()


def test_tail(broker: Broker, topic: str) -> None:
    """A consumer that waits at the end is woken by what arrives, long before its wait is over."""
    create(broker, topic)
    consumer = reader(broker, **{"fetch.wait.max.ms": 100_000, "socket.timeout.ms": 200_000})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        for number in range(20):
            began = time.monotonic()
            CLIENTS[0].produce(broker.bootstrap, topic, [Message(b"%d" % number)])
            [found] = consumer.consume(1, SECONDS)
            assert found.value() == b"%d" % number
            assert time.monotonic() - began < 60
    finally:
        consumer.close()
