"""A broker with an S3 store that is killed at each of its requests, and a store that is away for a while."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define
from confluent_kafka import Producer

from logbus.testing.broker import Broker
from logbus.testing.waiting import wait_until

pytest.importorskip("s3fs")
pytest.importorskip("moto")

from tests.pipeline.s3_server import S3Server

SECONDS = 120
RECORDS = 40


@define(eq=False)
class WatchedServer(S3Server):
    """A server that tells of each request before it is answered."""

    before: Callable[[], None] = lambda: None

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        self.before()
        return super()._answer(environ, start)


@pytest.fixture
def s3() -> Iterator[WatchedServer]:
    """A server with a bucket."""
    with WatchedServer("tiers") as server:
        yield server


def a_broker(s3: S3Server, data_dir: Path) -> Broker:
    """A process whose store is the bucket."""
    config = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.uri": "s3://tiers/logs",
        "remote.log.storage.options": json.dumps({"endpoint_url": s3.url, "key": "test", "secret": "test"}),
        "remote.log.manager.task.interval.ms": "200",
        "remote.log.metadata.topic.num.partitions": "1",
        "log.retention.check.interval.ms": "200",
        "log.flush.offset.checkpoint.interval.ms": "200",
    }
    return Broker(config, data_dir=data_dir, in_process=False)


def produce(broker: Broker) -> list[str]:
    """Fill a topic with remote storage: some segments of ten records; their values."""
    tiered = {"remote.storage.enable": "true", "segment.bytes": "4096", "local.retention.bytes": "1"}
    broker.admin.create_topic("t", 1, 1, **tiered)
    values = [f"{i:08d}" + "x" * 300 for i in range(RECORDS)]
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0, "batch.size": 1000})
    for value in values:
        producer.produce("t", value)
    assert producer.flush(SECONDS) == 0
    return values


def values_in(broker: Broker) -> list[str]:
    """The values of the topic."""
    return [record.value.decode() for record in broker.read("t", timeout=SECONDS) if record.value is not None]


def local_start(broker: Broker) -> int:
    """Base offset of the first local segment."""
    return min(int(path.stem) for path in (Path(broker.data_dir) / "t-0").glob("*.log"))


def objects_of(s3: S3Server) -> list[str]:
    """The names of all objects."""
    import s3fs

    store = s3fs.S3FileSystem(endpoint_url=s3.url, key="test", secret="test", use_listings_cache=False)
    return [path.rpartition("/")[2] for path in store.find("tiers/logs")]


def test_killed_at_each_request(s3: WatchedServer, tmp_path: Path) -> None:
    """No record is lost, and the objects of copies that did not end are deleted."""
    broker = a_broker(s3, tmp_path)
    left = 3

    def count() -> None:
        nonlocal left
        left -= 1
        if not left:
            broker.kill()

    try:
        broker.start()
        s3.before = count
        values = produce(broker)
        kills = 0
        while True:
            try:
                wait_until(lambda: not broker.running or local_start(broker) >= 30, "copies, or a kill", SECONDS)
            except FileNotFoundError:
                continue
            if broker.running:
                break
            kills += 1
            # A little further each time.
            left = 3 + 2 * kills
            broker.start()
            assert values_in(broker) == values
        assert kills > 3
        s3.before = lambda: None
        assert values_in(broker) == values
        names = objects_of(s3)
        segments = sorted({name.partition(".")[0] for name in names})
        assert [int(name.partition("-")[0]) for name in segments] == [0, 10, 20]
        assert sorted(name.partition(".")[2] for name in names if name.startswith(segments[0])) == [
            "chunks", "index", "leader-epochs", "log", "snapshot", "timeindex",
        ]  # fmt: skip
    finally:
        broker.close()


def test_the_store_is_away(s3: WatchedServer, tmp_path: Path) -> None:
    """Segments stay, one warning is logged, and one line when it is back; nothing is lost."""
    broker = a_broker(s3, tmp_path)
    try:
        broker.start()
        s3.failing = 1.0
        values = produce(broker)
        broker.wait_logged("remote storage is away", timeout=SECONDS)
        assert local_start(broker) == 0
        assert values_in(broker) == values
        s3.failing = 0.0
        wait_until(lambda: local_start(broker) >= 30, "copies", SECONDS)
        lines = broker.log_lines()
        assert len([line for line in lines if "remote storage is away" in line]) == 1
        assert len([line for line in lines if "works again" in line]) == 1
        assert values_in(broker) == values
    finally:
        broker.close()
