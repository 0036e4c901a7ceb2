"""Tests of :mod:`logbus.cli.rolling_restart_plan`."""

from __future__ import annotations

import uuid

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.rolling_restart_plan import Machine, Sight, refusing_without, restart_order, was_away
from logbus.client.cluster.cluster import PartitionMetadata, TopicMetadata
from logbus.model import TopicPartition

ALIVE = frozenset({0, 1, 2})
FIRST = Machine("a", (0,))
NAME = TopicPartition("orders", 0)


def sight(*partitions: PartitionMetadata, alive: frozenset[int] = ALIVE) -> Sight:
    """A cluster of three brokers and one topic."""
    return Sight(alive, [TopicMetadata("orders", uuid.UUID(int=1), False, dict(enumerate(partitions)))])


def partition(
    leader: int = 0, isr: tuple[int, ...] = (0, 1, 2), replicas: tuple[int, ...] = (0, 1, 2)
) -> PartitionMetadata:
    """In sync."""
    return PartitionMetadata(0, leader, 7, replicas, isr)


class SightTests(SynchronousTestCase):
    """What speaks against a restart."""

    def test_nothing(self) -> None:
        """Brokers may stop while all is in sync, also one without any partition."""
        self.assertEqual(sight(partition(), alive=ALIVE | {3}).problems(), [])

    def test_each(self) -> None:
        """A broker that is away, a replica that is behind and a missing leader are named."""
        for wrong, words in (
            (sight(partition(1), alive=frozenset({1, 2})), "broker 0 has replicas, and is not running"),
            (sight(partition(), partition(isr=(0, 1))), "1 partitions are under-replicated, such as orders-1"),
            (sight(partition(leader=-1)), "1 partitions have no leader, such as orders-0"),
        ):
            self.assertEqual(wrong.problems(), [words])


class OrderTests(SynchronousTestCase):
    """Who goes first."""

    @given(st.dictionaries(st.integers(0, 9), st.sampled_from("abc"), min_size=1), st.data())
    def test_all_once_and_the_controller_last(self, hosts: dict[int, str], data: st.DataObject) -> None:
        """Every broker is restarted once."""
        controller = data.draw(st.sampled_from(sorted(hosts)))
        order = restart_order(hosts, [], controller)
        self.assertEqual(sorted(broker for machine in order for broker in machine.brokers), sorted(hosts))
        self.assertEqual(order[-1], Machine(hosts[controller], (controller,)))

    def test_workers_go_together(self) -> None:
        """All workers of a machine are one process tree."""
        order = restart_order({0: "a", 1: "a", 10: "b", 11: "b"}, [(0, 1), (10, 11)], 1)
        self.assertEqual(order, [Machine("b", (10, 11)), Machine("a", (0, 1))])
        self.assertEqual(str(order[0]), "brokers 10, 11 (b)")


class RefusalTests(SynchronousTestCase):
    """Partitions that cannot do without a broker."""

    def test_each(self) -> None:
        """What counts is what is left in sync, and what acks=all needs, at most as many as there are replicas."""
        for one, least, refuses in (
            (partition(), 2, False),
            (partition(), 3, True),
            (partition(isr=(0, 1)), 2, True),
            (partition(replicas=(0,), isr=(0,)), 1, True),
            (partition(replicas=(0, 1), isr=(0, 1)), 5, True),
            (partition(replicas=(1,), isr=(1,), leader=1), 1, False),
            (partition(replicas=(1,), isr=(1,), leader=1), 2, False),
        ):
            self.assertEqual(refusing_without(FIRST, sight(one), {"orders": least}), [NAME] if refuses else [], one)


class AwayTests(SynchronousTestCase):
    """Whether a broker has been restarted."""

    def test_each(self) -> None:
        """It is missing, or behind, or what it led was led by another; what happened to others does not count."""
        before = sight(partition(), partition(1))
        for now, away in (
            (before, False),
            (evolve(before, alive=frozenset({1, 2})), True),
            (evolve(before, alive=frozenset({0, 1})), False),
            (sight(partition(), partition(1, isr=(1, 2))), True),
            (sight(partition(), partition(1, isr=(0, 1))), False),
            (sight(evolve(partition(1), leader_epoch=8), partition(1)), True),
            (sight(evolve(partition(), leader_epoch=9), partition(1)), True),
            (sight(partition(), evolve(partition(2), leader_epoch=8)), False),
            (sight(partition()), False),
        ):
            self.assertEqual(was_away(FIRST, before, now), away, now)

    def test_preferred_leader(self) -> None:
        """The controller has given a partition back to its preferred leader: nobody needs to have stopped for that."""
        before = sight(partition(0, replicas=(1, 0, 2)))
        for leader, away in ((1, False), (2, True), (0, True)):
            now = sight(evolve(partition(leader, replicas=(1, 0, 2)), leader_epoch=8))
            self.assertEqual(was_away(FIRST, before, now), away, now)
