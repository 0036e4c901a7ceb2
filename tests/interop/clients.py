"""
A common interface to four unmodified Kafka clients, so that each can read what another wrote.

None of them joins a group: partitions are assigned, and offsets given.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from attrs import field, frozen

SECONDS = 120
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

#: No limit of a client's own is in the way of the broker's.
CLIENT_MAX = 8 << 20


@frozen
class Message:
    """
    What a test sends, and gets back.

    :ivar timestamp: milliseconds; None: the client's own clock (never None in what is read).
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = field(default=None, eq=False)
    offset: int = field(default=-1, eq=False)
    log_append_time: bool = field(default=False, eq=False)

    def __repr__(self) -> str:
        value = self.value if self.value is None or len(self.value) < 60 else f"<{len(self.value)} bytes>"
        return f"Message({self.offset}: {self.key!r}={value!r} {self.headers!r} at {self.timestamp})"


class Client(Protocol):
    """A Kafka client."""

    name: str
    #: What of a message this client cannot send: "null header", "null key", "timestamp", "idempotence".
    cannot: frozenset[str]

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        idempotent: bool = False,
    ) -> None:
        """Send messages in order, and return when all are acknowledged by acks=all."""
        ...

    def fetch(self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        """Read that many messages from an offset on."""
        ...


class Confluent:
    """confluent-kafka: librdkafka."""

    name = "confluent"
    cannot: frozenset[str] = frozenset()

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        idempotent: bool = False,
    ) -> None:
        from confluent_kafka import KafkaException, Producer

        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": idempotent,
                "message.max.bytes": CLIENT_MAX,
                "message.timeout.ms": SECONDS * 1000,
                "max.in.flight": 1 if not idempotent else 5,
                "linger.ms": 5,
            }
        )
        errors: list[Any] = []
        for message in messages:
            producer.produce(
                topic,
                message.value,
                message.key,
                partition,
                on_delivery=lambda error, _: errors.append(error) if error else None,
                timestamp=message.timestamp or 0,
                headers=list(message.headers),
            )
        left = producer.flush(SECONDS)
        if errors:
            raise KafkaException(errors[0])
        assert left == 0

    def fetch(self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaException, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
            }
        )
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            found: list[Message] = []
            while len(found) < count:
                batch = consumer.consume(count - len(found), SECONDS)
                assert batch, f"only {len(found)} of {count} messages came"
                for record in batch:
                    if record.error():
                        raise KafkaException(record.error())
                    kind, at = record.timestamp()
                    headers = tuple(record.headers() or ())
                    found.append(
                        Message(
                            record.value(),
                            record.key(),
                            headers,
                            at,
                            record.offset(),
                            kind == TIMESTAMP_LOG_APPEND_TIME,
                        )
                    )
            return found
        finally:
            consumer.close()


class KafkaPython:
    """kafka-python: pure Python, threads."""

    name = "kafka-python"
    cannot = frozenset({"null header"})

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        idempotent: bool = False,
    ) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks="all",
            max_in_flight_requests_per_connection=5 if idempotent else 1,
            max_request_size=CLIENT_MAX,
            linger_ms=5,
        )
        try:
            futures = [producer.send(topic, m.value, m.key, list(m.headers), partition, m.timestamp) for m in messages]
            for future in futures:
                future.get(SECONDS)
        finally:
            producer.close(SECONDS)

    def fetch(self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="none", check_crcs=True)
        try:
            at = TopicPartition(topic, partition)
            consumer.assign([at])
            consumer.seek(at, offset)
            found: list[Message] = []
            while len(found) < count:
                batch = consumer.poll(SECONDS * 1000, max_records=count - len(found))
                assert batch, f"only {len(found)} of {count} messages came"
                found += [
                    Message(r.value, r.key, tuple(r.headers), r.timestamp, r.offset, r.timestamp_type == 1)
                    for r in batch[at]
                ]
            return found
        finally:
            consumer.close(autocommit=False)


class Aiokafka:
    """aiokafka: asyncio."""

    name = "aiokafka"
    cannot: frozenset[str] = frozenset()

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        idempotent: bool = False,
    ) -> None:
        from aiokafka import AIOKafkaProducer

        async def produced() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                acks="all",
                max_request_size=CLIENT_MAX,
                linger_ms=5,
            )
            await producer.start()
            try:
                futures = [
                    await producer.send(topic, m.value, m.key, partition, m.timestamp, list(m.headers))
                    for m in messages
                ]
                async with asyncio.timeout(SECONDS):
                    await asyncio.gather(*futures)
            finally:
                await producer.stop()

        asyncio.run(produced())

    def fetch(self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def fetched() -> list[Message]:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="none", check_crcs=True
            )
            at = TopicPartition(topic, partition)
            await consumer.start()
            try:
                consumer.assign([at])
                consumer.seek(at, offset)
                found: list[Message] = []
                while len(found) < count:
                    batch = await consumer.getmany(timeout_ms=SECONDS * 1000, max_records=count - len(found))
                    assert batch, f"only {len(found)} of {count} messages came"
                    found += [
                        Message(r.value, r.key, tuple(r.headers), r.timestamp, r.offset, r.timestamp_type == 1)
                        for r in batch[at]
                    ]
                return found
            finally:
                await consumer.stop()

        return asyncio.run(fetched())


class Kcat:
    """kcat from Debian: an older librdkafka, and a command line."""

    name = "kcat"
    cannot = frozenset({"null header", "empty key", "timestamp"})

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        idempotent: bool = False,
    ) -> None:
        for message in messages:
            command = ["-P", "-t", topic, "-p", str(partition), "-z", codec, "-X", f"message.max.bytes={CLIENT_MAX}"]
            if idempotent:
                command += ["-X", "enable.idempotence=true"]
            for name, value in message.headers:
                command += ["-H", name.encode() + b"=" + (value or b"")]
            if not message.value:
                # An empty file would be no message; a key with nothing behind its delimiter is one.
                assert message.key is not None
                command += ["-K", "\x1f"] if message.value is not None else ["-Z", "-K", "\x1f"]
                kcat(bootstrap, *command, input=message.key + b"\x1f\n")
                continue
            if message.key is not None:
                command += ["-k", message.key]
            # A file is one message, whatever is in it.
            with tempfile.NamedTemporaryFile(prefix="logbus-") as file:
                file.write(message.value or b"")
                file.flush()
                kcat(bootstrap, *command, file.name)

    def fetch(self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        out = kcat(
            bootstrap,
            *["-C", "-t", topic, "-p", str(partition), "-o", str(offset), "-c", str(count), "-q"],
            *["-X", "check.crcs=true", "-X", f"fetch.message.max.bytes={CLIENT_MAX}"],
            *["-f", "%o %T %K %S\\n%k%s%h\\n"],
        )
        found: list[Message] = []
        while out:
            line, _, out = out.partition(b"\n")
            at, timestamp, key_length, value_length = map(int, line.split())
            key, out = (None, out) if key_length < 0 else (out[:key_length], out[key_length:])
            value, out = (None, out) if value_length < 0 else (out[:value_length], out[value_length:])
            text, _, out = out.partition(b"\n")
            headers = [part.partition(b"=") for part in text.split(b",")] if text else []
            pairs = tuple((name.decode(), None if held == b"NULL" else held) for name, _, held in headers)
            found.append(Message(value, key, pairs, timestamp, at))
        assert len(found) == count
        return found


def kcat(bootstrap: str, *arguments: str | bytes, input: bytes | None = None) -> bytes:
    """
    Run kcat.

    :return: its standard output.
    :raise KcatFailed: it ended with another status than 0.
    """
    # kcat that reads its messages from a terminal would wait for one.
    with tempfile.TemporaryFile() as stdin:
        stdin.write(input or b"")
        stdin.seek(0)
        done = subprocess.run(
            ["kcat", "-b", bootstrap, *arguments], stdin=stdin, capture_output=True, timeout=SECONDS * 2, check=False
        )
    if done.returncode:
        raise KcatFailed(done.stderr.decode(errors="replace"))
    return done.stdout


class KcatFailed(Exception):
    """kcat ended with an error; the argument is what it said."""


CLIENTS: tuple[Client, ...] = (Confluent(), KafkaPython(), Aiokafka(), Kcat())


def log_files(data_dir: Path, topic: str, partition: int = 0) -> bytes:
    """All record batches of a partition, as they are on disk of the broker, or of the worker that has it."""
    name = f"{topic}-{partition}"
    [directory] = [*data_dir.glob(name), *data_dir.glob(f"workers/*/{name}")]
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
