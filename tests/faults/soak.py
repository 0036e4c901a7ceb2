"""
Random faults from a seed, for any time, under a producer and a consumer of three partitions.

    python -m tests.faults.soak --faults 40 --records 50000 --seed 1

With ``--secured`` clients log in over TLS and have ACLs, brokers show each other certificates and log in, and their
nodes in ZooKeeper belong to them.

With ``--workers N`` the brokers are workers of one supervisor; they and it are killed and frozen.

It tells what was done, how long writes stood still at most, and what was wrong in the end: nothing, or the status is 1.
A run that had fewer faults or fewer records acknowledged than it was asked for fails, too.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable

from logbus.testing.cluster import Cluster, ClusterBroker
from tests.faults import worker_soak
from tests.faults.conftest import FAULTY_CONFIG
from tests.faults.nemesis import Nemesis
from tests.faults.partition_logs import wait_same
from tests.faults.secured_cluster import SecuredCluster
from tests.faults.traffic import Traffic, create

TOPIC = "soak"
PARTITIONS = 3

Fault = Callable[[Nemesis, ClusterBroker, float], None]


def killed(nemesis: Nemesis, broker: ClusterBroker, seconds: float) -> None:
    """And started again."""
    with nemesis.killed(broker):
        time.sleep(seconds)


def frozen(nemesis: Nemesis, broker: ClusterBroker, seconds: float) -> None:
    """For longer than its session lasts."""
    with nemesis.frozen(broker):
        time.sleep(seconds)


def cut_from_zookeeper(nemesis: Nemesis, broker: ClusterBroker, seconds: float) -> None:
    """For longer than its session lasts."""
    with nemesis.cut_from_zookeeper(broker):
        time.sleep(seconds)


def isolated(nemesis: Nemesis, broker: ClusterBroker, seconds: float) -> None:
    """From all but its clients."""
    with nemesis.isolated(broker):
        time.sleep(seconds)


def cut_both(nemesis: Nemesis, broker: ClusterBroker, seconds: float) -> None:
    """From the other brokers."""
    with nemesis.cut_from_brokers(broker):
        time.sleep(3 * seconds)


def cut_from(nemesis: Nemesis, broker: ClusterBroker, seconds: float) -> None:
    """The other brokers do not hear it."""
    with nemesis.cut_from_brokers(broker, "from"):
        time.sleep(3 * seconds)


def cut_to(nemesis: Nemesis, broker: ClusterBroker, seconds: float) -> None:
    """It does not hear the other brokers."""
    with nemesis.cut_from_brokers(broker, "to"):
        time.sleep(3 * seconds)


def expired(nemesis: Nemesis, broker: ClusterBroker, seconds: float) -> None:
    """Its session only."""
    nemesis.expire(broker)


def bounced(nemesis: Nemesis, broker: ClusterBroker, seconds: float) -> None:
    """In order."""
    nemesis.bounce(broker)


def killed_twice(nemesis: Nemesis, broker: ClusterBroker, seconds: float) -> None:
    """Two brokers: too few are left, and nothing is acknowledged."""
    others = [other for other in nemesis.cluster.brokers if other is not broker]
    with nemesis.killed(broker), nemesis.killed(others[0]):
        time.sleep(seconds)


def lying_disk(nemesis: Nemesis, broker: ClusterBroker, seconds: float) -> None:
    """Its disk loses what it had synced, while the others have it."""
    nemesis.cluster.wait_in_sync(TOPIC)
    nemesis.lost_synced(broker, TOPIC)
    nemesis.cluster.wait_in_sync(TOPIC)


def outage(nemesis: Nemesis, broker: ClusterBroker, seconds: float) -> None:
    """Of ZooKeeper."""
    nemesis.cluster.zookeeper.kill()
    time.sleep(3 * seconds)
    nemesis.cluster.zookeeper.start()
    nemesis.injected["ZooKeeper killed"] += 1
    nemesis.cluster.tree.wait_for(lambda: len(nemesis.cluster.tree.children("/brokers/ids")) == 3, "all brokers")


FAULTS: tuple[Fault, ...] = (
    killed, frozen, cut_from_zookeeper, isolated, cut_both, cut_from, cut_to, expired, bounced, killed_twice, outage,
    lying_disk,
)  # fmt: skip


def soak(faults: int, records: int, seed: int, *, secured: bool = False) -> bool:
    """Whether all was well."""
    chance = random.Random(seed)
    pauses: dict[str, float] = defaultdict(float)
    with SecuredCluster() if secured else Cluster(config=FAULTY_CONFIG) as cluster:
        create(cluster, TOPIC, PARTITIONS)
        if isinstance(cluster, SecuredCluster):
            cluster.allow(TOPIC)
        nemesis = Nemesis(cluster)
        begin = time.monotonic()
        with Traffic(cluster, TOPIC, PARTITIONS) as traffic:
            order = [FAULTS[number % len(FAULTS)] for number in range(faults)]
            chance.shuffle(order)
            for number, fault in enumerate(order, 1):
                role, hit = chosen(cluster, chance)
                traffic.restart_pauses()
                fault(nemesis, hit, chance.uniform(0.2, 2.0))
                traffic.more(100)
                pauses[fault.__name__] = max(pauses[fault.__name__], traffic.worst_pause)
                print(
                    f"{number:4} {fault.__name__:20} {role:10} broker {hit.id}: {traffic.acknowledged} acknowledged, "
                    f"paused {traffic.worst_pause:.1f} s",
                    flush=True,
                )
                # Now and then the next one comes before all have caught up.
                if chance.random() < 0.8:
                    cluster.wait_in_sync(TOPIC)
            cluster.wait_in_sync(TOPIC)
            while traffic.acknowledged < records:
                traffic.more(100)
            traffic.finish()
        wrong = [*traffic.anomalies(), *wait_same(cluster, TOPIC, PARTITIONS)]
        lag = traffic.history.worst_lag(frozenset({"reader"}))
    print(f"seed {seed}, {time.monotonic() - begin:.0f} s")
    for kind, count in sorted(nemesis.injected.items()):
        print(f"  {count:4} {kind}")
    print(f"  {traffic.acknowledged} records acknowledged, {len(traffic.refused)} refused")
    for name, pause in sorted(pauses.items()):
        print(f"  writes stood still for at most {pause:.1f} s around {name}")
    print(f"  a consumer was at most {lag:.1f} s behind")
    print(f"  {len(wrong)} violations", *wrong[:20], sep="\n    ")
    enough = nemesis.injected.total() >= faults and traffic.acknowledged >= records
    if not enough:
        print(f"only {nemesis.injected.total()} faults and {traffic.acknowledged} records: too little was tried")
    return enough and not wrong


def chosen(cluster: Cluster, chance: random.Random) -> tuple[str, ClusterBroker]:
    """Somebody to hit, for what it is."""
    role = chance.choice(["leader", "follower", "controller"])
    if role == "controller":
        return role, cluster.controller()
    led = cluster.leader(TOPIC, chance.randrange(PARTITIONS))
    if role == "leader":
        return role, led
    return role, chance.choice([broker for broker in cluster.brokers if broker is not led])


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--faults", type=int, default=40)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--secured", action="store_true")
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args(arguments)
    if given.workers:
        return 0 if worker_soak.soak(given.faults, given.records, given.seed, given.workers) else 1
    return 0 if soak(given.faults, given.records, given.seed, secured=given.secured) else 1


if __name__ == "__main__":
    sys.exit(main())
