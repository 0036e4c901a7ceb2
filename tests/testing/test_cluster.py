"""The test kit's cluster: brokers that are killed, frozen, cut off, and that come back."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from logbus.testing import BrokerFailed, Cluster
from logbus.testing.cluster_roles import known_brokers
from logbus.testing.waiting import WaitTimedOut
from logbus.testing.zookeeper import ZooKeeperFailed

SECONDS = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One for the tests that leave it as they found it."""
    with Cluster(racks=("a", "b", "c")) as running:
        yield running


def create(cluster: Cluster, name: str, partitions: int = 3) -> None:
    """A topic with three replicas."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 3)])[name].result(SECONDS)


def test_serves_and_cleans_up() -> None:
    """Every broker knows all from the first moment; afterwards there is no process, no file and no thread."""
    threads = set(threading.enumerate())
    with Cluster(2) as cluster:
        assert len(cluster.bootstrap.split(",")) == 2
        assert [known_brokers(broker.bootstrap) for broker in cluster.brokers] == [2, 2]
        assert cluster.controller() in cluster.brokers
        pids = [broker.pid for broker in cluster.brokers]
        home = cluster.brokers[0].data_dir.parent
        assert (home / "broker-1" / "meta.properties").exists()
    assert not home.exists()
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    assert set(threading.enumerate()) <= threads


def test_a_leader_is_killed(cluster: Cluster) -> None:
    """Another broker leads; the one that was killed comes back on its ports, with a greater epoch."""
    create(cluster, "kills")
    led = cluster.leader("kills", 1)
    assert led not in cluster.followers("kills", 1)
    assert len(cluster.followers("kills", 1)) == 2
    before, address = led.epoch, led.bootstrap
    led.kill()
    assert led not in cluster.running
    assert cluster.leader("kills", 1, other_than=led) in cluster.running
    led.start()
    assert led.bootstrap == address
    assert cluster.wait_back(led, after=before) > before
    cluster.wait_known()


def test_a_controller_is_frozen(cluster: Cluster) -> None:
    """Another is elected once its session has ended; thawed, it registers again."""
    was = cluster.controller()
    before = was.epoch
    was.freeze()
    try:
        assert cluster.controller(other_than=was) is not was
    finally:
        was.thaw()
    cluster.wait_back(was, after=before)
    cluster.wait_known()


def test_cut_off_from_zookeeper(cluster: Cluster) -> None:
    """A broker that ZooKeeper does not hear of loses its registration, and clients still reach it."""
    broker = cluster.brokers[2]
    before = broker.epoch
    broker.cut_off("zookeeper", way="from")
    try:
        cluster.wait_gone(broker)
        assert known_brokers(broker.bootstrap) >= 1
    finally:
        broker.reconnect()
    assert cluster.wait_back(broker, after=before) > before
    cluster.wait_known()


def test_a_session_expires(cluster: Cluster) -> None:
    """The broker registers again, although nothing happened to it."""
    broker = cluster.brokers[1]
    before, pid = broker.epoch, broker.pid
    broker.expire_session()
    assert cluster.wait_back(broker, after=before) > before
    assert broker.pid == pid
    cluster.wait_known()


def test_wait_timeouts(cluster: Cluster) -> None:
    """A wait ends in time, and says for what it was."""
    with pytest.raises(WaitTimedOut, match=r"all replicas in sync did not come about within 0\.1 s"):
        cluster.wait_in_sync("nothing", timeout=0.1)
    with pytest.raises(WaitTimedOut, match="pigs"):
        cluster.wait_until(lambda: None, "pigs", 0.05)
    assert cluster.state("nothing") is None
    with pytest.raises(ValueError, match="cut_off: way is 'around'; it is both, from or to"):
        cluster.brokers[0].cut_off(way="around")


def test_without_zookeeper() -> None:
    """Where ZooKeeper cannot run there is no cluster, and the message says what to install."""
    with patch("shutil.which", lambda name: None):
        cluster = Cluster(1)
        with pytest.raises(ZooKeeperFailed, match="apt-get install default-jre-headless"), cluster:
            pass
    assert not cluster.brokers[0].data_dir.parent.exists()


@pytest.mark.long
def test_reset_and_snapshots(cluster: Cluster) -> None:
    """A cluster begins where it was when a snapshot was taken: records, topics, brokers, on the same addresses."""

    def write(*values: bytes) -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        for value in values:
            producer.produce("kept", value)
        assert producer.flush(SECONDS) == 0

    create(cluster, "kept", 1)
    write(b"1", b"2")
    before = cluster.bootstrap
    cluster.brokers[0].cut_off()
    with cluster.snapshot() as snapshot:
        assert cluster.bootstrap == before
        create(cluster, "dropped", 1)
        write(b"3")
        cluster.brokers[2].kill()
        cluster.restore(snapshot)
        assert cluster.bootstrap == before
        assert [record.value for record in cluster.read("kept")] == [b"1", b"2"]
        assert "dropped" not in cluster.admin.topics()
        write(b"4")
        assert [record.value for record in cluster.read("kept")] == [b"1", b"2", b"4"]
    with pytest.raises(BrokerFailed, match="the snapshot is closed; take another one"):
        cluster.restore(snapshot)
    with pytest.raises(TypeError, match=r"restore: 'x' is none: expected what Cluster\.snapshot\(\) gives"):
        cluster.restore("x")  # type: ignore[arg-type]
    with pytest.raises(BrokerFailed, match="snapshot: the cluster was not started"):
        Cluster(1).snapshot()
