"""Backups of brokers that real clients write to, and brokers that are started on what was restored."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from logbus.testing import Broker
from logbus.testing.waiting import wait_until

SECONDS = 120
LOGBUS = [sys.executable, "-c", "from logbus.cli import main; main()"]
SMALL_SEGMENTS = {"log.segment.bytes": 20_000, "transaction.state.log.segment.bytes": 20_000}


def logbus(*words: str | Path, fails: bool = False) -> str:
    """The output of a command, or the error of one that fails."""
    done = subprocess.run([*LOGBUS, *map(str, words)], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode != 0) == fails, done
    assert "Traceback" not in done.stderr
    return done.stderr if fails else done.stdout


def back_up(broker: Broker, directory: Path, *more: str | Path, fails: bool = False) -> str:
    return logbus("backup", directory, "--admin", broker.admin_url, *more, fails=fails)


def create(broker: Broker, topic: str, partitions: int) -> None:
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([NewTopic(topic, partitions, 1)])[topic].result(SECONDS)


def values(broker: Broker, topic: str, partition: int) -> list[int]:
    """All committed values of a partition."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "none", "isolation.level": "read_committed",
         "enable.partition.eof": True, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[int] = []
    while True:
        message = consumer.poll(SECONDS)
        assert message is not None
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            consumer.close()
            return found
        found.append(int(message.value() or b""))


def transactions(broker: Broker) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "pairs", "linger.ms": 0})
    producer.init_transactions(SECONDS)
    return producer


class Pairs:
    """Writes each number to two partitions, in a transaction of its own, until it is stopped."""

    def __init__(self, broker: Broker) -> None:
        self.committed = 0
        self._stopped = threading.Event()
        self._progress = threading.Condition()
        self._producer = transactions(broker)
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._producer.begin_transaction()
            for partition in (0, 1):
                self._producer.produce("pairs", str(self.committed).encode(), partition=partition)
            self._producer.commit_transaction(SECONDS)
            with self._progress:
                self.committed += 1
                self._progress.notify_all()

    def reach(self, count: int) -> int:
        """Wait for so many transactions; return how many there are."""
        with self._progress:
            assert self._progress.wait_for(lambda: self.committed >= count, SECONDS)
            return self.committed

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join(SECONDS)
        assert not self._thread.is_alive()


def test_while_clients_go_on(tmp_path: Path) -> None:
    """What was committed before is in it, and of each transaction all or nothing; so are groups, users and settings."""
    backups = [tmp_path / f"backup-{number}" for number in range(3)]
    before: list[int] = []
    with Broker(SMALL_SEGMENTS) as broker:
        create(broker, "pairs", 2)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
        consumer.commit(offsets=[TopicPartition("pairs", 1, 3)], asynchronous=False)
        consumer.close()
        logbus("configs", "set", "topic", "pairs", "retention.ms=99999999", "-b", broker.bootstrap)
        pairs = Pairs(broker)
        with pairs.running():
            for number, directory in enumerate(backups):
                before.append(pairs.reach(150 * (number + 1)))
                back_up(broker, directory, *(("--earlier", backups[number - 1]) if number else ()))
        # A thread of the broker removes it after the answer.
        wait_until(lambda: not list(broker.data_dir.glob("*-snapshot")), "the snapshot is removed")

    # An earlier backup does not need those that have links to it, nor they it.
    sealed = sorted((backups[1] / "broker-0/0/pairs-0").glob("*.log"))[0]
    assert sealed.stat().st_nlink == 3
    for number, directory in enumerate(backups):
        data = tmp_path / f"data-{number}"
        logbus("restore", directory, data)
        logbus("verify", data)
        with Broker(SMALL_SEGMENTS, data_dir=data) as broker:
            # It ends what the other one had begun.
            transactions(broker)
            found = values(broker, "pairs", 0)
            assert found == values(broker, "pairs", 1) == list(range(len(found)))
            assert before[number] <= len(found)
            consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
            assert consumer.committed([TopicPartition("pairs", 1)], SECONDS)[0].offset == 3
            consumer.close()
            assert "99999999" in logbus("configs", "describe", "topic", "pairs", "-b", broker.bootstrap)


def test_workers(tmp_path: Path) -> None:
    """The data of all workers are in one backup."""
    with Broker({"workers": 2}) as broker:
        create(broker, "pairs", 4)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(400):
            producer.produce("pairs", str(number).encode(), partition=number % 4)
        assert producer.flush(SECONDS) == 0
        told = back_up(broker, tmp_path / "backup")
    assert "of broker 0, 1," in told
    logbus("restore", tmp_path / "backup", tmp_path / "data")
    assert list((tmp_path / "data/workers/1").glob("pairs-*"))
    with Broker({"workers": 2}, data_dir=tmp_path / "data") as broker:
        for partition in range(4):
            assert values(broker, "pairs", partition) == list(range(partition, 400, 4))


def test_wrong(tmp_path: Path) -> None:
    """What is wrong is told in a line, and nothing is left of it."""
    backup, target = tmp_path / "backup", tmp_path / "data"
    with Broker({"log.dirs": f"{tmp_path}/one,{tmp_path}/two"}) as broker:
        create(broker, "pairs", 2)
        back_up(broker, backup)
        assert "is there already" in back_up(broker, backup, fails=True)
        assert "is not a backup" in back_up(broker, target, "--earlier", tmp_path / "one", fails=True)
        assert "not an address" in logbus("backup", target, "--admin", "ftp://x", fails=True)
        (tmp_path / "file").write_text("x")
        assert "there is no directory" in back_up(broker, tmp_path / "file/backup", fails=True)
        url = broker.admin_url
    assert "is this the admin listener" in logbus("backup", target, "--admin", url, fails=True)
    assert not target.exists()

    assert f"had 2 log directories ({tmp_path}/one, {tmp_path}/two)" in logbus("restore", backup, target, fails=True)
    assert "is not an empty directory" in logbus("restore", backup, target, tmp_path / "one", fails=True)
    assert "is not a backup" in logbus("restore", tmp_path / "one", target, fails=True)
    assert "nothing is missing" in logbus("restore", backup, target, tmp_path / "data-2", "--check")
    log = next((backup / "broker-0").glob("*/pairs-0/*.log"))
    log.write_bytes(b"x")
    assert "pairs-0/00000000000000000000.log has 1 bytes, not 0" in logbus(
        "restore", backup, target, tmp_path / "data-2", fails=True
    )
    log.unlink()
    assert "pairs-0/00000000000000000000.log is missing" in logbus(
        "restore", backup, target, tmp_path / "data-2", fails=True
    )
    metadata = backup / "metadata.json"
    log.write_bytes(b"")
    metadata.write_text(metadata.read_text()[:-10])
    assert "metadata.json: not a file of" in logbus("restore", backup, target, tmp_path / "data-2", fails=True)
    told = json.loads((backup / "backup.json").read_text())
    (backup / "backup.json").write_text(json.dumps({**told, "version": 9}))
    assert "has version 9" in logbus("restore", backup, target, tmp_path / "data-2", fails=True)
    assert not target.exists()
