"""Examples of share groups; see also the properties."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.consumer.partition_sets import NO_PARTITIONS
from logbus.coordination.share.heartbeat import ShareHeartbeat, ShareHeartbeatResult
from logbus.coordination.share.share_group import ShareGroup
from logbus.coordination.share.share_group_settings import ShareGroupSettings
from tests.coordination.consumer.kit import Cluster


class AssignmentIntervalTests(SynchronousTestCase):
    """Changes that follow each other within a second make one assignment (KIP-1263)."""

    def setUp(self) -> None:
        self.cluster = Cluster()
        self.t, self.u = self.cluster.create("t", 3), self.cluster.create("u", 1)
        settings = ShareGroupSettings()
        self.group = ShareGroup("group", lambda: settings, self.cluster, lambda changes, done: None)
        self.now = 1000.0

    def beat(self, member_id: str, epoch: int = 0, topics: tuple[str, ...] | None = None) -> ShareHeartbeatResult:
        """A heartbeat."""
        return self.group.heartbeat(self.now, ShareHeartbeat(member_id, epoch, topics=topics))[0]

    def make_states(self) -> None:
        """The share coordinator has made what was to be made."""
        self.group.initialized(self.group.to_initialize, {})

    def test_first_members(self) -> None:
        """Who comes while states are made is not held up by an assignment of nothing."""
        self.beat("a", topics=("t",))
        self.beat("b", topics=("t",))
        self.make_states()
        told = [self.beat(name, epoch).assignment or {} for name, epoch in (("a", 1), ("b", 2))]
        self.assertEqual({number for each in told for number in each[self.t]}, {0, 1, 2})

    def test_burst_of_joins(self) -> None:
        """Those that come right after the first get theirs together, and the first goes on."""
        self.beat("a", topics=("t",))
        self.make_states()
        first = self.beat("a", 1)
        self.assertEqual((first.epoch, first.assignment), (2, {self.t: frozenset({0, 1, 2})}))
        self.now += 0.1
        for name in "bc":
            late = self.beat(name, topics=("t",))
            self.assertEqual((late.epoch, late.assignment), (2, NO_PARTITIONS))
        self.now += 0.8
        kept = self.beat("a", 2)
        self.assertEqual((kept.epoch, kept.assignment), (2, None))
        self.now += 0.1
        told = [self.beat(name, 2) for name in "abc"]
        self.assertEqual([each.epoch for each in told], [4, 4, 4])
        self.assertEqual([len((each.assignment or {})[self.t]) for each in told], [1, 1, 1])

    def test_topic_that_is_left_out(self) -> None:
        """A member loses it at once."""
        self.beat("a", topics=("t", "u"))
        self.make_states()
        self.beat("a", 1)
        self.beat("b", topics=("t",))
        told = self.beat("a", 2, topics=("u",))
        self.assertEqual((told.epoch, told.assignment), (2, {self.u: frozenset({0})}))
