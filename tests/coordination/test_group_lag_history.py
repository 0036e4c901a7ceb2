"""Tests of the lags of groups over time."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination import group_lag_history
from logbus.coordination.group_lag_history import INTERVAL_SECONDS, SAMPLES, LagHistory
from logbus.coordination.group_lags import GroupLags
from logbus.coordination.group_offsets import CommittedOffset
from logbus.model import TopicPartition
from tests.admin.harness import World, replica
from tests.admin.test_groups import O0, O1, classic


class LagHistoryTests(SynchronousTestCase):
    """A sample a minute."""

    def setUp(self) -> None:
        self.world = World()
        self.clock = Clock()
        lags = GroupLags(cast(Any, self.world.groups), cast(Any, self.world.replicas))
        self.history = LagHistory(lags, cast(Any, self.clock), self.clock.seconds)
        self.addCleanup(self.history.stop)

    def pass_time(self, seconds: int) -> None:
        self.clock.pump([1] * seconds)

    def test_samples(self) -> None:
        """The sum and the partitions farthest behind, for an hour at most."""
        self.world.replicas.add(replica("orders", 1, log_end_offset=10))
        offsets = {O0: CommittedOffset(4), O1: CommittedOffset(1), TopicPartition("orders", 2): CommittedOffset(1)}
        self.world.groups.add(classic("g"), offsets)
        self.history.start()
        self.history.start()
        self.pass_time(1)
        (sample,) = self.history.of("g")
        self.assertEqual((sample.at_ms, sample.sum), (1000, 13))
        self.assertEqual(sample.partitions, ((O1, 8), (O0, 5)))
        self.pass_time(INTERVAL_SECONDS * 70)
        found = self.history.of("g")
        self.assertEqual((len(found), found[1].at_ms - found[0].at_ms), (SAMPLES, INTERVAL_SECONDS * 1000))
        self.history.stop()
        self.pass_time(INTERVAL_SECONDS * 2)
        self.assertEqual(self.history.of("g"), found)
        self.assertEqual(self.history.of("other"), ())

    def test_bounds(self) -> None:
        """Of many groups and partitions those farthest behind are kept, and no other is remembered."""
        self.patch(group_lag_history, "MOST_GROUPS", 3)
        self.patch(group_lag_history, "MOST_PARTITIONS", 2)
        for number in range(300):
            self.world.replicas.add(replica("many", number, log_end_offset=10))
        for number in range(9):
            offsets = {TopicPartition("many", each): CommittedOffset(9 - number) for each in range(300)}
            self.world.groups.add(classic(f"g{number}"), offsets)
        self.history.start()
        self.pass_time(100)
        self.assertEqual([bool(self.history.of(f"g{number}")) for number in range(9)], [False] * 6 + [True] * 3)
        (first, *_) = self.history.of("g8")
        self.assertEqual((first.sum, [lag for _, lag in first.partitions]), (2400, [8, 8]))
        self.assertEqual(len(self.history._samples), 3)

    def test_without_known_lags(self) -> None:
        """A group of which nothing is known has no samples."""
        self.world.groups.add(classic("elsewhere"), {TopicPartition("orders", 2): CommittedOffset(1)})
        self.history.start()
        self.pass_time(1)
        self.assertEqual(self.history.of("elsewhere"), ())
