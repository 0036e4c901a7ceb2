"""A cluster with tiered storage: leaders change, brokers are killed, a follower begins from nothing, a topic goes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from logbus.testing.local_cluster import LocalCluster
from logbus.testing.temporary import temporary_directory

pytest.importorskip("fsspec")

SECONDS = 120

CONFIG = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "remote.log.metadata.topic.num.partitions": "2",
    "remote.log.metadata.topic.replication.factor": "2",
    "log.retention.check.interval.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "200",
}
TIERED = {"remote.storage.enable": "true", "segment.bytes": "4096", "local.retention.bytes": "1"}


@pytest.fixture
def store() -> Iterator[Path]:
    """The directory of the store."""
    path = Path(temporary_directory("logbus-store-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def objects(store: Path) -> list[str]:
    """The objects of records in the store."""
    return sorted(path.name for path in store.rglob("*.log"))


def test_a_cluster(store: Path) -> None:
    """Nothing is lost when leaders change and brokers are killed, whether it is local or in the store."""
    config = {
        **CONFIG,
        "remote.log.storage.uri": f"file://{store}",
        "remote.log.metadata.topic.replication.factor": "2",
    }
    with LocalCluster(3, config) as cluster:
        cluster.admin.create_topic("t", 1, 3, **TIERED)
        values: list[str] = []

        def produce(count: int) -> None:
            fresh = [f"{len(values) + i:08d}" + "x" * 300 for i in range(count)]
            producer = Producer(
                {"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0, "batch.size": 1000}
            )
            for value in fresh:
                producer.produce("t", value)
            assert producer.flush(SECONDS) == 0
            values.extend(fresh)

        def local_starts() -> list[int]:
            return [
                min(int(path.stem) for path in (broker.data_dir / "t-0").glob("*.log"))
                for broker in cluster.brokers
                if broker.running
            ]

        def check() -> None:
            found = cluster.read("t", timeout=SECONDS)
            assert [record.value.decode() for record in found] == values

        produce(60)
        cluster.wait_until(lambda: min(local_starts()) > 0 or None, "local segments to go")
        check()
        for _ in range(2):
            led = cluster.leader("t")
            led.kill()
            cluster.leader("t", other_than=led)
            produce(40)
            check()
            led.start()
            cluster.wait_in_sync("t")
        cluster.wait_until(lambda: min(local_starts()) > 100 or None, "more local segments to go")
        check()
        # A follower that begins from nothing.
        follower = cluster.followers("t")[0]
        follower.stop()
        shutil.rmtree(follower.data_dir)
        follower.start()
        cluster.wait_in_sync("t")
        cluster.move_leader("t", to=follower)
        check()
        cluster.admin.delete_topic("t")
