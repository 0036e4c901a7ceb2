"""Tests of the ends of partitions that only other brokers have."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logbus.coordination import remote_end_offsets
from logbus.coordination.remote_end_offsets import INTERVAL_SECONDS, KEPT_SECONDS, RemoteEndOffsets
from logbus.model import TopicPartition
from tests.cluster.memory_cluster import ClusterCase

PARTITIONS = [TopicPartition("t", number) for number in range(6)]


class RemoteEndOffsetsTests(ClusterCase):
    """Three brokers, and a topic whose partitions have one replica each."""

    config = {"default.replication.factor": "1", "auto.leader.rebalance.enable": "false"}

    def setUp(self) -> None:
        super().setUp()
        self.cluster[0].create("t", len(PARTITIONS))
        self.cluster.settle(1)
        self.led = dict(enumerate(self.leaders("t")))
        member = self.cluster[0].broker.member
        self.ends = RemoteEndOffsets(0, member.metadata, member.peers, self.cluster[0].reactor)
        self.addCleanup(self.ends.stop)

    def known(self) -> dict[int, int | None]:
        """What is known of partitions of others, by partition."""
        return {each.partition: self.ends.get(each) for each in PARTITIONS if self.led[each.partition]}

    def produce(self) -> int:
        """Send a batch to each partition; returns the number of records that each has then."""
        sent = {self.cluster[leader].connect().produce(partition=each).base_offset for each, leader in self.led.items()}
        (base_offset,) = sent
        return base_offset + 1

    def test_of_others(self) -> None:
        """They are unknown at first, known at once after that, and renewed every few seconds."""
        self.assertEqual(set(self.known().values()), {None})
        self.cluster.settle(0.1)
        self.assertEqual(set(self.known().values()), {0})
        for _ in range(2):
            end = self.produce()
            self.cluster.settle(INTERVAL_SECONDS + 0.1)
            self.assertEqual(set(self.known().values()), {end})

    def test_learn(self) -> None:
        """Who cannot wait for the next time has them asked for, unless they are known."""
        end = self.produce()
        others = [each for each in PARTITIONS if self.led[each.partition]]
        learnt = Deferred.fromCoroutine(self.ends.learn(others))
        self.cluster.settle(0.1)
        self.successResultOf(learnt)
        self.assertEqual(set(self.known().values()), {end})
        self.successResultOf(Deferred.fromCoroutine(self.ends.learn(others)))

    def test_forgotten(self) -> None:
        """Nobody is asked about partitions that are not looked up any more."""
        self.known()
        self.cluster.settle(KEPT_SECONDS + 3 * INTERVAL_SECONDS)
        self.assertEqual((self.ends._ends, self.ends._next), ({}, None))
        self.assertEqual(set(self.known().values()), {None})

    def test_many(self) -> None:
        """A leader is asked about some at a time, all in the end; what is too many stays unknown."""
        self.patch(remote_end_offsets, "MOST_ASKED", 1)
        self.patch(remote_end_offsets, "MOST_PARTITIONS", 3)
        self.known()
        self.cluster.settle(3 * INTERVAL_SECONDS)
        found = list(self.known().values())
        self.assertEqual((found.count(0), found.count(None)), (3, len(found) - 3))

    def test_a_dead_leader(self) -> None:
        """What was known of its partitions stays, and is renewed when it is there again."""
        self.known()
        self.cluster.settle(0.1)
        self.cluster.kill(1)
        self.cluster.settle(2 * INTERVAL_SECONDS)
        self.assertEqual(set(self.known().values()), {0})
        self.cluster.boot(1)
        end = self.produce()
        self.cluster.settle(2 * INTERVAL_SECONDS)
        self.assertEqual(set(self.known().values()), {end})

    def test_no_such_topic(self) -> None:
        """A topic that is deleted is forgotten."""
        self.known()
        self.cluster.settle(0.1)
        self.ends.get(TopicPartition("other", 0))
        self.cluster.settle(INTERVAL_SECONDS + 0.1)
        self.assertNotIn(TopicPartition("other", 0), self.ends._ends)

    def test_after_the_stop(self) -> None:
        """Nothing is asked, whether it was under way or not."""
        self.known()
        self.ends.stop()
        self.assertEqual(set(self.known().values()), {None})
        self.assertEqual((self.ends._ends, self.ends._next), ({}, None))


class GroupLagTests(ClusterCase):
    """The same, where the lag of groups is looked up."""

    config = RemoteEndOffsetsTests.config

    def test_lag(self) -> None:
        """A coordinator knows the lag of partitions that it has no replica of."""
        self.cluster[0].create("t", len(PARTITIONS))
        self.cluster.settle(1)
        lags = self.cluster[0].broker.coordinators.group_lags
        for each in PARTITIONS:
            lags.end(each)
        self.cluster.settle(0.1)
        self.assertEqual([lags.end(each) for each in PARTITIONS], [0] * len(PARTITIONS))
