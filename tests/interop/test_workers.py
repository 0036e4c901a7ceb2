"""Several worker processes behind one port: real clients, deaths, restarts."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from logbus.testing import Broker
from logbus.testing.waiting import wait_until

SECONDS = 120
TWISTD = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "--nodaemon", "--pidfile="]
PARTITIONS = 4


def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def create(broker: Broker, topic: str) -> None:
    client = admin(broker)  # It must live until all has been answered.
    client.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(SECONDS)


def leaders(broker: Broker, topic: str) -> dict[int, int]:
    found = admin(broker).list_topics(topic, timeout=SECONDS).topics[topic].partitions
    return {number: partition.leader for number, partition in found.items()}


def produce(broker: Broker, topic: str, values: Iterator[int] | range) -> None:
    """Write each value to a partition of its own choice; all are acknowledged."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "enable.idempotence": True})
    for value in values:
        producer.produce(
            topic,
            str(value).encode(),
            partition=value % PARTITIONS,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(SECONDS) == 0
    assert not failed


def content(broker: Broker, topic: str, count: int | None = None) -> list[int]:
    """All values, from the beginning to the end; if there are fewer of them than offsets, give their number."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False})
    ends = {
        number: consumer.get_watermark_offsets(TopicPartition(topic, number), SECONDS)[1]
        for number in range(PARTITIONS)
    }
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: list[int] = []
    while len(found) < (sum(ends.values()) if count is None else count):
        message = consumer.poll(SECONDS)
        assert message is not None
        assert message.error() is None, message.error()
        found.append(int(message.value()))
    consumer.close()
    return sorted(found)


def workers(broker: Broker) -> list[int]:
    """The processes of the workers, children of the process that starts them."""
    children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
    found: list[int] = []
    for child in children:
        found += map(int, Path(f"/proc/{child}/task/{child}/children").read_text().split())
    return sorted(found)


@pytest.mark.logbus(workers=2)
def test_clients_see_one_cluster(logbus_broker: Broker) -> None:
    """Both workers lead partitions; records, groups and offsets are those of one cluster."""
    create(logbus_broker, "orders")
    assert set(leaders(logbus_broker, "orders").values()) == {0, 1}
    produce(logbus_broker, "orders", range(400))
    assert content(logbus_broker, "orders") == list(range(400))
    settings = {"bootstrap.servers": logbus_broker.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    found: list[int] = []
    while len(found) < 400:
        message = consumer.poll(SECONDS)
        assert message is not None
        if message.error() is None:
            found.append(int(message.value()))
    consumer.commit(asynchronous=False)
    committed = consumer.committed([TopicPartition("orders", number) for number in range(PARTITIONS)], SECONDS)
    consumer.close()
    assert [each.offset for each in committed] == [100] * PARTITIONS


@pytest.mark.logbus(workers=2)
def test_http_is_of_both(logbus_broker: Broker) -> None:
    """Whichever worker answers says for both what they count, and whether they are ready."""
    for _ in range(8):
        with urllib.request.urlopen(f"{logbus_broker.admin_url}/metrics", timeout=SECONDS) as answer:
            text = answer.read().decode()
        families = {family.name: family for family in text_string_to_metric_families(text)}
        found = {sample.labels["worker"] for sample in families["process_resident_memory_bytes"].samples}
        assert found == {"0", "1"}
    with urllib.request.urlopen(f"{logbus_broker.admin_url}/readyz", timeout=SECONDS) as answer:
        assert json.load(answer) == {"ready": True, "reasons": []}


@pytest.mark.logbus(workers=2)
@pytest.mark.long
def test_a_worker_that_dies(logbus_broker: Broker) -> None:
    """It is started again; what it acknowledged is there, and the other worker served all the time."""
    create(logbus_broker, "orders")
    produce(logbus_broker, "orders", range(100))
    for number, pid in enumerate(workers(logbus_broker), 1):
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: len(found := workers(logbus_broker)) == 2 and pid not in found, "another worker")
        produce(logbus_broker, "orders", range(number * 100, number * 100 + 100))
    assert content(logbus_broker, "orders") == list(range(300))


@pytest.mark.logbus(workers=2)
@pytest.mark.long
def test_the_process_that_starts_workers_dies(logbus_broker: Broker) -> None:
    """Workers go on, and those that die afterwards are started again."""
    create(logbus_broker, "orders")
    [starter] = Path(f"/proc/{logbus_broker.pid}/task/{logbus_broker.pid}/children").read_text().split()
    before = workers(logbus_broker)
    os.kill(int(starter), signal.SIGKILL)
    produce(logbus_broker, "orders", range(100))
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: len(workers(logbus_broker)) == 1, "another worker")
    produce(logbus_broker, "orders", range(100, 200))
    assert content(logbus_broker, "orders") == list(range(200))


@pytest.mark.long
def test_the_supervisor_dies() -> None:
    """
    Workers stop with it; the next supervisor, started at once, waits for them, and finds all that they acknowledged.
    """
    with Broker({"workers": 2}) as broker:
        create(broker, "orders")
        produce(broker, "orders", range(100))
        before = workers(broker)
        os.kill(before[0], signal.SIGSTOP)
        os.kill(broker.pid, signal.SIGKILL)
        with closing(Broker({"workers": 2}, data_dir=broker.data_dir, timeout=SECONDS)) as later:
            try:
                later.launch()
                later.wait_logged("waiting for workers of a supervisor that was killed", timeout=SECONDS)
            finally:
                os.kill(before[0], signal.SIGCONT)
            later.wait_ready()
            wait_until(lambda: not any(map(is_running, before)), "the end of the earlier workers")
            assert content(later, "orders") == list(range(100))
        broker.kill()


@pytest.mark.logbus(workers=2)
@pytest.mark.long
def test_a_signal_to_all(logbus_broker: Broker) -> None:
    """As service managers, shells and ``timeout`` send: workers stop one after the other; the last one hands over."""
    create(logbus_broker, "orders")
    produce(logbus_broker, "orders", range(100))
    with suppress(ProcessLookupError):
        for pid in (*workers(logbus_broker), logbus_broker.pid):
            os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not is_running(logbus_broker.pid), "the end")
    assert "handing over failed" not in logbus_broker.output
    logbus_broker.kill()
    logbus_broker.start()
    assert content(logbus_broker, "orders") == list(range(100))


@pytest.mark.logbus(workers=2)
@pytest.mark.long
def test_deaths_at_the_start_and_the_stop(logbus_broker: Broker) -> None:
    """A worker that dies whenever it starts is started until it serves; one that dies as it stops holds nothing up."""
    create(logbus_broker, "orders")
    produce(logbus_broker, "orders", range(100))
    pid, *others = workers(logbus_broker)
    for _ in range(3):
        gone = pid
        os.kill(gone, signal.SIGKILL)
        wait_until(lambda gone=gone: len(set(workers(logbus_broker)) - {gone, *others}) == 1, "another worker")  # type: ignore[misc]
        [pid] = set(workers(logbus_broker)) - {gone, *others}
    produce(logbus_broker, "orders", range(100, 200))
    last = workers(logbus_broker)
    os.kill(logbus_broker.pid, signal.SIGTERM)
    for pid in last:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_running(logbus_broker.pid), "the end")
    logbus_broker.kill()
    logbus_broker.start()
    assert content(logbus_broker, "orders") == list(range(200))


def is_running(pid: int) -> bool:
    """Whether a process has not ended; perhaps its parent has not noticed that."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_numbers_of_workers(tmp_path: Path) -> None:
    """Data of a broker without workers opens with them; fewer workers than have partitions are refused."""
    with Broker(data_dir=tmp_path) as broker:
        create(broker, "old")
        produce(broker, "old", range(100))
    with Broker({"workers": 2}, data_dir=tmp_path) as broker:
        assert set(leaders(broker, "old").values()) == {0}
        create(broker, "new")
        produce(broker, "new", range(100))
        assert content(broker, "old") == content(broker, "new") == list(range(100))
    command = [*TWISTD, "logbus"]
    run = subprocess.run(
        [*command, "--data-dir", str(tmp_path), "--workers", "1", "--listen", "kafka:tcp:0:interface=127.0.0.1"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert run.returncode == 1
    assert re.search(r"has \d partitions of worker 1; start with workers=2", run.stderr), run.stderr


@pytest.mark.logbus(workers=2)
def test_refusals(logbus_broker: Broker) -> None:
    """The directory and the ports of others are left to them, with a line that says so."""
    command = [*TWISTD, "logbus", "--workers", "2", "--data-dir"]
    shared = int(logbus_broker.bootstrap.rpartition(":")[2])
    foreign = logbus_broker.data_dir / "foreign"
    (foreign / "workers/1").mkdir(parents=True)
    (foreign / "workers/1/meta.properties").write_text("version=0\nbroker.id=5\ncluster.id=abc\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        own = taken.getsockname()[1]
        for directory, port, more, why in (
            (logbus_broker.data_dir, 0, [], "is in use by another"),
            # Which a worker itself finds.
            (foreign, 0, [], "workers/1 is a data directory of Apache Kafka"),
            (logbus_broker.data_dir / "other", shared, [], "Address already in use"),
            (
                logbus_broker.data_dir / "other",
                0,
                ["--set", f"workers.first.port={own}"],
                f"port {own} of 127.0.0.1, for",
            ),
        ):
            run = subprocess.run(
                [*command, str(directory), "--listen", f"kafka:tcp:{port}:interface=127.0.0.1", *more],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            assert (run.returncode, why in run.stderr) == (1, True), run.stderr
    assert len(workers(logbus_broker)) == 2
