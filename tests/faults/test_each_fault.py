"""
Leader, follower and controller are killed, frozen and cut off, one after the other, while clients write and read.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from logbus.testing.cluster import Cluster, ClusterBroker
from tests.faults.conftest import load
from tests.faults.nemesis import Nemesis, outside_isr
from tests.faults.traffic import Traffic

Role = Callable[[Cluster, str], ClusterBroker]


def leader(cluster: Cluster, topic: str) -> ClusterBroker:
    """Whether it is the controller, too, does not matter."""
    return cluster.leader(topic)


def follower(cluster: Cluster, topic: str) -> ClusterBroker:
    """One that is not the controller, if there is one."""
    controller = cluster.controller()
    return next(broker for broker in cluster.followers(topic) if broker is not controller)


def controller(cluster: Cluster, topic: str) -> ClusterBroker:
    """Who may lead the partition, too."""
    return cluster.controller()


ROLES = pytest.mark.parametrize("role", [leader, follower, controller])


def serves_on(cluster: Cluster, traffic: Traffic, hit: ClusterBroker) -> None:
    """Others do what the broker did, and it is not counted on."""
    cluster.leader(traffic.topic, other_than=hit)
    cluster.controller(other_than=hit)
    outside_isr(cluster, hit, traffic.topic)
    traffic.more(300)


def others_serve(cluster: Cluster, traffic: Traffic, hit: ClusterBroker) -> None:
    """The same for clients that ask the others; one that asks the broker itself may believe it as long as it lives."""
    cluster.leader(traffic.topic, other_than=hit)
    cluster.controller(other_than=hit)
    outside_isr(cluster, hit, traffic.topic)
    traffic.write_by_way_of([broker for broker in cluster.brokers if broker is not hit])


@ROLES
def test_killed(cluster: Cluster, nemesis: Nemesis, role: Role) -> None:
    """Its process is gone: others take over, and it catches up when it is back."""
    with load(cluster, at_least=550) as traffic:
        hit = role(cluster, traffic.topic)
        with nemesis.killed(hit):
            serves_on(cluster, traffic, hit)
    assert nemesis.injected.total() == 1


@ROLES
def test_frozen(cluster: Cluster, nemesis: Nemesis, role: Role) -> None:
    """It stood still for longer than its session lasts: when it goes on it finds out that others took over."""
    with load(cluster, at_least=550) as traffic:
        hit = role(cluster, traffic.topic)
        with nemesis.frozen(hit):
            serves_on(cluster, traffic, hit)
    assert nemesis.injected.total() == 1


@ROLES
def test_cut_off_from_zookeeper(cluster: Cluster, nemesis: Nemesis, role: Role) -> None:
    """Its session expires although it lives, and everybody else reaches it."""
    with load(cluster, at_least=300) as traffic:
        hit = role(cluster, traffic.topic)
        with nemesis.cut_from_zookeeper(hit):
            others_serve(cluster, traffic, hit)
    assert nemesis.injected.total() == 1


@pytest.mark.parametrize("way", ["both", "from", "to"])
def test_leader_cut_off_from_the_brokers(cluster: Cluster, nemesis: Nemesis, way: str) -> None:
    """It has its session, so it leads on; what nobody else gets is not acknowledged, and goes on afterwards."""
    with load(cluster, at_least=250) as traffic:
        led = cluster.leader(traffic.topic)
        with nemesis.cut_from_brokers(led, way):
            traffic.stands_still()
            assert cluster.leader(traffic.topic) is led
        traffic.more(100)
    assert nemesis.injected.total() == 1


@pytest.mark.parametrize("way", ["both", "from", "to"])
def test_follower_cut_off_from_the_brokers(cluster: Cluster, nemesis: Nemesis, way: str) -> None:
    """It lags, falls out of the in-sync replicas, and writes go on without it."""
    with load(cluster, at_least=550) as traffic:
        hit = follower(cluster, traffic.topic)
        with nemesis.cut_from_brokers(hit, way):
            outside_isr(cluster, hit, traffic.topic)
            traffic.more(300)
    assert nemesis.injected.total() == 1
