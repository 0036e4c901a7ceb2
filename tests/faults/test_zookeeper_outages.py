"""ZooKeeper is killed, expires sessions, or loses its leader; records are written and read meanwhile."""

from __future__ import annotations

import time

from logbus.metastore.znodes import BROKER_IDS
from logbus.testing.cluster import Cluster
from tests.faults.conftest import FAULTY_CONFIG, load
from tests.faults.nemesis import Nemesis
from tests.faults.traffic import Traffic, create

OUTAGE_SECONDS = 20.0


def test_killed_for_twenty_seconds(cluster: Cluster, nemesis: Nemesis) -> None:
    """
    Writes and reads go on all the time, for much longer than sessions last, and nobody is elected. When ZooKeeper is
    back everything can be changed again, without a restart.

    ZooKeeper begins to count every session's time anew when it comes back: a broker that was not quick enough for its
    two seconds is a younger one then, and may have lost its partitions.
    """
    with load(cluster, at_least=2000, partitions=3) as traffic:
        pids = [broker.pid for broker in cluster.brokers]
        epochs = [broker.epoch for broker in cluster.brokers]
        before = [cluster.state(traffic.topic, partition) for partition in range(3)]
        begin = time.monotonic()
        cluster.zookeeper.kill()
        while time.monotonic() - begin < OUTAGE_SECONDS:
            traffic.more(100)
        assert traffic.worst_pause < traffic.allowed(2.0)
        cluster.zookeeper.start()
        after = [cluster.state(traffic.topic, partition) for partition in range(3)]
        cluster.tree.wait_for(lambda: cluster.tree.children(BROKER_IDS) == ["0", "1", "2"], "all registrations")
        if [broker.epoch for broker in cluster.brokers] == epochs:
            assert [state and (state.leader, state.leader_epoch) for state in after] == [
                state and (state.leader, state.leader_epoch) for state in before
            ]
        cluster.controller()
        cluster.wait_in_sync()
        create(cluster, f"{traffic.topic}-after")
        hit = cluster.leader(traffic.topic)
        with nemesis.killed(hit):
            cluster.leader(traffic.topic, other_than=hit)
            traffic.more(100)
        assert [broker.pid for broker in cluster.brokers if broker is not hit] == [
            pid for pid, broker in zip(pids, cluster.brokers, strict=True) if broker is not hit
        ]


def test_sessions_expire(cluster: Cluster, nemesis: Nemesis) -> None:
    """Each broker's session in turn, and all at once: each registers once more, as a younger one."""
    with load(cluster, at_least=500, partitions=3) as traffic:
        for broker in cluster.brokers:
            nemesis.expire(broker)
            traffic.more(50)
        cluster.wait_in_sync(traffic.topic)
        epochs = [broker.epoch for broker in cluster.brokers]
        for broker in cluster.brokers:
            broker.expire_session()
        for broker, epoch in zip(cluster.brokers, epochs, strict=True):
            cluster.wait_back(broker, after=epoch)
        settled = [broker.epoch for broker in cluster.brokers]
        traffic.more(200)
        cluster.wait_in_sync(traffic.topic)
        assert [broker.epoch for broker in cluster.brokers] == settled
    assert nemesis.injected.total() == 3


def test_the_ensembles_leader_is_lost() -> None:
    """Three servers elect another; brokers lead on, and change what they want to."""
    with Cluster(config=FAULTY_CONFIG, zookeepers=3) as cluster:
        nemesis = Nemesis(cluster)
        with load(cluster, at_least=500) as traffic:
            lost = cluster.zookeeper.leader
            cluster.zookeeper.kill(lost)
            traffic.more(200)
            create(cluster, "made-meanwhile")
            hit = cluster.leader(traffic.topic)
            with nemesis.killed(hit):
                cluster.leader(traffic.topic, other_than=hit)
                traffic.more(200)
            assert cluster.zookeeper.leader != lost
            cluster.zookeeper.start()


def test_frozen_for_longer_than_sessions_last(cluster: Cluster) -> None:
    """ZooKeeper answers nothing, with its connections open: the data plane does not wait for it."""
    with load(cluster, at_least=500) as traffic:
        cluster.zookeeper.freeze()
        try:
            begin = time.monotonic()
            while time.monotonic() - begin < 6:
                traffic.more(50)
            assert traffic.worst_pause < traffic.allowed(2.0)
        finally:
            cluster.zookeeper.thaw()
        wait_registered(cluster, traffic)


def wait_registered(cluster: Cluster, traffic: Traffic) -> None:
    """All brokers are there again, and the topic is whole."""
    cluster.tree.wait_for(lambda: cluster.tree.children(BROKER_IDS) == ["0", "1", "2"], "all registrations")
    cluster.wait_in_sync(traffic.topic)
