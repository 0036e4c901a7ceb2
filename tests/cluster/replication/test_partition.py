"""Tests for :mod:`logbus.cluster.replication.partition`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.replication.partition import Partition
from logbus.errors import ApiError, ErrorCode
from logbus.model import LeaderAndIsr, TopicPartition

NAME = TopicPartition("orders", 3)


def led_by(broker: int, epoch: int = 5, isr: tuple[int, ...] = (1,)) -> LeaderAndIsr:
    return LeaderAndIsr(leader=broker, leader_epoch=epoch, isr=isr)


class PartitionTests(SynchronousTestCase):
    def refusal(self, partition: Partition, epoch: int = -1) -> ErrorCode:
        return self.assertRaises(ApiError, partition.check_leader, epoch).code

    def test_sole_replica_commits_its_records(self) -> None:
        """With nobody else in sync, the high watermark is the end of the leader's log."""
        partition = Partition(NAME, 1)
        self.assertTrue(partition.take_role(led_by(1), 10))
        self.assertEqual(partition.high_watermark, 10)
        self.assertTrue(partition.log_grew(12))
        self.assertEqual(partition.high_watermark, 12)
        self.assertFalse(partition.log_grew(12))

    def test_another_in_sync_replica_holds_the_high_watermark(self) -> None:
        """What a second in-sync replica does not have is not committed."""
        partition = Partition(NAME, 1)
        partition.take_role(led_by(1, isr=(1, 2)), 10)
        self.assertFalse(partition.log_grew(12))
        self.assertEqual(partition.high_watermark, 0)

    def test_only_the_leader_serves(self) -> None:
        """A replica without a role, or led by another broker, refuses."""
        partition = Partition(NAME, 1)
        self.assertEqual(self.refusal(partition), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition.take_role(led_by(2), 0)
        self.assertEqual(self.refusal(partition), ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def test_epochs_fence_clients(self) -> None:
        """A client with an older or newer idea of the leader's epoch is told which."""
        partition = Partition(NAME, 1)
        partition.take_role(led_by(1, epoch=5), 0)
        self.assertEqual(self.refusal(partition, 4), ErrorCode.FENCED_LEADER_EPOCH)
        self.assertEqual(self.refusal(partition, 6), ErrorCode.UNKNOWN_LEADER_EPOCH)
        partition.check_leader(5)
        partition.check_leader(-1)

    def test_stale_controller_epoch(self) -> None:
        """A role from a former controller is ignored."""
        partition = Partition(NAME, 1)
        partition.take_role(led_by(1, epoch=5), 0)
        self.assertFalse(partition.take_role(led_by(2, epoch=4), 0))
        self.assertTrue(partition.is_leader)

    @given(st.lists(st.integers(0, 1000)))
    def test_high_watermark_is_monotonic(self, ends: list[int]) -> None:
        """Whatever ends are reported, the high watermark only grows, up to the highest of them."""
        partition = Partition(NAME, 1)
        partition.take_role(led_by(1), 0)
        seen = [0]
        for end in ends:
            partition.log_grew(end)
            self.assertGreaterEqual(partition.high_watermark, seen[-1])
            seen.append(partition.high_watermark)
        self.assertEqual(seen[-1], max(ends, default=0))
