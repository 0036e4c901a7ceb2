"""Mirrors of brokers that are full, old, or others than before; each ends with the audit's proof."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from logbus.testing import Broker
from tests.mirror.secured import LOGBUS, SECONDS, RunningMirror

pytestmark = pytest.mark.long


def create(broker: Broker, topic: str = "orders") -> None:
    """Create a topic of one partition."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(SECONDS)


def write(broker: Broker, *values: str) -> None:
    """Write records."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for each in values:
        producer.produce("orders", each)
    assert producer.flush(SECONDS) == 0


@contextmanager
def mirror(source: Broker, target: Broker, *more: str) -> Iterator[RunningMirror]:
    """A mirror that looks at topics each second."""
    running = RunningMirror(
        *("--from", source.bootstrap, "--to", target.bootstrap, "--refresh-interval", "1", "--interval", "0.2"),
        *("--heartbeat-interval", "0", "--checkpoint-interval", "0", *more),
    )
    try:
        yield running
    finally:
        running.stop()


def audit(source: Broker, target: Broker) -> subprocess.CompletedProcess[str]:
    """What the audit says, once everything was copied."""
    command = [LOGBUS, "audit", "mirror", "--from", source.bootstrap, "--to", target.bootstrap, "--wait", str(SECONDS)]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)


def test_full_target() -> None:
    """While the target's disk is full, a line says so; with room again, the mirror goes on, and repeats nothing."""
    with Broker() as source, Broker() as target:
        create(source)
        write(source, "1", "2")
        with mirror(source, target) as running:
            running.line("created source.orders")
            assert audit(source, target).returncode == 0
            with target.fill_disk():
                write(source, "3")
                running.line("the target target has not taken the records of a transaction for 10 s|aborted")
            write(source, "4")
            found = audit(source, target)
            assert found.returncode == 0, (found.stdout, running.lines)


def test_full_source() -> None:
    """While the source's disk is full, no heartbeat can be written there, which a line says; its records are copied."""
    with Broker() as source, Broker() as target:
        create(source)
        write(source, "1", "2")
        with mirror(source, target, "--heartbeat-interval", "0.5", "--topics", "orders") as running:
            running.line("created source.heartbeats")
            with source.fill_disk():
                running.line("no heartbeats at the source: .*; records are copied all the same")
                found = audit(source, target)
                assert found.returncode == 0, (found.stdout, running.lines)
            running.line("heartbeats of the source: goes on")
            write(source, "3")
            found = audit(source, target)
            assert found.returncode == 0, (found.stdout, running.lines)


@pytest.mark.parametrize(("source_version", "target_version"), [("2.1", None), (None, "2.1"), ("2.8", "2.1")])
def test_old_sides(source_version: str | None, target_version: str | None) -> None:
    """Either side may be of an old version: everything is copied, and that is proved."""
    with Broker(as_version=source_version) as source, Broker(as_version=target_version) as target:
        create(source)
        write(source, "1", "2")
        for _ in range(2):
            write(source, "3")
            with mirror(source, target, "--until-end") as running:
                assert running.end() == 0, running.lines
        found = audit(source, target)
        assert found.returncode == 0, (found.stdout, found.stderr)


def test_another_source() -> None:
    """If another cluster is in the place of the source, nothing of it comes behind the records of the former one."""
    with Broker() as source, Broker() as target:
        create(source)
        write(source, "1", "2")
        with mirror(source, target) as running:
            running.line("created source.orders")
            assert audit(source, target).returncode == 0
            source.stop()
            shutil.rmtree(source.data_dir)
            source.data_dir.mkdir()
            source.start()
            create(source)
            write(source, "a", "b", "c", "d")
            running.line("topic orders: it was deleted and created anew at the source; delete source.orders")
            assert "unknown" in audit(source, target).stdout
        assert running.lines[-2].startswith("copied 2 records"), running.lines
