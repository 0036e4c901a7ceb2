"""Tests compacted topics with real clients: all read the last value of each key."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PyPartition

from logbus.testing import Broker
from tests.interop.clients import CLIENTS, CODECS, Client, Message
from tests.interop.conftest import MakeBroker
from tests.interop.test_offsets import create

SECONDS = 120
KEYS = 20
ROUNDS = 40
PART = 200
SETTINGS = {"log.cleaner.backoff.ms": "20", "log.segment.delete.delay.ms": "50"}
COMPACT = {"cleanup_policy": "compact", "segment_bytes": "10000", "min_cleanable_dirty_ratio": "0.01"}


def written(rounds: range) -> list[Message]:
    """Each key in each round; every fourth one's last value is a delete marker."""
    return [
        Message(None if key % 4 == 0 and number == rounds[-1] else b"%d/%d" % (number, key), b"key-%d" % key)
        for number in rounds
        for key in range(KEYS)
    ]


def state(messages: list[Message]) -> dict[bytes | None, bytes | None]:
    """The last value of each key."""
    return {message.key: message.value for message in messages}


def found_by_kafka_python(broker: Broker, topic: str, offset: int = 0, fetch_bytes: int = 1 << 20) -> list[Message]:
    """All messages from an offset to the end, in fetches of a size."""
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id=None, auto_offset_reset="none", check_crcs=True,
        max_partition_fetch_bytes=fetch_bytes,
    )  # fmt: skip
    try:
        at = PyPartition(topic, 0)
        consumer.assign([at])
        end = consumer.end_offsets([at])[at]
        consumer.seek(at, offset)
        messages: list[Message] = []
        deadline = time.monotonic() + SECONDS
        while consumer.position(at) < end:
            assert time.monotonic() < deadline, f"stalled at {consumer.position(at)} of {end}"
            for records in consumer.poll(1000).values():
                messages += [Message(r.value, r.key, tuple(r.headers), r.timestamp, r.offset) for r in records]
        return messages
    finally:
        consumer.close(autocommit=False)


def found_by_confluent(broker: Broker, topic: str, offset: int, fetch_bytes: int) -> list[Message]:
    """The same by librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "check.crcs": True,
            "max.partition.fetch.bytes": fetch_bytes,
        }
    )
    try:
        consumer.assign([ConfluentPartition(topic, 0, offset)])
        messages: list[Message] = []
        while True:
            record = consumer.poll(SECONDS)
            assert record is not None, f"stalled behind {messages[-1:]}"
            if record.error():
                assert record.error().name() == "_PARTITION_EOF", record.error()
                return messages
            messages.append(Message(record.value(), record.key(), (), record.timestamp()[1], record.offset()))
    finally:
        consumer.close()


def cleaned(broker: Broker, topic: str, most: int) -> list[Message]:
    """The remaining messages of a topic, once there are at most ``most``."""
    deadline = time.monotonic() + SECONDS
    while len(messages := found_by_kafka_python(broker, topic)) > most:
        assert time.monotonic() < deadline, f"{len(messages)} messages are left"
    return messages


@pytest.mark.parametrize("codec", CODECS)
def test_every_client(make_broker: MakeBroker, codec: str) -> None:
    """Produced by librdkafka, cleaned, and read by all from the start, from within gaps, and after a restart."""
    broker = make_broker(SETTINGS, in_process=True)
    create(broker, "t", **COMPACT)
    expected = written(range(ROUNDS))
    for first in range(0, len(expected), PART):
        # Producers of their own: the last batch of each stays, if only as a header.
        CLIENTS[0].produce(broker.bootstrap, "t", expected[first : first + PART], codec=codec, idempotent=True)
    # The segment that is written to is not cleaned: let it have this one message.
    filler = Message(b"x" * 9900, b"filler")
    CLIENTS[0].produce(broker.bootstrap, "t", [filler])
    left = cleaned(broker, "t", KEYS + 1)
    assert state(left) == {**state(expected), b"filler": filler.value}
    offsets = [message.offset for message in left]
    assert offsets == sorted(offsets)
    gaps = [0, 1, offsets[0] - 1, *(offset + 1 for offset in offsets[:-1]), *range(100, 800, 150)]

    def check(client: Client, start: int) -> None:
        wanted = [message for message in left if message.offset >= start]
        found = client.fetch(broker.bootstrap, "t", len(wanted), offset=start)
        assert found == wanted, f"{client.name} from {start}"
        assert [message.offset for message in found] == [message.offset for message in wanted]

    for i, start in enumerate(sorted(set(gaps))):
        check(CLIENTS[i % len(CLIENTS)], start)
    broker.restart()
    for client in CLIENTS:
        check(client, 0)


@pytest.mark.parametrize("fetch_bytes", [1, 100, 400])
def test_batches_without_records(make_broker: MakeBroker, fetch_bytes: int) -> None:
    """A fetch that brings nothing but batches without records does not stall a client."""
    broker = make_broker(SETTINGS, in_process=True)
    create(broker, "t", **COMPACT)
    for part in range(8):
        # Eight producers, each overtaken by the next.
        CLIENTS[0].produce(
            broker.bootstrap,
            "t",
            [Message(b"%d" % part * 300, b"k%d" % (key % 3)) for key in range(12)],
            idempotent=True,
        )
    CLIENTS[0].produce(broker.bootstrap, "t", [Message(b"x" * 2990, b"filler")])
    left = cleaned(broker, "t", 4)
    assert [message.key for message in left] == [b"k0", b"k1", b"k2", b"filler"]
    for start in (0, 1, 12, 50, 83):
        assert found_by_kafka_python(broker, "t", start, fetch_bytes) == left
        assert found_by_confluent(broker, "t", start, fetch_bytes) == left


def test_keys_are_required(broker: Broker, topic: str) -> None:
    """A compacted topic takes no message without a key, and says why."""
    from confluent_kafka import KafkaException

    create(broker, topic, cleanup_policy="compact")
    with pytest.raises(KafkaException) as refused:
        CLIENTS[0].produce(broker.bootstrap, topic, [Message(b"value")])
    assert refused.value.args[0].name() == "INVALID_RECORD"


def test_the_offsets_of_groups(make_broker: MakeBroker) -> None:
    """The topic of committed offsets stays small however often a group commits, and nothing of it is lost by a kill."""
    config = {**SETTINGS, "offsets.topic.num.partitions": "1", "offsets.topic.segment.bytes": "20000"}
    broker = make_broker({**config, "log.flush.offset.checkpoint.interval.ms": "100"})
    create(broker, "t", 5)
    offsets = broker.data_dir / "__consumer_offsets-0"

    def commits(group: str, numbers: range) -> None:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False})
        try:
            for number in numbers:
                wanted = [ConfluentPartition("t", partition, number) for partition in range(5)]
                consumer.commit(offsets=wanted, asynchronous=False)
        finally:
            consumer.close()

    def committed(group: str) -> list[int]:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
        try:
            found = consumer.committed([ConfluentPartition("t", partition) for partition in range(5)], SECONDS)
            return [each.offset for each in found]
        finally:
            consumer.close()

    commits("idle", range(7, 8))
    commits("busy", range(500))

    def size() -> int:
        found = 0
        for path in offsets.glob("*.log"):
            with suppress(FileNotFoundError):  # It was cleaned meanwhile.
                found += path.stat().st_size
        return found

    deadline = time.monotonic() + SECONDS
    while size() > 60_000:
        assert time.monotonic() < deadline, sorted(offsets.iterdir())
        commits("busy", range(500, 501))
    broker.kill()
    broker.start()
    assert committed("idle") == [7] * 5
    assert committed("busy") in ([499] * 5, [500] * 5)
