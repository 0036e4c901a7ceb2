"""
A broker that is killed at each step of moves between its log directories, while clients write and read: with and
without remote storage, what was acknowledged is there, once, in one directory.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest
from attrs import define, field
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from logbus.client.admin.log_dir_admin import ReplicaInfo
from logbus.client.aio import AdminClient
from logbus.model import TopicPartition as Name
from logbus.testing.broker import Broker

pytest.importorskip("fsspec")

SECONDS = 120.0
TOPICS = ("plain", "tiered")
BYTES_PER_SECOND = 2_000_000
"""So that a copy takes a while."""


@define(eq=False)
class Clients:
    """
    A producer and a consumer of both topics, until they are stopped.

    :ivar acked: the values of each topic by offset, as they were acknowledged; ``read``: as they were read.
    """

    broker: Broker
    acked: dict[str, dict[int, bytes]] = field(factory=lambda: {topic: {} for topic in TOPICS})
    read: dict[str, dict[int, bytes]] = field(factory=lambda: {topic: {} for topic in TOPICS})
    problems: list[str] = field(factory=list)
    _stopped: Event = field(factory=Event)

    def produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "batch.size": 100_000,
                "message.timeout.ms": int(SECONDS * 1000),
                "log_level": 0,
            }
        )

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.problems.append(str(error))
            else:
                topic, offset, value = message.topic(), message.offset(), message.value()
                assert topic is not None and offset is not None and value is not None
                if offset in self.acked[topic]:
                    self.problems.append(f"{topic}: offset {offset} was acknowledged twice")
                self.acked[topic][offset] = value

        number = 0
        while not self._stopped.is_set():
            for topic in TOPICS:
                producer.produce(topic, b"%08d" % number + b"x" * 1000, on_delivery=delivered)
                number += 1
            producer.poll(0.01)
        if producer.flush(SECONDS):
            self.problems.append("not everything was delivered")

    def consume(self) -> None:
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "g", "log_level": 0})
        consumer.assign([TopicPartition(topic, 0, 0) for topic in TOPICS])
        while not self._stopped.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                topic, offset, value = message.topic(), message.offset(), message.value()
                assert topic is not None and offset is not None and value is not None
                if offset != len(self.read[topic]):
                    self.problems.append(f"{topic}: {offset} was read instead of {len(self.read[topic])}")
                    return
                self.read[topic][offset] = value
        consumer.close()

    def run(self) -> Callable[[], None]:
        """Begin; returns what ends it."""
        threads = [Thread(target=self.produce), Thread(target=self.consume)]
        for thread in threads:
            thread.start()

        def stop() -> None:
            self._stopped.set()
            for thread in threads:
                thread.join(SECONDS)

        return stop


@define(eq=False)
class Machine:
    """A broker with two log directories."""

    home: Path
    broker: Broker = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.directories = [self.home / "first", self.home / "second"]
        self.broker = Broker(
            {
                "log.dirs": ",".join(map(str, self.directories)),
                "replica.alter.log.dirs.io.max.bytes.per.second": str(BYTES_PER_SECOND),
                "log.segment.delete.delay.ms": "300",
                "remote.log.storage.system.enable": "true",
                "remote.log.storage.uri": f"file://{self.home}/store",
                "remote.log.manager.task.interval.ms": "300",
                "remote.log.metadata.topic.num.partitions": "1",
                "log.retention.check.interval.ms": "300",
                "log.flush.offset.checkpoint.interval.ms": "300",
            },
            data_dir=self.home / "unused",
            in_process=False,
        )

    directories: list[Path] = field(init=False)

    def move(self, topic: str, to: int) -> None:
        async def ask() -> None:
            async with AdminClient(self.broker.bootstrap) as admin:
                name = Name(topic, 0)
                answers = await admin.alter_replica_log_dirs(0, {name: str(self.directories[to])})
                assert answers == {name: None}

        asyncio.run(ask())

    def where(self, topic: str) -> list[tuple[int, ReplicaInfo]]:
        """The number of the directory and the description of each log of a topic."""

        async def ask() -> list[tuple[int, ReplicaInfo]]:
            async with AdminClient(self.broker.bootstrap) as admin:
                found = await admin.describe_log_dirs(0)
            return [
                (self.directories.index(Path(directory.path)), info)
                for directory in found
                for name, info in directory.replicas.items()
                if name.topic == topic
            ]

        return asyncio.run(ask())

    def copies(self, topic: str, directory: int) -> list[Path]:
        """The directories of copies that are being filled."""
        return list(self.directories[directory].glob(f"{topic}-0.*-future"))

    def reached(self, stage: str, topic: str, origin: int) -> bool:
        """Whether a step of a move was reached."""
        target = 1 - origin
        name = f"{topic}-0"
        if stage == "begun":
            return bool(self.copies(topic, target))
        if stage == "half":
            half = sum(path.stat().st_size for path in (self.directories[origin] / name).glob("*.log")) / 2
            return any(
                sum(path.stat().st_size for path in copy.glob("*.log")) > half for copy in self.copies(topic, target)
            )
        if stage == "marked":
            return (self.directories[origin] / name / "moved").exists()
        if stage == "renamed":
            return (self.directories[target] / name).exists()
        return not (self.directories[origin] / name).exists()

    def until(self, what: Callable[[], bool], why: str, pause: float = 0.05) -> None:
        """Wait for something; with a short pause for what lasts no longer."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                if what():
                    return
            except FileNotFoundError:
                pass  # It has just been renamed.
            assert time.monotonic() < deadline, why
            time.sleep(pause)


@pytest.mark.long
def test_killed_at_each_step(tmp_path: Path) -> None:
    """Both topics move to and fro; the broker is killed at each step, and goes on where it was."""
    machine = Machine(tmp_path)
    broker = machine.broker
    broker.start()
    try:
        broker.admin.create_topic("plain", 1, 1, **{"segment.bytes": "300000"})
        broker.admin.create_topic(
            "tiered", 1, 1, **{"segment.bytes": "300000", "remote.storage.enable": "true", "local.retention.bytes": "1"}
        )
        clients = Clients(broker)
        stop = clients.run()
        try:
            store = tmp_path / "store"
            machine.until(lambda: len(list(store.rglob("*.log"))) > 2, "segments in the store")
            for stage in ("begun", "half", "marked", "renamed", "removed"):
                for topic in TOPICS:
                    ((origin, info),) = machine.where(topic)
                    assert not info.is_future
                    machine.move(topic, 1 - origin)
                    machine.until(
                        lambda stage=stage, topic=topic, origin=origin: machine.reached(stage, topic, origin),  # type: ignore[misc]
                        stage,
                        0.001,
                    )
                broker.kill()
                broker.start()
                for topic in TOPICS:
                    machine.until(
                        lambda topic=topic: [one.is_future for _, one in machine.where(topic)] == [False],  # type: ignore[misc]
                        f"the end of the move of {topic} after a kill when it was {stage}",
                    )
            # Taken back while it is copied.
            ((origin, _),) = machine.where("plain")
            machine.move("plain", 1 - origin)
            assert sorted((one.is_future, at) for at, one in machine.where("plain")) == [
                (False, origin), (True, 1 - origin),
            ]  # fmt: skip
            machine.move("plain", origin)
            machine.until(lambda: not machine.copies("plain", 1 - origin), "the copy to go")
            assert [at for at, _ in machine.where("plain")] == [origin]
            wanted = {topic: len(found) for topic, found in clients.acked.items()}
            machine.until(
                lambda: (
                    all(len(clients.read[topic]) >= count for topic, count in wanted.items()) or bool(clients.problems)
                ),
                "the consumer",
            )
        finally:
            stop()
        assert clients.problems == []
        for topic in TOPICS:
            found = {record.offset: record.value for record in broker.read(topic, timeout=SECONDS)}
            acked = clients.acked[topic]
            assert {offset: found.get(offset) for offset in acked} == acked
            assert list(found) == list(range(len(found)))
            assert {offset: found[offset] for offset in clients.read[topic]} == clients.read[topic]
            machine.until(
                lambda topic=topic: sum(len(list(each.glob(f"{topic}-0*"))) for each in machine.directories) == 1,  # type: ignore[misc]
                "what is left of moves to go",
            )
    finally:
        broker.close()
