"""
A follower whose log is missing, damaged, too short or too long, or cannot grow: it gets in sync again with the same
bytes.
"""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from logbus.records.batch import HEADER_SIZE, Record, encode_batch, iter_batches
from logbus.testing.cluster import Cluster, ClusterBroker
from tests.faults.conftest import load
from tests.faults.nemesis import Nemesis, outside_isr
from tests.faults.partition_logs import batches, directory_of, end_of
from tests.faults.traffic import Traffic

Damage = Callable[[Path], None]


def last_segment(directory: Path) -> Path:
    """The one that was being written to."""
    return max(directory.glob("*.log"))


def emptied(directory: Path) -> None:
    """Everything of the broker is gone, as with a new disk."""
    shutil.rmtree(directory.parent)
    assert not directory.exists()


def flipped(directory: Path) -> None:
    """One bit in the middle of what was written last is another one: in a batch's records, which its CRC is over."""
    path = last_segment(directory)
    data = bytearray(path.read_bytes())
    assert len(data) > 1000
    middle = len(data) // 2
    batch = max(at for at, _ in iter_batches(bytes(data)) if at <= middle)
    data[max(middle, batch + HEADER_SIZE)] ^= 0x10
    path.write_bytes(data)


def cut_short(directory: Path) -> None:
    """The end of the file is missing, in the middle of a batch."""
    path = last_segment(directory)
    size = path.stat().st_size
    with path.open("r+b") as segment:
        segment.truncate(size // 2 + 3)


def ahead(directory: Path) -> None:
    """It has a batch that nobody else has, of its last leadership."""
    path = last_segment(directory)
    data = bytearray(encode_batch([Record(0, 1, None, b"nobody else has this")]))
    at = end_at(path)
    data[:8] = at.to_bytes(8, "big")
    data[12:16] = (0).to_bytes(4, "big")
    with path.open("ab") as segment:
        segment.write(data)


def end_at(path: Path) -> int:
    """The offset after a segment's last record."""
    broker = path.parent.parent
    topic, _, partition = path.parent.name.rpartition("-")
    return max(batch.end for batch in batches(broker, topic, int(partition)))


@pytest.mark.parametrize("damage", [emptied, flipped, cut_short, ahead])
def test_a_damaged_follower(cluster: Cluster, nemesis: Nemesis, damage: Damage) -> None:
    """It comes back with something else than it had, while records are written."""
    with load(cluster, at_least=500) as traffic:
        traffic.more(300)
        # Only who led can have more than the others.
        hit = cluster.leader(traffic.topic) if damage is ahead else cluster.followers(traffic.topic)[0]
        directory = directory_of(hit.data_dir, traffic.topic, 0)
        with nemesis.killed(hit):
            before = directory_bytes(directory)
            damage(directory)
            assert directory_bytes(directory) != before
            traffic.more(100)
        cluster.wait_in_sync(traffic.topic)
    assert nemesis.injected.total() == 1


def flipped_in_place(directory: Path) -> None:
    """One bit near the start of a file that a broker has open is another one: in a batch that was synced long ago."""
    path = last_segment(directory)
    data = path.read_bytes()
    third = [(at, header) for at, header in iter_batches(data[: len(data) // 3]) if header.size > HEADER_SIZE]
    position = third[-2][0] + HEADER_SIZE
    with path.open("r+b") as segment:
        segment.seek(position)
        segment.write(bytes([data[position] ^ 0x10]))


def test_a_damaged_leader(cluster: Cluster, nemesis: Nemesis) -> None:
    """
    A follower that lost its disk cannot copy what is damaged on the leader: the leader finds it, another one leads, and
    all have the same bytes in the end.
    """
    with load(cluster, at_least=800) as traffic:
        traffic.more(400)
        hit, wiped = cluster.leader(traffic.topic), cluster.followers(traffic.topic)[0]
        with nemesis.killed(wiped):
            emptied(directory_of(wiped.data_dir, traffic.topic, 0))
            flipped_in_place(directory_of(hit.data_dir, traffic.topic, 0))
            traffic.more(100)
        cluster.wait_until(
            lambda: metric(hit, "logbus_damaged_segments_repaired_total") == 1, "the repair of the old leader's log"
        )
        cluster.wait_in_sync(traffic.topic)
        assert cluster.leader(traffic.topic) is not hit
    assert_whole(cluster, traffic)


def metric(broker: ClusterBroker, name: str) -> float:
    """A number that a broker shows of itself."""
    with urlopen(f"{broker.admin_url}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def directory_bytes(directory: Path) -> bytes:
    """All segments."""
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


@contextmanager
def full_disk(broker: ClusterBroker, size: int) -> Iterator[None]:
    """No file of a broker can grow beyond ``size`` bytes."""
    old = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    assert old[0] != size
    try:
        yield
    finally:
        if broker.running:
            resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, old)


def test_follower_with_a_full_disk(cluster: Cluster, nemesis: Nemesis) -> None:
    """Its log directory goes offline; the others go on without it. With room again, after a restart, it catches up."""
    with load(cluster, at_least=800) as traffic:
        hit = cluster.followers(traffic.topic)[0]
        with full_disk(hit, 20_000):
            outside_isr(cluster, hit, traffic.topic)
            # What was written before it went may have been acknowledged by all: what comes after it has not.
            traffic.more(300)
            assert end_of(hit.data_dir, traffic.topic, 0) < traffic.acknowledged
        restart(hit, cluster)
    assert_whole(cluster, traffic)


def restart(broker: ClusterBroker, cluster: Cluster) -> None:
    """Have it start anew, whether it ended by itself or not."""
    epoch = broker.epoch
    broker.kill()
    broker.start()
    cluster.wait_back(broker, after=epoch)


def assert_whole(cluster: Cluster, traffic: Traffic) -> None:
    """Everybody has everything."""
    ends = {end_of(broker.data_dir, traffic.topic, 0) for broker in cluster.brokers}
    assert ends == {traffic.acknowledged}


def test_leader_loses_synced_records(cluster: Cluster, nemesis: Nemesis) -> None:
    """It is back within its session, and leads no more: others have what was acknowledged."""
    with load(cluster, at_least=300, partitions=2) as traffic:
        for _ in range(2):
            nemesis.lost_synced(cluster.leader(traffic.topic), traffic.topic)
            traffic.more(100)
            cluster.wait_in_sync(traffic.topic)
    assert nemesis.injected.total() == 2
