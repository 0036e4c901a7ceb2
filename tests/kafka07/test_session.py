"""A broker that speaks Kafka 0.7 beside Kafka's protocol: clients of both on the same topics."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from logbus.testing.broker_process import BrokerProcess
from tests.kafka07 import client as old
from tests.kafka07.client import Client

TIMEOUT = 60.0
LISTEN = ("kafka:tcp:0:interface=127.0.0.1", "old=kafka07:tcp:0:interface=127.0.0.1")


def started(directory: Path, **config: str) -> BrokerProcess:
    """A broker with both protocols."""
    settings = {"log.retention.check.interval.ms": "600000"} | {k.replace("_", "."): v for k, v in config.items()}
    broker = BrokerProcess(settings, directory, LISTEN, with_parent=True)
    broker.wait_ready(TIMEOUT)
    return broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker, whose listener ``old`` speaks 0.7."""
    running = started(tmp_path / "data")
    yield running
    if running.process.poll() is None:
        running.stop(TIMEOUT)


def modern_read(broker: BrokerProcess, topic: str, count: int) -> list[Any]:
    """The first messages of a topic's partition 0, by librdkafka."""
    consumer = Consumer({"bootstrap.servers": broker.addresses["kafka"], "group.id": "g", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Any] = []
        deadline = time.monotonic() + TIMEOUT
        while len(found) < count and time.monotonic() < deadline:
            found += [each for each in consumer.consume(count - len(found), 1.0) if each.error() is None]
        return found
    finally:
        consumer.close()


def modern_write(broker: BrokerProcess, topic: str, *values: bytes | None, codec: str = "none") -> None:
    """Write with keys and headers, by librdkafka, in one batch if it can."""
    producer = Producer({"bootstrap.servers": broker.addresses["kafka"], "compression.type": codec, "linger.ms": 50})
    for value in values:
        producer.produce(topic, value, b"key", partition=0, headers={"h": b"v"})
    assert producer.flush(TIMEOUT) == 0


def test_in_and_out_beside_a_kafka_client(broker: BrokerProcess) -> None:
    """
    What a 0.7 client writes, of both magics and compressed, a Kafka client reads; and the other way round.
    """
    with Client(broker.addresses["old"]) as client:
        client.send(old.produce("t", 0, old.message(b"a", magic=0), old.message(b"b")))
        client.send(old.produce("t", 0, old.compressed(old.GZIP, old.message(b"c"), old.message(b"d", magic=0))))
        client.send(
            old.multi_produce(("t", 0, old.compressed(old.SNAPPY, old.message(b"e"))), ("u", 0, old.message(b"f")))
        )
        assert [each.payload for each in client.read_all("t", 0, 0, 5)] == [b"a", b"b", b"c", b"d", b"e"]
        assert [(each.key(), each.value()) for each in modern_read(broker, "t", 5)] == [
            (None, value) for value in (b"a", b"b", b"c", b"d", b"e")
        ]
        (end,) = client.offsets("t", 0, old.LATEST)
        modern_write(broker, "t", b"g" * 1000, None, b"", codec="gzip")
        modern_write(broker, "t", b"h", codec="zstd")
        found = client.read_all("t", 0, end, 4)
        assert [each.payload for each in found] == [b"g" * 1000, b"", b"", b"h"]
        # Every message is at the offset where the one before it ended, and one may begin there.
        for each, following in pairwise(found):
            assert client.fetch("t", 0, each.next_offset)[0][0] == following
        parts = old.read_multi(
            client.ask(old.multi_fetch(("t", 0, found[2].next_offset, 1000), ("u", 0, 0, 1000), ("u", 9, 0, 1000)))
        )
        assert old.read_set(old.checked(parts[0]), 0)[0][0].payload == b"h"
        assert old.read_set(old.checked(parts[1]), 0)[0][0].payload == b"f"
        with pytest.raises(old.Failed) as failed:
            old.checked(parts[2])
        assert failed.value.code == 3
        assert client.offsets("t", 0, old.EARLIEST) == [0]
        assert client.offsets("t", 0, old.LATEST, 10) == [found[-1].next_offset, 0]


def test_positions_outlive_restarts_and_retention(broker: BrokerProcess, tmp_path: Path) -> None:
    """
    A position means the same message after kill -9, a stop, and when what was before it is deleted.
    """
    with Client(broker.addresses["old"]) as client:
        for n in range(40):
            client.send(old.produce("t", 0, *(old.message(b"%d-%d" % (n, m) + bytes(997)) for m in range(100))))
        found = client.read_all("t", 0, 0, 4000)
    broker.kill()
    again = started(tmp_path / "data")
    try:
        with Client(again.addresses["old"]) as client:
            for n in (0, 777, 1999, 3998):
                assert client.fetch("t", 0, found[n].next_offset)[0][0] == found[n + 1]
            assert client.offsets("t", 0, old.LATEST) == [found[-1].next_offset]
        again.stop(TIMEOUT)
        again = started(tmp_path / "data")
        delete_before(again, "t", 1500)
        with Client(again.addresses["old"]) as client:
            assert client.offsets("t", 0, old.EARLIEST) == [found[1499].next_offset]
            assert client.fetch("t", 0, found[1499].next_offset)[0][0] == found[1500]
            assert client.fetch("t", 0, found[2500].next_offset)[0][0] == found[2501]
            for position in (0, found[1498].next_offset, found[1500].next_offset + 1, found[-1].next_offset + 1):
                with pytest.raises(old.Failed) as failed:
                    client.fetch("t", 0, position)
                assert failed.value.code == 1
    finally:
        again.stop(TIMEOUT)


def delete_before(broker: BrokerProcess, topic: str, offset: int) -> None:
    """Delete a partition's first records."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.addresses["kafka"]})
    for done in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        assert done.result(TIMEOUT).low_watermark == offset


def wait_for_lines(broker: BrokerProcess, mark: int) -> list[str]:
    """The lines about closed connections since a mark, once there is one."""
    deadline = time.monotonic() + TIMEOUT
    while not (lines := [line for line in broker.log_lines(mark) if "closing" in line]):
        assert time.monotonic() < deadline, broker.output
        time.sleep(0.01)
    return lines


def test_hostile_frames(broker: BrokerProcess) -> None:
    """
    A connection that sends nonsense is closed, with one line in the log; others go on.
    """
    bad = [
        (b"\x7f\xff\xff\xff", "announces 2147483647 bytes"),
        (b"\xff\xff\xff\xff", "negative length"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (old.framed(b"\x00\x09"), "type 9"),
        (old.framed(b"\x00\x01\x00\x05ab"), "a topic of 5 bytes"),
        (old.produce("t", 0, old.message(b"a")[:-1]), "are left"),
        (old.produce("t", 0, old.message(b"a")[:-1] + b"b"), "CRC"),
        (old.produce("t", 0, old.message(gzip.compress(bytes(100 << 20)), 1, old.GZIP)), "more than"),
    ]
    with Client(broker.addresses["old"]) as good:
        good.send(old.produce("t", 0, old.message(b"a")))
        for n, (data, words) in enumerate(bad):
            mark = broker.log_mark
            # Lines about an address are limited, so each has its own.
            with Client(broker.addresses["old"], source=f"127.0.0.{n + 2}") as client:
                client.send(data)
                assert client.is_closed()
            lines = wait_for_lines(broker, mark)
            assert len(lines) == 1 and words in lines[0], lines
        assert [each.payload for each in good.read_all("t", 0, 0, 1)] == [b"a"]
