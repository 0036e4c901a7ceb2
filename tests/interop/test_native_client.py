"""
Tests the client of logbus with other libraries: each reads what the other wrote, and keys go to the same partitions.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from logbus.client import AdminClient, Cluster, Consumer, NewTopic
from logbus.model import TopicPartition
from logbus.records.batch import iter_batches
from logbus.records.compression import Codec
from logbus.testing import Broker
from tests.interop.clients import CLIENTS, CODECS, SECONDS, Client, Message, log_files
from tests.interop.native_client import NATIVE, a_producer, run, take

LIBRARIES: tuple[Client, ...] = (NATIVE, *CLIENTS[:3])
PARTITIONS = 7

_NOISE = random.Random(12).randbytes(100_000)
_XERIAL = b"\x82SNAPPY\x00"
"""The header of Java's library before each stream of snappy blocks."""


def by_name(library: Client) -> str:
    """For the names of tests."""
    return library.name


def corpus(writer: Client) -> list[Message]:
    """One message of each kind, half an hour apart."""
    kinds = [
        Message(b"plain"),
        Message(None, b"deleted"),
        Message(b"", b""),
        Message(bytes(range(256)), b"\xff\xfe\x01 \xc3\x28"),
        Message("Größe 漢字 🚌".encode(), "schlüssel".encode()),
        Message(b"headers", b"h", (("a", b"1"), ("b", b"\xfe\xff"), ("a", b"again"), ("größe", b""))),
        Message(b"z" * 300_000, b"squeezable"),
        Message(_NOISE, b"noise"),
        Message(b"last"),
    ]
    if "null header" not in writer.cannot:
        kinds.append(Message(b"null header", b"h", (("null", None),)))
    times = range(1_700_000_000_000, 1_800_000_000_000, 1_800_000)
    return [Message(each.value, each.key, each.headers, at) for each, at in zip(kinds, times, strict=False)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", LIBRARIES, ids=by_name)
def test_every_client_reads_its_records(broker: Broker, topic: str, writer: Client, codec: str) -> None:
    """Keys, headers, times and tombstones come back as they were, in their order, whatever compressed them."""
    sent = corpus(writer)
    writer.produce(broker.bootstrap, topic, sent, codec=codec)
    readers = LIBRARIES if writer is NATIVE else (NATIVE,)
    for reader in readers:
        found = reader.fetch(broker.bootstrap, topic, len(sent))
        assert found == sent, f"{reader.name} read something else"
        assert [each.timestamp for each in found] == [each.timestamp for each in sent], reader.name
        assert [each.offset for each in found] == list(range(len(sent))), reader.name
    log = log_files(broker.data_dir, topic)
    assert codec in {Codec(header.codec).name.lower() for _, header in iter_batches(log)}
    if codec == "snappy":
        # Both of its forms are read here: with Java's frame, and, as only librdkafka writes it, without.
        assert (_XERIAL in log) == (writer.name != "confluent")


@pytest.mark.parametrize("writer", LIBRARIES, ids=by_name)
def test_the_middle_of_many_batches(broker: Broker, topic: str, writer: Client) -> None:
    """Reading begins within a batch, and goes on over the ends of others."""
    sent = [Message(b"%d " % number * 20, b"k%d" % number) for number in range(2_000)]
    writer.produce(broker.bootstrap, topic, sent[:1_100], codec="lz4", idempotent=True)
    writer.produce(broker.bootstrap, topic, sent[1_100:], codec="zstd", idempotent=True)
    for reader in LIBRARIES if writer is NATIVE else (NATIVE,):
        assert reader.fetch(broker.bootstrap, topic, 1_663, offset=337) == sent[337:], reader.name


# Where keys go.


def confluent_by_key(bootstrap: str, topic: str, keys: list[bytes]) -> dict[bytes, int]:
    """librdkafka, told to choose as Java does."""
    from confluent_kafka import Producer

    places: dict[bytes, int] = {}
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})

    def written(error: Any, record: Any) -> None:
        assert error is None, error
        places[record.key()] = record.partition()

    for key in keys:
        producer.produce(topic, b"confluent", key, on_delivery=written)
    assert producer.flush(SECONDS) == 0
    return places


def kafka_python_by_key(bootstrap: str, topic: str, keys: list[bytes]) -> dict[bytes, int]:
    """As it comes."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap)
    try:
        sent = {key: producer.send(topic, b"kafka-python", key) for key in keys}
        return {key: future.get(SECONDS).partition for key, future in sent.items()}
    finally:
        producer.close(SECONDS)


def aiokafka_by_key(bootstrap: str, topic: str, keys: list[bytes]) -> dict[bytes, int]:
    """As it comes."""
    from aiokafka import AIOKafkaProducer

    async def send() -> dict[bytes, int]:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            sent = [await producer.send(topic, b"aiokafka", key) for key in keys]
            return {key: (await each).partition for key, each in zip(keys, sent, strict=True)}

    return asyncio.run(send())


def native_by_key(bootstrap: str, topic: str, keys: list[bytes]) -> dict[bytes, int]:
    """As it comes."""

    async def send(cluster: Cluster) -> dict[bytes, int]:
        producer = a_producer(cluster)
        sent = [producer.send(topic, b"logbus", key) for key in keys]
        places = {key: (await each).partition for key, each in zip(keys, sent, strict=True)}
        await producer.close()
        return places

    return run(bootstrap, send)


def create(bootstrap: str, topic: str, partitions: int) -> None:
    """A topic that is to have more than one partition."""

    async def make(cluster: Cluster) -> None:
        answers = await AdminClient(cluster).create_topics([NewTopic(topic, partitions)])
        assert answers == {topic: None}

    run(bootstrap, make)


def test_equal_keys_meet(broker: Broker, topic: str) -> None:
    """All libraries put a key into the same partition: of every length modulo four, of bytes of either sign."""
    create(broker.bootstrap, topic, PARTITIONS)
    chance = random.Random(5)
    keys = [b"", b"\x00", b"\xff" * 3, "größe".encode(), *(chance.randbytes(size) for size in range(1, 100))]
    ways: list[Callable[[str, str, list[bytes]], dict[bytes, int]]] = [
        confluent_by_key,
        kafka_python_by_key,
        aiokafka_by_key,
    ]
    ours = native_by_key(broker.bootstrap, topic, keys)
    assert set(ours.values()) == set(range(PARTITIONS))
    for way in ways:
        assert way(broker.bootstrap, topic, keys) == ours, way.__name__


# Transactions. Each writes one that is committed, one that is aborted, and another one that is committed.

OUTCOMES = {b"first": True, b"never": False, b"last": True}
COMMITTED = [b"first 0", b"first 1", b"last 0", b"last 1"]


def confluent_transactions(bootstrap: str, topic: str) -> None:
    """librdkafka's."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"confluent-{topic}"})
    producer.init_transactions(SECONDS)
    for name, committed in OUTCOMES.items():
        producer.begin_transaction()
        for number in range(2):
            producer.produce(topic, b"%b %d" % (name, number), partition=0)
        assert producer.flush(SECONDS) == 0
        (producer.commit_transaction if committed else producer.abort_transaction)(SECONDS)


def kafka_python_transactions(bootstrap: str, topic: str) -> None:
    """kafka-python's."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"kafka-python-{topic}")
    try:
        producer.init_transactions()
        for name, committed in OUTCOMES.items():
            producer.begin_transaction()
            for each in [producer.send(topic, b"%b %d" % (name, number), partition=0) for number in range(2)]:
                each.get(SECONDS)
            (producer.commit_transaction if committed else producer.abort_transaction)()
    finally:
        producer.close(SECONDS)


def aiokafka_transactions(bootstrap: str, topic: str) -> None:
    """aiokafka's."""
    from aiokafka import AIOKafkaProducer

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"aiokafka-{topic}") as producer:
            for name, committed in OUTCOMES.items():
                await producer.begin_transaction()
                for number in range(2):
                    await producer.send_and_wait(topic, b"%b %d" % (name, number), partition=0)
                await (producer.commit_transaction() if committed else producer.abort_transaction())

    asyncio.run(send())


class DeliberateError(Exception):
    """An error that the test raises in the middle of a transaction."""


def native_transactions(bootstrap: str, topic: str) -> None:
    """Ours."""

    async def send(cluster: Cluster) -> None:
        producer = a_producer(cluster, transactional_id=f"logbus-{topic}", create_topics=True)
        for name, committed in OUTCOMES.items():
            try:
                async with producer.transaction():
                    for number in range(2):
                        await producer.send(topic, b"%b %d" % (name, number), partition=0)
                    if not committed:
                        raise DeliberateError
            except DeliberateError:
                assert not committed
        await producer.close()

    run(bootstrap, send)


def read_by_us(bootstrap: str, topic: str, count: int, isolation: Any) -> list[bytes | None]:
    """All values from the begin; and there is no more than that."""

    async def read(cluster: Cluster) -> list[bytes | None]:
        consumer = Consumer(cluster, isolation_level=isolation)
        consumer.assign({TopicPartition(topic, 0): 0})
        found = [each.value for each in await take(consumer, count)]
        assert await consumer.poll(0.3) == {}
        await consumer.close()
        return found

    return run(bootstrap, read)


@pytest.mark.parametrize(
    "write", [native_transactions, confluent_transactions, kafka_python_transactions, aiokafka_transactions]
)
def test_committed_transactions_are_read_here(broker: Broker, topic: str, write: Callable[[str, str], None]) -> None:
    """Whoever wrote them: what was aborted is not read among the committed, and there is for who reads everything."""
    write(broker.bootstrap, topic)
    assert read_by_us(broker.bootstrap, topic, 4, "read_committed") == COMMITTED
    everything = [b"%b %d" % (name, number) for name in OUTCOMES for number in range(2)]
    assert read_by_us(broker.bootstrap, topic, 6, "read_uncommitted") == everything


def test_transactions_of_ours_are_read_elsewhere(broker: Broker, topic: str) -> None:
    """Every library reads those that were committed, and none that was aborted."""
    native_transactions(broker.bootstrap, topic)
    assert read_committed_by_confluent(broker.bootstrap, topic) == COMMITTED
    assert read_committed_by_kafka_python(broker.bootstrap, topic) == COMMITTED
    assert read_committed_by_aiokafka(broker.bootstrap, topic) == COMMITTED


def read_committed_by_confluent(bootstrap: str, topic: str) -> list[bytes]:
    """Up to the end of the partition, which it tells."""
    from confluent_kafka import Consumer as ConfluentConsumer
    from confluent_kafka import KafkaError
    from confluent_kafka import TopicPartition as Place

    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([Place(topic, 0, 0)])
    found: list[bytes] = []
    try:
        while True:
            record = consumer.poll(SECONDS)
            assert record is not None, f"only {found} came"
            if record.error():
                assert record.error().code() == KafkaError._PARTITION_EOF, record.error()
                return found
            found.append(record.value())
    finally:
        consumer.close()


def read_committed_by_kafka_python(bootstrap: str, topic: str) -> list[bytes]:
    """Until its position is at the end."""
    from kafka import KafkaConsumer
    from kafka import TopicPartition as Place

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    at = Place(topic, 0)
    try:
        consumer.assign([at])
        consumer.seek(at, 0)
        found: list[bytes] = []
        while len(found) < len(COMMITTED):
            batch = consumer.poll(SECONDS * 1000)
            assert batch, f"only {found} came"
            found += [each.value for each in batch[at]]
        return found
    finally:
        consumer.close(autocommit=False)


def read_committed_by_aiokafka(bootstrap: str, topic: str) -> list[bytes]:
    """Until all are there that should be."""
    from aiokafka import AIOKafkaConsumer
    from aiokafka import TopicPartition as Place

    async def read() -> list[bytes]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
        at = Place(topic, 0)
        await consumer.start()
        try:
            consumer.assign([at])
            consumer.seek(at, 0)
            found: list[bytes] = []
            while len(found) < len(COMMITTED):
                batch = await consumer.getmany(timeout_ms=SECONDS * 1000)
                assert batch, f"only {found} came"
                found += [each.value for each in batch[at]]
            return found
        finally:
            await consumer.stop()

    return asyncio.run(read())
