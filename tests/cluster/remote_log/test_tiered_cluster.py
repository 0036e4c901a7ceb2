"""A cluster with tiered storage: leaders change, brokers are killed, a follower begins from nothing, a topic goes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.request import urlopen
from uuid import UUID

import pytest
from confluent_kafka import Producer

from logbus.broker import tiered_storage
from logbus.cluster.remote_log.deleted_topics import DeletedTopics
from logbus.cluster.remote_log.metadata_topic import number_for
from logbus.model import REMOTE_LOG_METADATA_TOPIC
from logbus.storage.remote import segment_upload
from logbus.testing.local_cluster import LocalBroker, LocalCluster
from logbus.testing.temporary import temporary_directory
from logbus.testing.waiting import wait_until

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


def remote_reads(broker: LocalBroker) -> float:
    """How often a broker has read objects in the store."""
    with urlopen(f"{broker.admin_url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("logbus_remote_fetch_requests_total"))


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
        # A follower that begins from nothing: only what its leader has locally is copied, wherever it is killed.
        led, follower = cluster.leader("t"), cluster.followers("t")[0]
        follower.stop()
        shutil.rmtree(follower.data_dir)
        read_before = remote_reads(led)
        for _ in range(3):
            follower.start()
            follower.kill()
        follower.start()
        cluster.wait_in_sync("t")
        assert remote_reads(led) == read_before
        assert min(int(path.stem) for path in (follower.data_dir / "t-0").glob("*.log")) > 100
        cluster.move_leader("t", to=follower)
        check()
        produce(40)
        check()


def test_a_deletion_whose_leader_dies(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remote segments of a deleted topic are all deleted, though the broker that does it is killed meanwhile."""
    monkeypatch.setattr(tiered_storage, "DeletedTopics", partial(DeletedTopics, grace_seconds=0.5))
    one_by_one, delete = Lock(), segment_upload.delete

    def slowly(*arguments: Any) -> None:
        with one_by_one:
            time.sleep(0.3)
            delete(*arguments)

    with LocalCluster(3, {**CONFIG, "remote.log.storage.uri": f"file://{store}"}) as cluster:
        cluster.admin.create_topic("t", 1, 3, **TIERED)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "batch.size": 1000})
        for i in range(100):
            producer.produce("t", f"{i:08d}" + "x" * 300)
        assert producer.flush(SECONDS) == 0
        wait_until(lambda: len(objects(store)) >= 8, "copies", SECONDS)
        monkeypatch.setattr(segment_upload, "delete", slowly)
        cluster.admin.delete_topic("t")
        wait_until(lambda: len(objects(store)) < 8, "deletions", SECONDS)
        # The leader of the metadata topic's partition deletes them; all brokers log to one place.
        topic_id = UUID(next(store.iterdir()).name.removeprefix("t-0-"))
        deleting = cluster.leader(REMOTE_LOG_METADATA_TOPIC, number_for(topic_id, 0, 2))
        deleting.kill()
        assert objects(store)
        wait_until(lambda: not [path for path in store.rglob("*") if path.is_file()], "the rest to go", SECONDS)
