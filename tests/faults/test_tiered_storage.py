"""A broker that is killed at each request to its store, and a store that is away for a while: S3 and GCS."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from attrs import define
from confluent_kafka import Producer

from logbus.errors import LogbusError
from logbus.storage.remote.fsspec_storage import FsspecStorage
from logbus.testing.broker import Broker
from logbus.testing.waiting import wait_until

pytest.importorskip("s3fs")
pytest.importorskip("moto")
pytest.importorskip("gcp_storage_emulator")

from tests.pipeline.s3_server import S3Server
from tests.storage.remote.gcs_emulator import GcsEmulator

SECONDS = 120
RECORDS = 40


@define(eq=False)
class WatchedServer(S3Server):
    """A server that tells of each request before it is answered."""

    before: Callable[[], None] = lambda: None

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        self.before()
        return super()._answer(environ, start)


Server: TypeAlias = WatchedServer | GcsEmulator


@pytest.fixture(params=["s3", "gs"])
def store(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server with a bucket."""
    with WatchedServer("tiers") if request.param == "s3" else GcsEmulator("tiers") as server:
        yield server


def location(server: Server) -> tuple[str, dict[str, Any]]:
    """The store's URL and options."""
    if isinstance(server, GcsEmulator):
        return "gs://tiers/logs", server.options
    return "s3://tiers/logs", {"endpoint_url": server.url, "key": "test", "secret": "test"}


def a_broker(server: Server, data_dir: Path) -> Broker:
    """A process whose store is the bucket."""
    uri, options = location(server)
    config = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.uri": uri,
        "remote.log.storage.options": json.dumps(options),
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


def objects_of(server: Server) -> list[str]:
    """The names of all objects."""
    store = FsspecStorage.open(*location(server))
    return [name for directory in store.names("") for name in store.names(directory)]


def test_killed_at_each_request(store: Server, tmp_path: Path) -> None:
    """No record is lost, and the objects of copies that did not end are deleted."""
    broker = a_broker(store, tmp_path)
    left, is_started = 3, False

    def count() -> None:
        # Not while it starts: nobody would know then that it was killed.
        nonlocal left, is_started
        left -= 1
        if left <= 0 and is_started:
            is_started = False
            broker.kill()

    try:
        broker.start()
        is_started = True
        store.before = count
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
            is_started = True
            try:
                assert values_in(broker) == values
            except LogbusError:
                # Reading takes requests to the store, too.
                assert left <= 0
        assert kills > 3
        store.before = lambda: None
        assert values_in(broker) == values
        names = objects_of(store)
        segments = sorted({name.partition(".")[0] for name in names})
        assert [int(name.partition("-")[0]) for name in segments] == [0, 10, 20]
        assert sorted(name.partition(".")[2] for name in names if name.startswith(segments[0])) == [
            "chunks", "index", "leader-epochs", "log", "snapshot", "timeindex",
        ]  # fmt: skip
        broker.admin.delete_topic("t")
        wait_until(lambda: not objects_of(store), "the topic's objects to be deleted", SECONDS)
    finally:
        broker.close()


def test_the_store_is_away(store: Server, tmp_path: Path) -> None:
    """Segments stay, one warning is logged, and one line when it is back; nothing is lost."""
    broker = a_broker(store, tmp_path)
    try:
        broker.start()
        store.failing = 1.0
        values = produce(broker)
        broker.wait_logged("remote storage is away", timeout=SECONDS)
        assert local_start(broker) == 0
        assert values_in(broker) == values
        store.failing = 0.0
        wait_until(lambda: local_start(broker) >= 30, "copies", SECONDS)
        lines = broker.log_lines()
        assert len([line for line in lines if "remote storage is away" in line]) == 1
        assert len([line for line in lines if "works again" in line]) == 1
        assert values_in(broker) == values
    finally:
        broker.close()
