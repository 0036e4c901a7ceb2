"""``logbus cluster rebalance``: partitions move among worker processes while real clients write and read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from logbus.testing import Broker
from logbus.testing.waiting import wait_until
from tests.interop.test_workers import PARTITIONS, SECONDS, admin, content, create, leaders, produce, workers

LOGBUS = [sys.executable, "-c", "from logbus.cli import main; main()"]
OLD = 2000
"""Records from before there were workers."""


class Clients:
    """An idempotent producer and a consumer of a group, which go on in threads of their own."""

    def __init__(self, broker: Broker) -> None:
        self._bootstrap = broker.bootstrap
        self._over = Event()
        self.acknowledged: list[int] = []
        self.failed: list[object] = []
        self.read: list[int] = []
        self._threads = [Thread(target=self._write), Thread(target=self._read)]
        for thread in self._threads:
            thread.start()

    def _write(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5}
        )

        def delivered(error: object, message: Message) -> None:
            if error:
                self.failed.append(error)
            else:
                self.acknowledged.append(int(message.value()))

        value = OLD
        while not self._over.is_set():
            producer.produce("old", str(value).encode(), partition=value % PARTITIONS, on_delivery=delivered)
            value += 1
            producer.poll(0.001)
        assert producer.flush(SECONDS) == 0

    def _read(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["old"])
        while True:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.read.append(int(message.value()))
            over = message is None and self._over.is_set() and not self._threads[0].is_alive()
            if over and set(self.read) >= {*range(OLD), *self.acknowledged}:
                break
        consumer.close()

    def wait_until(self, count: int) -> None:
        """Until so many more were written and read."""
        written, read = len(self.acknowledged) + count, len(self.read) + count
        wait_until(lambda: len(self.acknowledged) >= written and len(self.read) >= read, "records")

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive()


def logbus(broker: Broker, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LOGBUS, "cluster", "rebalance", *arguments, "--bootstrap", broker.bootstrap],
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=False,
    )


def rebalance(broker: Broker, *arguments: str) -> str:
    done = logbus(broker, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def held(directory: Path) -> set[str]:
    """The partitions of the topic that a worker has."""
    return {each.name for each in directory.glob("old-*") if each.name.count("-") == 1}


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """The data of a broker without workers."""
    with Broker(data_dir=tmp_path) as broker:
        wanted = NewTopic("old", PARTITIONS, 1, config={"segment.bytes": "20000"})
        client = admin(broker)  # It must live until all has been answered.
        client.create_topics([wanted])["old"].result(SECONDS)
        produce(broker, "old", range(OLD))
    yield tmp_path


def test_to_a_second_worker_and_back(data: Path) -> None:
    """
    Half of the partitions go to the second worker, and back, while clients write and read: each record is there once,
    and was read. Then one worker is enough.
    """
    with Broker({"workers": 2}, data_dir=data) as broker:
        clients = Clients(broker)
        try:
            clients.wait_until(500)
            assert "from broker" in rebalance(broker, "--topics", "old", "--dry-run")
            assert set(leaders(broker, "old").values()) == {0}
            before = {each.stat().st_ino for each in data.glob("old-*/*.log")}
            assert rebalance(broker, "--topics", "old") == "2 partitions have moved\n"
            assert Counter(leaders(broker, "old").values()) == {0: 2, 1: 2}
            # No record of before was copied.
            there = [each for each in (data / "workers" / "1").glob("old-*/*.log") if each.stat().st_ino in before]
            assert sum(each.stat().st_size for each in there) > 0
            clients.wait_until(500)
            assert rebalance(broker, "--topics", "old") == "all is even: no partition has moved\n"
            rebalance(broker)  # The partitions of the groups' offsets, too.
            clients.wait_until(500)
            rebalance(broker, "--workers", "1")
            clients.wait_until(500)
        finally:
            clients.stop()
        assert not clients.failed
        every = sorted([*range(OLD), *clients.acknowledged])
        assert content(broker, "old") == every
        assert sorted(clients.read) == every
        assert (held(data), held(data / "workers" / "1")) == ({f"old-{n}" for n in range(PARTITIONS)}, set())
    with Broker(data_dir=data) as broker:
        assert content(broker, "old") == every
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
        committed = consumer.committed([TopicPartition("old", number) for number in range(PARTITIONS)], SECONDS)
        consumer.close()
        assert sum(each.offset for each in committed) == len(every)


@pytest.mark.long
def test_workers_die_meanwhile(data: Path) -> None:
    """Workers are killed while partitions move, to and fro; in the end each acknowledged record is there once."""
    with Broker({"workers": 2}, data_dir=data) as broker:
        clients = Clients(broker)
        try:
            clients.wait_until(200)
            for turn in range(4):
                wanted = ["--workers", "1"] if turn % 2 else []
                running = command(broker, *wanted)
                target = held(data / "workers" / "1")
                wait_until(
                    lambda running=running, target=target: (
                        running.poll() is not None or held(data / "workers" / "1") != target
                    ),
                    "the first partition",
                )
                before = workers(broker)
                pid = before[turn // 2 % len(before)]
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda pid=pid: len(found := workers(broker)) == 2 and pid not in found, "another worker")
                running.wait(2 * SECONDS)
                rebalance_until_done(broker, *wanted)
                clients.wait_until(200)
        finally:
            clients.stop()
        assert not clients.failed
        every = sorted([*range(OLD), *clients.acknowledged])
        assert content(broker, "old") == every
        assert set(clients.read) == set(every)
    with Broker(data_dir=data) as broker:
        assert content(broker, "old") == every


def test_transactions_and_several_disks(tmp_path: Path) -> None:
    """
    Partitions of transactions and of their state move while transactions run: what was committed is there once, in the
    log directory where it was.
    """
    disks = [tmp_path / "a", tmp_path / "b"]
    settings = {"log.dirs": ",".join(map(str, disks)), "transaction.state.log.num.partitions": 4}
    with Broker(settings, data_dir=tmp_path) as broker:
        create(broker, "old")
        produce(broker, "old", range(100))
        before = {name: disk for disk in disks for name in held(disk)}
        assert len(set(before.values())) == 2
    with Broker({**settings, "workers": 2}, data_dir=tmp_path) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "mover"})
        producer.init_transactions(SECONDS)
        running = None
        committed: list[int] = []
        value, turns = 100, [[], ["--workers", "1"], []]
        while turns or running is not None:
            producer.begin_transaction()
            values = range(value, value + 20)
            value += 20
            for each in values:
                producer.produce("old", str(each).encode(), partition=each % PARTITIONS)
            if running is None:
                running = command(broker, *turns.pop(0))
            if value // 20 % 5:
                producer.commit_transaction(SECONDS)
                committed += values
            else:
                # Once all are delivered, the coordinator has acknowledged their partitions. Before that librdkafka
                # aborts what never began, if the request to add them failed with a retriable error: Kafka, too,
                # answers INVALID_TXN_STATE, which is fatal.
                assert producer.flush(SECONDS) == 0
                producer.abort_transaction(SECONDS)
            if running.poll() is not None:
                assert running.returncode == 0, running.communicate()[0].decode()
                running = None
        assert content(broker, "old", len(committed) + 100) == [*range(100), *committed]
        assert set(leaders(broker, "old").values()) == {0, 1}
        after = {name: disk for disk in disks for each in (disk, disk / "workers" / "1") for name in held(each)}
        assert after == before


def command(broker: Broker, *arguments: str) -> subprocess.Popen[bytes]:
    """The command in a process that runs."""
    return subprocess.Popen(
        [*LOGBUS, "cluster", "rebalance", *arguments, "--bootstrap", broker.bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def rebalance_until_done(broker: Broker, *arguments: str) -> None:
    """Run the command again, if a worker that is not back yet made it fail."""
    wait_until(lambda: logbus(broker, *arguments).returncode == 0, "a plan that is carried out")


def test_one_worker(tmp_path: Path) -> None:
    """Without workers there is nothing to spread, as the command says; neither is there with too few."""
    with Broker(data_dir=tmp_path) as broker:
        assert "no machine has several workers" in logbus(broker).stderr
        assert "--topics" in logbus(broker, "--workers", "1", "--topics", "a").stderr
