"""
Tests applications of Kafka Streams, which are all of Kafka's clients at once: groups with a protocol of their own,
transactions that have offsets in them, and topics that they make for themselves, some of which are compacted.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from benchmarks.compare.jars import KAFKA_VERSION, client_jars, streams_jars
from logbus.testing import Broker
from tests.interop.clients import SECONDS
from tests.interop.committed_records import committed_records
from tests.interop.java_client import CACHE, SMALL_JVM
from tests.interop.test_offsets import create

PARTITIONS = 3
AUTHORS = {f"a{number}": f"Author {number}" for number in range(4)}
#: Names of the application's own topics, and of its group, begin with it.
NAME = "word-count"
IN_MEMORY = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"
SETTINGS = {
    "application.id": NAME,
    "processing.guarantee": "exactly_once_v2",
    "num.stream.threads": "2",
    "commit.interval.ms": "100",
    "statestore.cache.max.bytes": "0",
    "auto.offset.reset": "earliest",
    # Those without would need RocksDB, which is large.
    "dsl.store.suppliers.class": IN_MEMORY,
    # That is soon missed which is killed, and what it has left open.
    "session.timeout.ms": "6000",
    "producer.transaction.timeout.ms": "6000",
}


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that starts it."""
    if shutil.which("javac") is None:
        pytest.fail("javac is missing: apt-get install default-jdk-headless")
    home = tmp_path_factory.mktemp("streams")
    classes = f"{client_jars(KAFKA_VERSION, CACHE)}/*:{streams_jars(KAFKA_VERSION, CACHE)}/*"
    source = Path(__file__).parent / "java_streams" / "WordCount.java"
    subprocess.run(["javac", "-cp", classes, "-d", str(home), str(source)], check=True, timeout=SECONDS)
    return ["java", *SMALL_JVM, "-cp", f"{home}:{classes}", "WordCount"]


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """The application's topics have names that are fixed."""
    settings = {
        "group.min.session.timeout.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
        # Members of streams groups do not choose theirs.
        "group.streams.session.timeout.ms": "6000",
        "group.streams.min.session.timeout.ms": "6000",
        "group.streams.heartbeat.interval.ms": "500",
        "group.streams.min.heartbeat.interval.ms": "500",
        "group.streams.initial.rebalance.delay.ms": "0",
    }
    with Broker(settings) as broker:
        yield broker


@contextmanager
def running(
    application: list[str], broker: Broker, state: Path, more: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """An instance of it, that is stopped in order if it was not killed."""
    settings = {**SETTINGS, **(more or {}), "bootstrap.servers": broker.bootstrap, "state.dir": str(state)}
    command = [*application, *(f"{name}={value}" for name, value in settings.items())]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        said = []
        while not said or said[-1] != "RUNNING\n":
            said.append(process.stdout.readline())
            assert said[-1], "".join(said)
        yield process
        if process.poll() is None:
            assert process.stdin is not None
            process.stdin.close()
            rest = process.stdout.read()
            assert "PENDING_SHUTDOWN\n" in rest and rest.endswith("NOT_RUNNING\n"), rest
            assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.wait()


class Writer:
    """
    Writes lines, and counts what is to come of them.

    :param settings: more of the producer's, and of the consumer's that checks.
    """

    def __init__(self, broker: Broker, settings: Mapping[str, Any] | None = None) -> None:
        self.settings = settings or {}
        self.producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, **self.settings})
        self.words: Counter[str] = Counter()
        self.signed: Counter[str] = Counter()
        self._lines = 0
        for key, author in AUTHORS.items():
            self.producer.produce("authors", key=key, value=author)
        assert self.producer.flush(SECONDS) == 0

    def write(self, lines: int) -> None:
        """So many, of all authors and of one that is not in the table."""
        for number in range(self._lines, self._lines + lines):
            key, line = f"a{number % (len(AUTHORS) + 1)}", f"w{number % 7} w{number % 11} line{number}"
            self.producer.produce("lines", key=key, value=line)
            self.words.update(line.split())
            if key in AUTHORS:
                self.signed[f"{AUTHORS[key]}: {line}"] += 1
        self._lines += lines
        assert self.producer.flush(SECONDS) == 0


def check_results(broker: Broker, writer: Writer) -> None:
    """Each line has been counted and signed once."""
    counts = committed_records(broker, "counts", PARTITIONS, writer.words.total(), writer.settings)
    # Every count of every word is there, once.
    assert Counter(counts) == Counter(
        (word, str(each)) for word, count in writer.words.items() for each in range(1, count + 1)
    )
    signed = committed_records(broker, "signed", PARTITIONS, writer.signed.total(), writer.settings)
    assert Counter(line for _, line in signed) == writer.signed


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_exactly_once(application: list[str], own_broker: Broker, tmp_path: Path, protocol: str) -> None:
    """
    Words are counted once each, by an instance, and by another one that goes on after it was killed. The application
    assigns its tasks by itself, or lets the broker do it.
    """
    more = {"group.protocol": protocol}
    for topic in ("lines", "authors", "counts", "signed"):
        create(own_broker, topic, PARTITIONS)
    writer = Writer(own_broker)
    with running(application, own_broker, tmp_path / "1", more) as first:
        writer.write(300)
        check_results(own_broker, writer)
        writer.write(300)
        first.kill()
        first.wait()
    writer.write(100)
    with running(application, own_broker, tmp_path / "2", more):
        check_results(own_broker, writer)
