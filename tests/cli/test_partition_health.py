"""Tests of :mod:`logbus.cli.partition_health`."""

from __future__ import annotations

import uuid

import click
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.commands.topics import replicas_of
from logbus.cli.partition_health import (
    BrokerLoad,
    HealthFilter,
    broker_loads,
    is_unavailable,
    is_under_min_isr,
    is_under_replicated,
)
from logbus.client.cluster.cluster import PartitionMetadata, TopicMetadata

brokers = st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True)


@st.composite
def partitions(draw: st.DrawFn) -> PartitionMetadata:
    replicas = tuple(draw(brokers))
    isr = tuple(draw(st.lists(st.sampled_from(replicas), unique=True)))
    return PartitionMetadata(0, draw(st.sampled_from((-1, *replicas))), 1, replicas, isr)


def topic(name: str, *found: PartitionMetadata) -> TopicMetadata:
    return TopicMetadata(name, uuid.UUID(int=1), False, dict(enumerate(found)))


class HealthTests(SynchronousTestCase):
    """The three faults."""

    def test_each(self) -> None:
        """Too few in sync, fewer than the minimum, no leader: a dead broker leads nothing."""
        good = PartitionMetadata(0, 1, 5, (1, 2, 3), (1, 2, 3))
        short = PartitionMetadata(0, 1, 5, (1, 2, 3), (1,))
        self.assertEqual([is_under_replicated(each) for each in (good, short)], [False, True])
        self.assertEqual([is_under_min_isr(short, least) for least in (1, 2)], [False, True])
        self.assertFalse(is_under_min_isr(PartitionMetadata(0, 1, 5, (1,), (1,)), 2))
        self.assertEqual([is_unavailable(good, alive) for alive in ({1}, {2, 3})], [False, True])
        self.assertTrue(is_unavailable(PartitionMetadata(0, -1, 5, (1,), ()), {1}))

    @given(st.lists(partitions(), max_size=6))
    def test_counts(self, found: list[PartitionMetadata]) -> None:
        """Counts are what one gets by looking at each."""
        counts = HealthFilter({0, 1}, {"t": 2}).counts([topic("t", *found)])
        self.assertEqual(counts["under_replicated"], sum(map(is_under_replicated, found)))
        self.assertEqual(counts["under_min_isr"], sum(is_under_min_isr(each, 2) for each in found))
        self.assertEqual(counts["unavailable"], sum(each.leader not in (0, 1) for each in found))

    @given(st.lists(partitions(), max_size=6))
    def test_loads(self, found: list[PartitionMetadata]) -> None:
        """The loads of all brokers add up to all replicas."""
        by_broker = broker_loads([topic("t", *found)])
        self.assertEqual(sum(each.replicas for each in by_broker.values()), sum(len(each.replicas) for each in found))
        self.assertEqual(sum(each.leaders for each in by_broker.values()), sum(each.leader >= 0 for each in found))
        self.assertEqual(sum(each.preferred for each in by_broker.values()), len(found))
        out_of_sync = sum(len(each.replicas) - len(each.isr) for each in found)
        self.assertEqual(sum(each.out_of_sync for each in by_broker.values()), out_of_sync)

    def test_load_of_one(self) -> None:
        """A follower that is not in sync."""
        self.assertEqual(
            broker_loads([topic("t", PartitionMetadata(0, 1, 5, (1, 2), (1,)))])[2], BrokerLoad(1, 0, 0, 1)
        )


class AssignmentTests(SynchronousTestCase):
    """``--replica-assignment``."""

    @given(st.lists(brokers, min_size=1, max_size=5))
    def test_read(self, wanted: list[list[int]]) -> None:
        """Partitions with commas between, their replicas with colons."""
        self.assertEqual(replicas_of(",".join(":".join(map(str, each)) for each in wanted)), wanted)

    def test_wrong(self) -> None:
        """Anything else is refused with what would be right."""
        for text in ("", "a", "0:", ",", "0:-1", "0;1"):
            error = self.assertRaises(click.BadParameter, replicas_of, text)
            self.assertIn("0:1,1:2", error.message)
