"""A common interface to the transactional producers and the read_committed consumers of all clients."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from tests.interop.clients import SECONDS, kcat
from tests.interop.java_client import Java, JavaFailed, record, spelled

T = TypeVar("T")

END = b"end"
"""The last value of a topic that is to be read: readers read until they meet it."""


class Fenced(Exception):
    """Another producer has the same transactional id by now."""


class Transactional(Protocol):
    """A transactional producer; all of its methods return when the brokers have answered."""

    def begin(self) -> None: ...

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        """
        Send values within the transaction that was begun.

        :raise Fenced: as :meth:`commit` does; some clients say so only then.
        """
        ...

    def offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Let the transaction commit offsets, by partition, for a group."""
        ...

    def commit(self) -> None:
        """
        Commit.

        :raise Fenced: there is another one.
        """
        ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Confluent:
    """confluent-kafka: librdkafka."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        from confluent_kafka import Producer

        self._bootstrap = bootstrap
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 5, "log_level": 0}
        )
        self._producer.init_transactions(SECONDS)

    def _fenced(self, work: Callable[[], T]) -> T:
        from confluent_kafka import KafkaError, KafkaException

        try:
            return work()
        except KafkaException as e:
            if e.args[0].code() == KafkaError._FENCED:
                raise Fenced(str(e)) from e
            raise

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        for value in values:
            self._producer.produce(topic, value, partition=partition)
        left = self._fenced(lambda: self._producer.flush(SECONDS))
        assert left == 0

    def offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        try:
            metadata = consumer.consumer_group_metadata()
            at = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
            self._producer.send_offsets_to_transaction(at, metadata, SECONDS)
        finally:
            consumer.close()

    def commit(self) -> None:
        self._fenced(lambda: self._producer.commit_transaction(SECONDS))

    def abort(self) -> None:
        self._producer.abort_transaction(SECONDS)

    def close(self) -> None:
        self._producer.flush(1)


class KafkaPython:
    """kafka-python: pure Python, threads."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        from kafka import KafkaProducer

        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, max_block_ms=SECONDS * 1000
        )
        self._producer.init_transactions()

    def _fenced(self, work: Callable[[], T]) -> T:
        from kafka.errors import InvalidProducerEpochError, ProducerFencedError

        try:
            return work()
        except (ProducerFencedError, InvalidProducerEpochError) as e:
            raise Fenced(str(e)) from e

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        futures = [self._producer.send(topic, value, partition=partition) for value in values]
        for future in futures:
            self._fenced(lambda future=future: future.get(SECONDS))  # type: ignore[misc]

    def offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        from kafka import OffsetAndMetadata, TopicPartition

        at = {
            TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1) for partition, offset in offsets.items()
        }
        self._producer.send_offsets_to_transaction(at, group)

    def commit(self) -> None:
        self._fenced(self._producer.commit_transaction)

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(1)


class Aiokafka:
    """aiokafka: asyncio, on a loop that runs while something is asked of it."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        from aiokafka import AIOKafkaProducer

        async def started() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id, linger_ms=5)
            await producer.start()
            return producer

        self._loop = asyncio.new_event_loop()
        self._producer: Any = self._run(started())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        from aiokafka.errors import InvalidProducerEpoch, ProducerFenced

        try:
            return self._loop.run_until_complete(asyncio.wait_for(work, SECONDS))
        except (ProducerFenced, InvalidProducerEpoch) as e:
            raise Fenced(str(e)) from e

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        async def sent() -> None:
            await asyncio.gather(*[await self._producer.send(topic, value, partition=partition) for value in values])

        self._run(sent())

    def offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        from aiokafka import TopicPartition

        at = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(at, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._loop.close()


class JavaProducer:
    """Kafka's own."""

    _numbers = itertools.count()

    def __init__(self, java: Java, bootstrap: str, transactional_id: str) -> None:
        self._java = java
        self._number = next(self._numbers)
        settings: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "max.block.ms": SECONDS * 1000,
            "delivery.timeout.ms": SECONDS * 1000,
            "request.timeout.ms": SECONDS * 1000 - 5_000,
        }
        self._say("init", spelled(settings))

    def _say(self, what: str, *arguments: object) -> None:
        try:
            self._java.run(f"txn-{what}", self._number, *arguments, timeout=2 * SECONDS)
        except JavaFailed as e:
            if e.args[0] in ("ProducerFencedException", "InvalidProducerEpochException"):
                raise Fenced(*e.args) from e
            raise

    def begin(self) -> None:
        self._say("begin")

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        self._say("send", topic, partition, *(base64.b64encode(value).decode() for value in values))

    def offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        self._say("offsets", group, topic, *itertools.chain.from_iterable(offsets.items()))

    def commit(self) -> None:
        self._say("commit")

    def abort(self) -> None:
        self._say("abort")

    def close(self) -> None:
        self._say("close")


Make = Callable[[str, str], Transactional]
"""Makes one for brokers and a transactional id, and waits until it may begin."""

PRODUCERS = ("confluent", "kafka-python", "aiokafka", "java")


def producers(java: Java) -> dict[str, Make]:
    """One of each client."""
    return {
        "confluent": Confluent,
        "kafka-python": KafkaPython,
        "aiokafka": Aiokafka,
        "java": lambda bootstrap, transactional_id: JavaProducer(java, bootstrap, transactional_id),
    }


# Reading.


def _confluent(bootstrap: str, topic: str, partition: int, isolation: str) -> list[bytes]:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "check.crcs": True,
        }
    )
    found: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while not found or found[-1] != END:
            message = consumer.poll(SECONDS)
            assert message is not None, f"no end after {found}"
            if message.error():
                raise KafkaException(message.error())
            found.append(message.value())
    finally:
        consumer.close()
    return found[:-1]


def _kafka_python(bootstrap: str, topic: str, partition: int, isolation: str) -> list[bytes]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, isolation_level=isolation, check_crcs=True)
    found: list[bytes] = []
    try:
        at = TopicPartition(topic, partition)
        consumer.assign([at])
        consumer.seek(at, 0)
        while not found or found[-1] != END:
            batch = consumer.poll(SECONDS * 1000)
            assert batch, f"no end after {found}"
            found += [each.value for each in batch[at]]
    finally:
        consumer.close(autocommit=False)
    return found[:-1]


def _aiokafka(bootstrap: str, topic: str, partition: int, isolation: str) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def fetched() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=None, isolation_level=isolation, check_crcs=True
        )
        at = TopicPartition(topic, partition)
        await consumer.start()
        found: list[bytes] = []
        try:
            consumer.assign([at])
            consumer.seek(at, 0)
            while not found or found[-1] != END:
                batch = await consumer.getmany(timeout_ms=SECONDS * 1000)
                assert batch, f"no end after {found}"
                found += [each.value for each in batch[at]]
        finally:
            await consumer.stop()
        return found[:-1]

    return asyncio.run(fetched())


def _kcat(bootstrap: str, topic: str, partition: int, isolation: str) -> list[bytes]:
    # It stops at the end of what it may read.
    command = ["-C", "-t", topic, "-p", str(partition), "-o", "beginning", "-e", "-q", "-f", "%s\\n"]
    found = kcat(bootstrap, *command, "-X", f"isolation.level={isolation}").splitlines()
    assert found[-1] == END, f"no end after {found}"
    return found[:-1]


def _java(java: Java, bootstrap: str, topic: str, partition: int, isolation: str) -> list[bytes]:
    settings = {"bootstrap.servers": bootstrap, "isolation.level": isolation, "auto.offset.reset": "none"}
    said = java.run("until", spelled({**settings}), topic, partition, base64.b64encode(END).decode())
    return [message.value or b"" for _, message in map(record, said)]


Read = Callable[[str, str, int, str], list[bytes]]
"""The values of a partition before :data:`END`, at ``read_committed`` or ``read_uncommitted``."""


def readers(java: Java) -> dict[str, Read]:
    """One of each client."""
    return {
        "confluent": _confluent,
        "kafka-python": _kafka_python,
        "aiokafka": _aiokafka,
        "kcat": _kcat,
        "java": lambda *told: _java(java, *told),
    }
