"""Workers on several machines, which a ZooKeeper makes one cluster."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import NewTopic

from logbus.testing import Broker
from logbus.testing.waiting import wait_until
from logbus.testing.zookeeper import ZooKeeper
from tests.interop.test_rebalance import rebalance
from tests.interop.test_workers import PARTITIONS, SECONDS, admin, content, produce

FIRST_IDS = (0, 10)
"""Of the brokers of two machines."""


def machines(zookeeper: ZooKeeper, directory: Path, stack: ExitStack, workers: int) -> list[Broker]:
    return [
        stack.enter_context(
            Broker(
                {
                    "zookeeper.connect": f"{zookeeper.connect}/workers",
                    "broker.id": first,
                    "workers": workers,
                    "offsets.topic.replication.factor": 1,
                },
                data_dir=directory / str(first),
            )
        )
        for first in FIRST_IDS
    ]


def replicas(broker: Broker) -> dict[int, tuple[list[int], list[int]]]:
    """The replicas of each partition, and those in sync."""
    found = admin(broker).list_topics("old", timeout=SECONDS).topics["old"].partitions
    return {number: (sorted(each.replicas), sorted(each.isrs)) for number, each in found.items()}


def test_each_machine_is_evened_out(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    """A partition keeps a replica on each machine, whether it leads or follows there, and no record is lost."""
    with ExitStack() as stack:
        one, _ = machines(zookeeper, tmp_path, stack, 1)
        client = admin(one)  # It must live until all has been answered.
        client.create_topics([NewTopic("old", PARTITIONS, 2)])["old"].result(SECONDS)
        produce(one, "old", range(400))
    with ExitStack() as stack:
        one, _ = machines(zookeeper, tmp_path, stack, 2)
        wait_until(lambda: all(isr == [0, 10] for _, isr in replicas(one).values()), "replicas in sync")
        inodes = {each.stat().st_ino for each in tmp_path.glob("*/old-*/*.log")}
        assert "have moved" in rebalance(one)
        after = replicas(one)
        held = Counter(broker for brokers, _ in after.values() for broker in brokers)
        assert held == {0: 2, 1: 2, 10: 2, 11: 2}
        for brokers, isr in after.values():
            assert [broker // 10 for broker in brokers] == [0, 1]
            assert brokers == isr
        linked = [each for each in tmp_path.glob("*/workers/1/old-*/*.log") if each.stat().st_ino in inodes]
        assert len(linked) == 4
        produce(one, "old", range(400, 800))
        assert content(one, "old") == list(range(800))
