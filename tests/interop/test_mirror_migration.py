"""
A move from Apache Kafka to logbus and back, as ``docs/howto/migrate-from-kafka.rst`` has it, while producers go on and
the mirror is killed now and then.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.compare.jars import KAFKA_VERSION, kafka_jars
from benchmarks.compare.systems import start
from logbus.testing import Broker
from tests.interop.java_client import CACHE
from tests.interop.test_native_against_kafka import QuickKafka

pytestmark = pytest.mark.long

LOGBUS = Path(sys.executable).with_name("logbus")
PARTITIONS = 3
SECONDS = 120


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Apache Kafka, where it is reached."""
    running = start(QuickKafka(kafka_jars(KAFKA_VERSION, CACHE), KAFKA_VERSION), tmp_path_factory.mktemp("kafka") / "1")
    try:
        yield f"127.0.0.1:{running.port}"
    finally:
        running.stop()


@pytest.fixture
def logbus() -> Iterator[str]:
    """The new cluster, where it is reached."""
    with Broker() as broker:
        yield broker.bootstrap


class Writer(threading.Thread):
    """Writes numbers, some in transactions of which each third is aborted, until it is told to stop."""

    def __init__(self, bootstrap: str, first: int) -> None:
        super().__init__()
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "lz4"})
        self.careful = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"t-{first}"})
        self.next = first
        self.written: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        self.over = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self.careful.init_transactions(SECONDS)
            turn = 0
            while not self.over.wait(0.02):
                turn += 1
                self.plain()
                self.in_a_transaction(commit=turn % 3 != 0)
        except BaseException as e:
            self.failure = e

    def plain(self) -> None:
        for _ in range(20):
            self.write(self.producer, 0)
        assert self.producer.flush(SECONDS) == 0

    def in_a_transaction(self, *, commit: bool) -> None:
        self.careful.begin_transaction()
        for partition in (1, 2):
            self.write(self.careful, partition, counts=commit)
        if commit:
            self.careful.commit_transaction(SECONDS)
        else:
            self.careful.abort_transaction(SECONDS)

    def write(self, producer: Producer, partition: int, *, counts: bool = True) -> None:
        value = b"%d" % self.next
        self.next += 1
        producer.produce("orders", value, key=b"k", partition=partition)
        if counts:
            self.written[partition].append(value)

    def end(self) -> dict[int, list[bytes]]:
        """Stop, and return what can be read, by partition."""
        self.over.set()
        self.join(SECONDS)
        if self.failure is not None:
            raise self.failure
        return self.written


def mirror(source: str, target: str, *more: str) -> subprocess.Popen[str]:
    """A mirror between the two, of which ``source`` and ``target`` are name and address: ``kafka=127.0.0.1:9092``."""
    (a, there), (b, here) = source.split("="), target.split("=")
    command = ["mirror", "--from", there, "--from-name", a, "--to", here, "--to-name", b, "--naming", "identity"]
    command += ["--topics", "orders", "--interval", "0.3", "--sync-groups", *more]
    return subprocess.Popen([LOGBUS, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    """What a mirror says that ends by itself."""
    said, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    return said


def audit(source: str, target: str) -> int:
    """The records that the audit has proved to be the same on both sides."""
    (a, there), (b, here) = source.split("="), target.split("=")
    command = ["audit", "mirror", "--from", there, "--from-name", a, "--to", here, "--to-name", b, "--json"]
    done = subprocess.run(
        [LOGBUS, *command, "--naming", "identity", "--topics", "orders"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return sum(each["source"] for each in json.loads(done.stdout))


def read(bootstrap: str, partition: int) -> list[bytes | None]:
    """All committed values of a partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition("orders", partition, 0)])
    found = []
    while True:
        message = consumer.poll(SECONDS)
        assert message is not None
        if message.error() is not None:
            break
        found.append(message.value())
    consumer.close()
    return found


def consume(bootstrap: str, count: int | None = None) -> set[bytes | None]:
    """As a member of the group ``billing``, so many values or all that are left; their offsets are committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "billing",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign(consumer.committed([TopicPartition("orders", n) for n in range(PARTITIONS)], SECONDS))
        found, ended = set[bytes | None](), set[int | None]()
        while len(ended) < PARTITIONS and (count is None or len(found) < count):
            message = consumer.poll(SECONDS)
            assert message is not None
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
            else:
                found.add(message.value())
        consumer.commit(asynchronous=False)
        return found
    finally:
        consumer.close()


def test_there_and_back(kafka: str, logbus: str) -> None:
    """Nothing is lost or repeated by the mirrors, and the group reads each record where it is at the time."""
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic("orders", PARTITIONS, 1, config={"retention.ms": "-1"})])["orders"].result(SECONDS)
    begin = [TopicPartition("orders", number, 0) for number in range(PARTITIONS)]
    committer = Consumer({"bootstrap.servers": kafka, "group.id": "billing"})
    committer.commit(offsets=begin, asynchronous=False)
    committer.close()

    writer = Writer(kafka, 0)
    writer.start()
    for seconds in (3.0, 4.0, 5.0):
        running = mirror(f"kafka={kafka}", f"new={logbus}")
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(seconds)
        running.kill()
        running.communicate()
    first = writer.end()
    half = sum(map(len, first.values())) // 2
    consumed = consume(kafka, half)
    finish(mirror(f"kafka={kafka}", f"new={logbus}", "--until-end"))
    for partition, values in first.items():
        assert read(kafka, partition) == values
        assert read(logbus, partition) == values
    assert audit(f"kafka={kafka}", f"new={logbus}") == sum(map(len, first.values()))

    # Consumers and producers move.
    rest = consume(logbus)
    assert consumed | rest == {value for values in first.values() for value in values}
    # What was copied before the last mirror began is translated roughly: a few records come twice.
    assert len(consumed & rest) < half
    writer = Writer(logbus, 1_000_000)
    writer.start()
    running = mirror(f"new={logbus}", f"kafka={kafka}")
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(5)
    running.kill()
    running.communicate()
    second = writer.end()
    said = finish(mirror(f"new={logbus}", f"kafka={kafka}", "--until-end"))
    assert "not copied" not in said
    for partition, values in first.items():
        assert read(kafka, partition) == values + second[partition]
    assert audit(f"new={logbus}", f"kafka={kafka}") == sum(map(len, [*first.values(), *second.values()]))


def test_too_large_for_kafka(kafka: str, logbus: str) -> None:
    """
    A record among small ones that Kafka does not take stops its partition, with its offset, its size and the limit;
    where such records are left out, the audit tells them from those that are lost.
    """
    for bootstrap, name, config in ((logbus, "large", {}), (kafka, "large", {"max.message.bytes": "50000"})):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(SECONDS)
    producer = Producer({"bootstrap.servers": logbus, "linger.ms": 100})
    for value in (b"1", b"2", b"x" * 90_000, b"3"):
        producer.produce("large", value, partition=0)
    assert producer.flush(SECONDS) == 0
    names = ["--from", logbus, "--from-name", "here", "--to", kafka, "--to-name", "kafka", "--naming", "identity"]
    names += ["--topics", "large"]

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([LOGBUS, *command, *names], capture_output=True, text=True, timeout=SECONDS, check=False)

    stopped = run("mirror", "--until-end", "--no-sync-settings")
    line = r"large-0 offset 2: a record of 900\d\d bytes, of which large at the target kafka takes 50000; raise max"
    assert stopped.returncode == 1, stopped.stdout
    assert re.search(line, stopped.stderr), stopped.stderr
    for _ in range(2):
        skipped = run("mirror", "--until-end", "--no-sync-settings", "--on-too-large", "skip")
        assert skipped.returncode == 0, skipped.stderr
    audited = run("audit", "mirror", "--json")
    assert audited.returncode == 0, audited.stdout + audited.stderr
    (report,) = json.loads(audited.stdout)
    assert (report["verdict"], report["source"], report["skipped"], report["missing"]) == ("skipped", 3, 1, 0)
