"""
Workers with a full disk, that stand still, or die while their machine starts or stops; a supervisor that stands still:
nothing acknowledged is lost.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from logbus.testing import Broker, BrokerFailed
from logbus.testing.waiting import wait_until
from tests.interop.test_conditions import wrong
from tests.interop.test_workers import PARTITIONS, SECONDS, admin, content, create, is_running, leaders, workers

pytestmark = pytest.mark.long

HIT = 1
"""The worker to which it happens."""


@pytest.fixture(scope="module")
def machine() -> Iterator[Broker]:
    """Two workers; each test has a topic of its own, and leaves both well."""
    # However full the disk really is.
    space = {"log.dir.space.check.interval.ms": 1000, "log.dir.usage.warn.ratio": 1}
    with Broker({"workers": 2, "workers.answer.timeout.ms": 5000, **space}) as broker:
        yield broker


def process_of(broker: Broker, number: int) -> int:
    """The process of a worker, as its directory has it."""
    directory = broker.data_dir / "workers" / str(number) if number else broker.data_dir
    return int((directory / ".lock").read_text())


def readiness(broker: Broker) -> list[str]:
    """What the HTTP interface says is wrong."""
    try:
        with urllib.request.urlopen(f"{broker.admin_url}/readyz", timeout=SECONDS) as answer:
            told = json.load(answer)
    except urllib.error.HTTPError as refused:
        told = json.load(refused)
    assert told["ready"] == (not told["reasons"])
    return list(told["reasons"])


def is_led_everywhere(broker: Broker, topic: str) -> bool:
    """Whether each of two workers knows both, and a leader of each partition."""
    known = admin(broker).list_topics(timeout=SECONDS).brokers.values()
    asked = [AdminClient({"bootstrap.servers": f"{each.host}:{each.port}"}) for each in known]
    told = [each.list_topics(topic, timeout=SECONDS) for each in asked]
    return len(told) == 2 and all(
        len(each.brokers) == 2 and all(partition.leader >= 0 for partition in each.topics[topic].partitions.values())
        for each in told
    )


class Writer:
    """
    An idempotent producer that tries again for longer than anything here lasts.

    :ivar acknowledged: values, by partition.
    """

    def __init__(self, broker: Broker, topic: str) -> None:
        self.acknowledged: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
        self._topic = topic
        self._refused: list[KafkaError] = []
        settings = {"bootstrap.servers": broker.bootstrap, "acks": "all", "enable.idempotence": True, "log_level": 0}
        self._producer = Producer({**settings, "retry.backoff.max.ms": 200, "reconnect.backoff.max.ms": 300})

    def write(self, values: range) -> None:
        """Send each value, to a partition of its own choice."""
        for value in values:
            self._producer.produce(self._topic, b"%d" % value, partition=value % PARTITIONS, on_delivery=self._told)

    def has(self, count: int, *partitions: int) -> bool:
        """Whether so many values of each of some partitions were acknowledged."""
        self._producer.poll(0)
        return all(len(self.acknowledged[each]) == count for each in partitions)

    def finish(self) -> None:
        """Have everything acknowledged."""
        assert self._producer.flush(SECONDS) == 0
        assert self._refused == []

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused.append(error)
        else:
            self.acknowledged[message.partition() or 0].append(int(message.value() or b""))


def test_a_full_disk(machine: Broker) -> None:
    """
    What its worker leads is refused, and can be read; the other goes on. A line and the readiness name the directory.
    With room again it serves, without a restart.
    """
    create(machine, "full")
    led = leaders(machine, "full")
    on_hit = [number for number, leader in led.items() if leader == HIT]
    others = [number for number, leader in led.items() if leader != HIT]
    assert len(on_hit) == len(others) == PARTITIONS // 2
    writer = Writer(machine, "full")
    writer.write(range(100))
    writer.finish()
    hit = process_of(machine, HIT)
    # No file of it can grow.
    before = resource.prlimit(hit, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    try:
        writer.write(range(100, 200))
        wait_until(lambda: writer.has(50, *others), "records of the other worker")
        directory = machine.data_dir / "workers" / str(HIT)
        machine.wait_logged(f"log directory {directory} is full: no space to append", timeout=SECONDS)
        wait_until(lambda: any(f"log directory {directory} is full" in each for each in readiness(machine)), "a reason")
        assert writer.has(25, *on_hit)
        assert [value for value in content(machine, "full") if value < 100] == list(range(100))
        # Half of what is created now cannot be brought up.
        with pytest.raises(KafkaException, match="no space to"):
            create(machine, "late")
    finally:
        resource.prlimit(hit, resource.RLIMIT_FSIZE, before)
    writer.finish()
    machine.wait_logged(f"log directory {directory} has space again", timeout=SECONDS)
    # Workers hear of each other's reasons once a second.
    wait_until(lambda: readiness(machine) == [], "readiness")
    # It registers again to lead what could not be brought up, and is absent for a moment.
    wait_until(lambda: is_led_everywhere(machine, "late"), "leaders of the new topic")
    assert content(machine, "full") == list(range(200))
    writer = Writer(machine, "late")
    writer.write(range(100))
    writer.finish()
    assert content(machine, "late") == list(range(100))
    assert process_of(machine, HIT) == hit


def test_a_worker_that_stands_still(machine: Broker) -> None:
    """It is killed when it has not answered for as long as is set, and another takes its place, with its records."""
    create(machine, "still")
    writer = Writer(machine, "still")
    writer.write(range(100))
    writer.finish()
    hit = process_of(machine, HIT)
    os.kill(hit, signal.SIGSTOP)
    writer.write(range(100, 200))
    wait_until(lambda: hit not in workers(machine), "the end of the worker")
    machine.wait_logged("worker 1 ended by signal SIGKILL; it is started again in", timeout=SECONDS)
    assert f"worker 1 (process {hit}) has not answered for 5 s: it is killed" in machine.output
    writer.finish()
    wait_until(lambda: readiness(machine) == [], "readiness")
    assert len(workers(machine)) == 2
    assert content(machine, "still") == list(range(200))


def test_a_supervisor_that_stands_still() -> None:
    """
    Sessions of workers end, as it has their metadata store. They serve meanwhile, and say so; when it goes on, all is
    well by itself.
    """
    with Broker({"workers": 2, "zookeeper.session.timeout.ms": 1000}) as broker:
        create(broker, "still")
        writer = Writer(broker, "still")
        writer.write(range(100))
        writer.finish()
        before = workers(broker)
        broker.freeze()
        try:
            wait_until(lambda: "metadata-store-away" in wrong(broker), "a condition")
            writer.write(range(100, 200))
            writer.finish()
            assert content(broker, "still") == list(range(200))
        finally:
            broker.thaw()
        wait_until(lambda: wrong(broker) == {}, "its end")
        writer.write(range(200, 300))
        writer.finish()
        assert workers(broker) == before
        create(broker, "later")
        assert content(broker, "still") == list(range(300))


@pytest.mark.parametrize("moment", ["as it begins", "while another stops", "when another has stopped"])
def test_a_worker_that_dies_as_its_machine_stops(moment: str, tmp_path: Path) -> None:
    """The last one stops first. Whichever dies, and when, the rest stop in order, and the next start finds all."""
    with Broker({"workers": 2}, data_dir=tmp_path) as broker:
        create(broker, "orders")
        writer = Writer(broker, "orders")
        writer.write(range(100))
        writer.finish()
        first, last = process_of(broker, 0), process_of(broker, 1)
        os.kill(broker.pid, signal.SIGTERM)
        if moment == "as it begins":
            os.kill(last, signal.SIGKILL)
        else:
            if moment == "when another has stopped":
                wait_until(lambda: not is_running(last), "the end of the last worker")
            with suppress(ProcessLookupError):
                os.kill(first, signal.SIGKILL)
        broker.stop()
        assert not any(map(is_running, (first, last)))
        broker.start()
        assert content(broker, "orders") == list(range(100))


def test_a_worker_that_stands_still_as_its_machine_stops(tmp_path: Path) -> None:
    """It is killed when it has not answered for as long as is set; the others stop in order."""
    with Broker({"workers": 2, "workers.answer.timeout.ms": 3000}, data_dir=tmp_path) as broker:
        create(broker, "orders")
        writer = Writer(broker, "orders")
        writer.write(range(100))
        writer.finish()
        os.kill(process_of(broker, HIT), signal.SIGSTOP)
        broker.stop()
        broker.start()
        assert content(broker, "orders") == list(range(100))


def test_the_disk_of_the_metadata_store_is_full(small_disk: Path) -> None:
    """Topics cannot be created, and records are read. With room again all goes on, without a restart."""
    space = {"log.dir.space.check.interval.ms": 1000, "log.dir.usage.warn.ratio": 1}
    with Broker({"workers": 2, **space}, data_dir=small_disk / "data") as broker:
        create(broker, "orders")
        writer = Writer(broker, "orders")
        writer.write(range(100))
        writer.finish()
        before = workers(broker)
        ballast = small_disk / "ballast"
        with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
            while True:
                file.write(bytes(4096))
        with pytest.raises(KafkaException):
            for number in range(1000):
                create(broker, f"refused-{number}")
        wait_until(lambda: any("is full" in each for each in readiness(broker)), "a reason")
        assert content(broker, "orders") == list(range(100))
        ballast.unlink()
        wait_until(lambda: readiness(broker) == [], "readiness")
        create(broker, "later")
        writer.write(range(100, 200))
        writer.finish()
        assert content(broker, "orders") == list(range(200))
        assert workers(broker) == before
        broker.restart()
        assert content(broker, "orders") == list(range(200))


def test_a_worker_that_dies_as_its_machine_first_starts(tmp_path: Path) -> None:
    """Nothing runs then, with a line that says why; the next start finds nothing in its way."""
    with closing(Broker({"workers": 2}, data_dir=tmp_path)) as broker:
        while True:
            broker.launch()
            wait_until(lambda: bool(workers(broker)), "a worker")
            os.kill(workers(broker)[-1], signal.SIGKILL)
            try:
                broker.wait_ready()
            except BrokerFailed as failed:
                assert "worker" in str(failed)
                assert "ended by signal SIGKILL before it was ready" in str(failed)
                break
            # It was too late. As if it had never been started:
            broker.kill()
        broker.start()
        create(broker, "orders")
        writer = Writer(broker, "orders")
        writer.write(range(100))
        writer.finish()
        assert content(broker, "orders") == list(range(100))
