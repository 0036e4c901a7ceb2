"""Tests of :mod:`logbus.coordination.pending_offsets`: offsets in transactions, also after a reload of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.replication.partition import Partition
from logbus.cluster.replication.replica_manager import Replica
from logbus.config.topic_config import TopicConfig
from logbus.coordination.committed_offset import CommittedOffset, offset_commit_change
from logbus.coordination.group import Change
from logbus.coordination.group_replay import GroupReplay
from logbus.coordination.group_shard import GroupShard
from logbus.coordination.state_log import StateLog
from logbus.coordination.transactions.transaction_metadata import ProducerIdAndEpoch
from logbus.errors import ErrorCode
from logbus.model import LeaderAndIsr, TopicPartition
from logbus.net.time_slices import SliceScheduler
from logbus.records.batch import ControlType, Marker
from logbus.records.compression import Codec
from logbus.storage.log import Log
from tests.storage.builders import NOW_MS, PARTITION, a_log

A, B, C = (TopicPartition("t", number) for number in range(3))
NOT_SYNCED = TopicConfig(flush_before_ack=False)
TOO_LARGE = ErrorCode.INVALID_COMMIT_OFFSET_SIZE


class ShardOnDisk:
    """A shard on a log in memory."""

    def __init__(self, log: Log | None = None) -> None:
        self.replica = Replica(Partition(PARTITION, 0), UUID(int=1), log or a_log(config=NOT_SYNCED))
        self.replica.take_role(LeaderAndIsr(0, 0, (0,)))
        self.clock = Clock()
        slices = SliceScheduler(self.clock)
        state = StateLog(self.replica, self.clock, lambda: NOW_MS, lambda: Codec.NONE, lambda: 5000, slices)
        self.shard = GroupShard(0, 0, state)

    def commit(self, partition: TopicPartition, offset: int, group: str = "g") -> None:
        self.shard.save([offset_commit_change(group, partition, CommittedOffset(offset))])

    def pend(self, producer: int, offset: int, *partitions: TopicPartition, group: str = "g") -> None:
        changes: list[Change] = [
            offset_commit_change(group, partition, CommittedOffset(offset)) for partition in partitions
        ]
        self.shard.save_pending(ProducerIdAndEpoch(producer, 0), changes, TOO_LARGE)

    def mark(self, producer: int, committed: bool) -> tuple[int, bool, int]:
        """Write a marker, without the callback."""
        kind = ControlType.COMMIT if committed else ControlType.ABORT
        appended = self.replica.append_marker(producer, 0, Marker(kind, 0), NOW_MS, 0)
        return producer, committed, appended.base_offset

    def end(self, producer: int, committed: bool) -> None:
        self.shard.complete(*self.mark(producer, committed))

    def delete(self, *partitions: TopicPartition, group: str = "g") -> None:
        held = self.shard.offsets.get(group)
        if held is not None:
            self.shard.save_all(held.tombstones(partitions or None))

    def committed(self, group: str = "g") -> dict[TopicPartition, int]:
        held = self.shard.offsets.get(group)
        return {} if held is None else {partition: one.offset for partition, one in held.committed.items()}

    def unstable(self, group: str = "g") -> set[TopicPartition]:
        held = self.shard.offsets.get(group)
        return set() if held is None else set(held.pending)

    def reloaded(self) -> ShardOnDisk:
        """The state after a load of the log."""
        other = ShardOnDisk(self.replica.log)
        maker: Any = None
        replay = GroupReplay(other.shard, maker)
        Deferred.fromCoroutine(other.shard.log.load(replay.replay, 1 << 20, lambda: True, replay))
        other.clock.advance(0)
        return other


def state(shard: GroupShard) -> Any:
    """Everything that a shard knows of offsets."""
    return (
        {
            group_id: (
                dict(held.committed),
                {partition: dict(pending) for partition, pending in held.pending._by_partition.items()},
                {producer: set(partitions) for producer, partitions in held.pending._by_producer.items()},
            )
            for group_id, held in shard.offsets.items()
        },
        {
            (producer, group_id)
            for producer, groups in shard.transactions.items()
            for group_id in groups & shard.offsets.keys()
            if shard.offsets[group_id].pending.of_producer(producer)
        },
    )


class PendingTests(SynchronousTestCase):
    """One shard."""

    def setUp(self) -> None:
        self.one = ShardOnDisk()

    def test_commit(self) -> None:
        """Offsets of a transaction take effect together when it is committed."""
        self.one.commit(A, 1)
        self.one.pend(5, 10, A, B)
        self.one.pend(5, 11, B)
        self.assertEqual((self.one.committed(), self.one.unstable()), ({A: 1}, {A, B}))
        self.one.end(5, committed=True)
        self.assertEqual((self.one.committed(), self.one.unstable()), ({A: 10, B: 11}, set()))
        self.assertEqual(self.one.shard.transactions, {})

    def test_abort(self) -> None:
        """Nothing is left of a transaction that was aborted, nor of a group that had nothing else."""
        self.one.commit(A, 1)
        self.one.pend(5, 10, A, B)
        self.one.pend(5, 10, A, group="other")
        self.one.end(5, committed=False)
        self.assertEqual((self.one.committed(), self.one.unstable()), ({A: 1}, set()))
        self.assertEqual(list(self.one.shard.offsets), ["g"])

    def test_marker_of_its_own_producer(self) -> None:
        """A marker ends its producer's transaction only, and only once."""
        self.one.pend(5, 10, A)
        self.one.pend(6, 20, A, B)
        self.one.end(5, committed=True)
        self.assertEqual((self.one.committed(), self.one.unstable()), ({A: 10}, {A, B}))
        self.one.end(5, committed=False)
        self.one.end(7, committed=True)
        self.assertEqual((self.one.committed(), self.one.unstable()), ({A: 10}, {A, B}))

    def test_a_later_commit_wins(self) -> None:
        """A later commit in the log wins; the partition is unstable until the transaction ends."""
        self.one.pend(5, 10, A, B)
        self.one.commit(A, 99)
        self.assertEqual((self.one.committed(), self.one.unstable()), ({A: 99}, {A, B}))
        self.one.end(5, committed=True)
        self.assertEqual((self.one.committed(), self.one.unstable()), ({A: 99, B: 10}, set()))

    def test_a_later_transaction_wins(self) -> None:
        """Of two committed transactions the later commit in the log wins, whichever ends first."""
        for first, second in ((5, 6), (6, 5)):
            with self.subTest(first=first):
                self.setUp()
                self.one.pend(5, 10, A)
                self.one.pend(6, 20, A)
                self.one.end(first, committed=True)
                self.one.end(second, committed=True)
                self.assertEqual(self.one.committed(), {A: 20})
        self.one.pend(5, 30, A)
        self.one.pend(6, 40, A)
        self.one.end(6, committed=False)
        self.one.end(5, committed=True)
        self.assertEqual(self.one.committed(), {A: 30})

    def test_deletion(self) -> None:
        """A deleted offset does not reappear when a transaction ends."""
        self.one.commit(A, 1)
        self.one.pend(5, 10, A, B, C)
        self.one.delete(A, B)
        self.assertEqual((self.one.committed(), self.one.unstable()), ({}, {C}))
        self.one.pend(5, 11, B)
        self.one.end(5, committed=True)
        self.assertEqual(self.one.committed(), {B: 11, C: 10})
        self.one.pend(6, 12, A)
        self.one.delete()
        self.assertEqual(self.one.shard.offsets, {})
        self.one.end(6, committed=True)
        self.assertEqual((self.one.shard.offsets, self.one.shard.transactions), ({}, {}))

    def test_the_next_transaction(self) -> None:
        """Commits after a marker belong to the next transaction, even before the marker is durable."""
        self.one.pend(5, 10, A)
        told = self.one.mark(5, committed=True)
        self.one.pend(5, 20, B)
        self.one.shard.complete(*told)
        self.assertEqual((self.one.committed(), self.one.unstable()), ({A: 10}, {B}))
        self.one.end(5, committed=False)
        self.assertEqual((self.one.committed(), self.one.unstable()), ({A: 10}, set()))

    def test_open_at_the_end_of_the_log(self) -> None:
        """After a failover the transaction is pending again, and can be ended."""
        self.one.commit(A, 1)
        self.one.pend(5, 10, A, B)
        other = self.one.reloaded()
        self.assertEqual((other.committed(), other.unstable()), ({A: 1}, {A, B}))
        other.end(5, committed=True)
        self.assertEqual((other.committed(), other.unstable()), ({A: 10, B: 10}, set()))

    def test_unrelated_markers_are_cheap(self) -> None:
        """Ends of transactions that this group, or this shard, had no part in cost nothing and change nothing."""
        self.assertEqual(self.one.shard.complete(5, True, 3), [])
        self.one.pend(5, 10, A)
        self.one.pend(5, 10, A, group="other")
        self.assertEqual(self.one.shard.complete(5, True, 3), ["g", "other"])
        self.assertEqual(self.one.shard.complete(5, True, 3), [])


PRODUCERS = (5, 6, 7)
partitions = st.sampled_from((A, B, C))
groups = st.sampled_from(("g", "h"))
steps = st.one_of(
    st.tuples(st.just("commit"), groups, partitions),
    st.tuples(st.just("pend"), st.sampled_from(PRODUCERS), groups, st.lists(partitions, min_size=1, max_size=3)),
    st.tuples(st.just("mark"), st.sampled_from(PRODUCERS), st.booleans()),
    st.tuples(st.just("tell"), st.integers(0, 2)),
    st.tuples(st.just("delete"), groups, st.lists(partitions, max_size=2)),
    st.tuples(st.just("crash")),
)


class InterleavingTests(SynchronousTestCase):
    """Property-based tests of interleaved transactions."""

    @given(st.lists(steps, max_size=30))
    def test_state_after_a_load(self, story: Sequence[tuple[Any, ...]]) -> None:
        """
        The state is the same before and after a crash, and it is that of a log in which each transaction ended the
        moment it was marked.
        """
        one = ShardOnDisk()
        untold: list[tuple[int, bool, int]] = []
        expected: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        open_: dict[int, dict[tuple[str, TopicPartition], tuple[int, int]]] = {}
        for number, (what, *args) in enumerate(story):
            if what == "commit":
                group, partition = args
                expected[group, partition] = (one.replica.log.log_end_offset, number)
                one.commit(partition, number, group)
            elif what == "pend":
                producer, group, several = args
                # Its coordinator lets it begin the next transaction when the marker of the last one is durable.
                if not any(producer == told[0] for told in untold):
                    at = one.replica.log.log_end_offset
                    written = {(group, partition): (at + i, number) for i, partition in enumerate(several)}
                    open_.setdefault(producer, {}).update(written)
                    one.pend(producer, number, *several, group=group)
            elif what == "mark":
                producer, committed = args
                untold.append(one.mark(producer, committed))
                for place, found in open_.pop(producer, {}).items():
                    if committed and found > expected.get(place, (-1, -1)):
                        expected[place] = found
            elif what == "tell" and untold:
                one.shard.complete(*untold.pop(args[0] % len(untold)))
            elif what == "delete":
                group, several = args
                held = one.shard.offsets.get(group)
                places = [(group, p) for p in (several or (A, B, C))]
                for place in places:
                    if held is not None and (place[1] in held.committed or place[1] in held.pending):
                        expected.pop(place, None)
                        for pending in open_.values():
                            pending.pop(place, None)
                one.delete(*several, group=group)
            elif what == "crash":
                one = one.reloaded()
                # Markers that nobody told of are in the log.
                untold = []
        for told in untold:
            one.shard.complete(*told)
        found = {(group, partition): offset for group in "gh" for partition, offset in one.committed(group).items()}
        self.assertEqual(found, {place: number for place, (_, number) in expected.items()})
        for group in "gh":
            pending = {place[1] for places in open_.values() for place in places if place[0] == group}
            self.assertEqual(one.unstable(group), pending)
        self.assertEqual(state(one.shard), state(one.reloaded().shard))
