"""Who has which records of a share group's partition, against a model that looks at each record."""

from __future__ import annotations

from itertools import pairwise

from attrs import define, evolve
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.share.share_group_settings import ShareGroupSettings
from logbus.coordination.share_state.share_state import ShareState, StateBatch
from logbus.errors import ApiError, ErrorCode
from logbus.share.in_flight_records import RecordState
from logbus.share.share_partition import (
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRecords,
    SharePartition,
)

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = RecordState
ACCEPT, RELEASE, REJECT, RENEW = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
)
SETTINGS = ShareGroupSettings(delivery_count_limit=3, partition_max_record_locks=20)
LOCK_SECONDS = SETTINGS.record_lock_duration_ms / 1000


def partition_at(start: int = 0, settings: ShareGroupSettings = SETTINGS) -> SharePartition:
    return SharePartition(start, 0, lambda: settings)


def one(first: int, last: int, *types: AcknowledgeType) -> AcknowledgementBatch:
    return AcknowledgementBatch(first, last, types)


def state_of(partition: SharePartition, *batches: StateBatch) -> ShareState:
    return ShareState(partition.state_epoch, 0, partition.start_offset, batches, partition.delivery_complete_count)


class SharePartitionTests(SynchronousTestCase):
    def refused(self, code: ErrorCode, partition: SharePartition, *batches: AcknowledgementBatch) -> None:
        before = partition.changes(), partition.start_offset
        error = self.assertRaises(ApiError, partition.acknowledge, "m", batches, 0.0)
        self.assertEqual(error.code, code)
        self.assertEqual(((), before[1]), (partition.changes(), partition.start_offset))

    def test_two_members(self) -> None:
        """Each record goes to one of them, and what both have accepted is done with."""
        partition = partition_at()
        self.assertEqual(
            partition.acquire("a", partition.next_fetch_offset, [4, 9], 0.0, 3), [AcquiredRecords(0, 4, 1)]
        )
        self.assertEqual(partition.next_fetch_offset, 5)
        self.assertEqual(partition.acquire("b", partition.next_fetch_offset, [9], 0.0, 100), [AcquiredRecords(5, 9, 1)])
        partition.acknowledge("b", [one(5, 9, ACCEPT)], 0.0)
        self.assertEqual((partition.start_offset, partition.delivery_complete_count), (0, 5))
        self.assertEqual(partition.changes(), (StateBatch(5, 9, ACKNOWLEDGED, 1),))
        partition.acknowledge("a", [one(0, 4, ACCEPT)], 0.0)
        self.assertEqual((partition.start_offset, partition.end_offset), (10, 10))
        self.assertTrue(partition.is_dirty)
        self.assertEqual(partition.changes(), ())

    def test_how_many(self) -> None:
        """Up to the end of a batch, or strictly so many; never more than the group may have in flight."""
        self.assertEqual(partition_at().acquire("m", 0, [4, 9, 14], 0.0, 6), [AcquiredRecords(0, 9, 1)])
        self.assertEqual(partition_at().acquire("m", 0, [4, 9], 0.0, 6, strict=True), [AcquiredRecords(0, 5, 1)])
        partition = partition_at()
        self.assertEqual(
            partition.acquire("m", partition.next_fetch_offset, [30], 0.0, 100), [AcquiredRecords(0, 19, 1)]
        )
        self.assertTrue(partition.is_full)
        self.assertEqual(partition.acquire("m", partition.next_fetch_offset, [30], 0.0, 100), [])
        partition.acknowledge("m", [one(0, 0, ACCEPT), one(5, 5, RELEASE)], 0.0)
        self.assertFalse(partition.is_full)
        self.assertEqual(
            partition.acquire("m", partition.next_fetch_offset, [30], 0.0, 100),
            [AcquiredRecords(5, 5, 2), AcquiredRecords(20, 20, 1)],
        )

    def test_types_of_each_record(self) -> None:
        """Rejected ones and gaps are archived, released ones come again, with another count."""
        partition = partition_at()
        partition.acquire("m", partition.next_fetch_offset, [4], 0.0, 100)
        partition.acknowledge("m", [one(0, 4, ACCEPT, REJECT, RELEASE, AcknowledgeType.GAP, ACCEPT)], 0.0)
        self.assertEqual(partition.start_offset, 2)
        self.assertEqual(
            partition.changes(),
            (StateBatch(2, 2, AVAILABLE, 1), StateBatch(3, 3, ARCHIVED, 1), StateBatch(4, 4, ACKNOWLEDGED, 1)),
        )
        self.assertEqual(partition.acquire("m", partition.next_fetch_offset, [4], 0.0, 100), [AcquiredRecords(2, 2, 2)])
        self.assertEqual(partition.changes(), ())

    def test_too_many_deliveries(self) -> None:
        partition = partition_at()
        for count in (1, 2, 3):
            self.assertEqual(
                partition.acquire("m", partition.next_fetch_offset, [0], 0.0, 100), [AcquiredRecords(0, 0, count)]
            )
            partition.acknowledge("m", [one(0, 0, RELEASE)], 0.0)
        self.assertEqual(partition.start_offset, 1)

    def test_time(self) -> None:
        """What is not acknowledged in time is available again; a member may ask for more time."""
        partition = partition_at()
        partition.acquire("m", partition.next_fetch_offset, [1], 0.0, 100)
        partition.acknowledge("m", [one(1, 1, RENEW)], 20.0)
        self.assertEqual(partition.deadline, 30.0)
        self.assertFalse(partition.expire(29.0))
        self.assertTrue(partition.expire(30.0))
        self.assertEqual((partition.next_fetch_offset, partition.deadline), (0, 50.0))
        self.refused(ErrorCode.INVALID_RECORD_STATE, partition, one(0, 1, ACCEPT))
        partition.acknowledge("m", [one(1, 1, ACCEPT)], 31.0)

    def test_a_member_goes(self) -> None:
        partition = partition_at()
        partition.acquire("a", partition.next_fetch_offset, [1], 0.0, 100)
        partition.acquire("b", partition.next_fetch_offset, [3], 0.0, 100)
        self.assertTrue(partition.release("a"))
        self.assertFalse(partition.release("a"))
        self.assertEqual(partition.acquire("b", partition.next_fetch_offset, [3], 0.0, 100), [AcquiredRecords(0, 1, 2)])

    def test_refusals(self) -> None:
        """Nothing is changed by a request that is wrong in part."""
        partition = partition_at(0, evolve(SETTINGS, renew_acknowledge=False))
        partition.acquire("m", partition.next_fetch_offset, [4], 0.0, 100)
        partition.acquire("other", partition.next_fetch_offset, [9], 0.0, 100)
        wrong = ErrorCode.INVALID_REQUEST
        self.refused(wrong, partition, one(0, 1, ACCEPT), one(1, 2, ACCEPT))
        self.refused(wrong, partition, one(1, 0, ACCEPT))
        self.refused(wrong, partition, one(0, 3, ACCEPT, ACCEPT))
        self.refused(wrong, partition, one(0, 3))
        self.refused(wrong, partition, AcknowledgementBatch(0, 0, [5]))
        self.refused(wrong, partition, one(0, 0, RENEW))
        self.refused(wrong, partition, one(0, 10, ACCEPT))
        self.refused(ErrorCode.INVALID_RECORD_STATE, partition, one(0, 0, ACCEPT), one(4, 5, ACCEPT))
        partition.acknowledge("m", [one(0, 4, ACCEPT)], 0.0)
        # What was done with before the start offset is nobody's business any more.
        partition.acknowledge("m", [one(0, 4, ACCEPT)], 0.0)

    def test_aborted_transactions(self) -> None:
        partition = partition_at()
        acquired = partition.acquire("m", partition.next_fetch_offset, [9], 0.0, 100, skipped=[(0, 1), (4, 5)])
        self.assertEqual(acquired, [AcquiredRecords(2, 3, 1), AcquiredRecords(6, 9, 1)])
        self.assertEqual(partition.start_offset, 2)
        self.assertEqual(partition.changes(), (StateBatch(4, 5, ARCHIVED, 0),))

    def test_records_that_are_gone(self) -> None:
        """The log was cut off at its beginning, within what is in flight, and behind it."""
        partition = partition_at()
        partition.acquire("m", partition.next_fetch_offset, [4], 0.0, 100)
        partition.log_starts(2)
        self.assertEqual((partition.start_offset, partition.end_offset), (2, 5))
        partition.acknowledge("m", [one(0, 3, ACCEPT)], 0.0)
        partition.log_starts(100)
        self.assertEqual((partition.start_offset, partition.end_offset), (100, 100))
        self.assertTrue(partition.is_dirty)

    def test_restored(self) -> None:
        """What is missing between kept records was acquired, and is available."""
        batches = (
            StateBatch(0, 1, ACKNOWLEDGED, 1),
            StateBatch(4, 5, ACKNOWLEDGED, 2),
            StateBatch(7, 7, AVAILABLE, 1),
        )
        partition = SharePartition.restored(ShareState(3, 0, 2, batches, 2), lambda: SETTINGS)
        self.assertEqual((partition.start_offset, partition.end_offset, partition.state_epoch), (2, 8, 3))
        self.assertEqual(
            partition.acquire("m", partition.next_fetch_offset, [8], 0.0, 100),
            [AcquiredRecords(2, 3, 1), AcquiredRecords(6, 6, 1), AcquiredRecords(7, 7, 2), AcquiredRecords(8, 8, 1)],
        )
        self.assertFalse(partition.is_dirty)


@define
class Model:
    """A record, as simple as it can be."""

    state: RecordState = AVAILABLE
    count: int = 0
    member: str = ""
    deadline: float = 0.0

    def release(self) -> None:
        self.state = ARCHIVED if self.count >= SETTINGS.delivery_count_limit else AVAILABLE
        self.member = ""


class AgainstModel(RuleBasedStateMachine):
    """Any history: the same as records one by one; and what is kept restores it, but for who has what."""

    @initialize(start=st.integers(0, 3))
    def begin(self, start: int) -> None:
        self.partition = partition_at(start)
        self.records: dict[int, Model] = {}
        self.start = start
        self.now = 0.0
        self.kept: dict[int, tuple[int, int]] = {}

    def end(self) -> int:
        return max(self.records, default=self.start - 1) + 1

    def settle(self) -> None:
        while (record := self.records.get(self.start)) is not None and record.state.is_done:
            del self.records[self.start]
            self.start += 1

    @rule(member=st.sampled_from("ab"), size=st.integers(1, 9), most=st.integers(1, 12), batch=st.integers(1, 4))
    def acquire(self, member: str, size: int, most: int, batch: int) -> None:
        first = self.partition.next_fetch_offset
        ends = list(range(first + batch - 1, first + size * batch, batch))
        acquired = self.partition.acquire(member, first, ends, self.now, most, strict=True)
        expected: list[tuple[int, int]] = []
        for offset in range(first, ends[-1] + 1):
            record = self.records.get(offset)
            if len(expected) == most:
                break
            if record is None:
                if offset >= self.start + SETTINGS.partition_max_record_locks:
                    break
                record = self.records[offset] = Model()
            if record.state is AVAILABLE:
                record.state, record.member = ACQUIRED, member
                record.count += 1
                record.deadline = self.now + LOCK_SECONDS
                expected.append((offset, record.count))
        found = [(offset, each.delivery_count) for each in acquired for offset in range(each.first, each.last + 1)]
        assert found == expected

    @rule(
        member=st.sampled_from("ab"),
        first=st.integers(0, 12),
        types=st.lists(st.sampled_from([ACCEPT, RELEASE, REJECT, RENEW]), min_size=1, max_size=5),
    )
    def acknowledge(self, member: str, first: int, types: list[AcknowledgeType]) -> None:
        first += self.start
        offsets = range(first, first + len(types))
        records = [self.records.get(offset) for offset in offsets]
        right = all(record is not None and record.member == member for record in records)
        try:
            self.partition.acknowledge(member, [one(first, offsets[-1], *types)], self.now)
        except ApiError:
            assert not right
            return
        assert right
        for record, kind in zip(records, types, strict=True):
            assert record is not None
            if kind is RENEW:
                record.deadline = self.now + LOCK_SECONDS
                continue
            record.member = ""
            if kind is RELEASE:
                record.release()
            else:
                record.state = ACKNOWLEDGED if kind is ACCEPT else ARCHIVED
        self.settle()

    @rule(seconds=st.sampled_from([1.0, 10.0, 31.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.now += seconds
        self.partition.expire(self.now)
        for record in self.records.values():
            if record.state is ACQUIRED and record.deadline <= self.now:
                record.release()
        self.settle()

    @rule(member=st.sampled_from("ab"))
    def member_goes(self, member: str) -> None:
        self.partition.release(member)
        for record in self.records.values():
            if record.member == member:
                record.release()
        self.settle()

    @rule(more=st.integers(1, 30))
    def retention(self, more: int) -> None:
        self.partition.log_starts(self.start + more)
        self.start += more
        self.records = {offset: record for offset, record in self.records.items() if offset >= self.start}
        self.settle()

    @rule()
    def keep(self) -> None:
        for batch in self.partition.changes():
            for offset in range(batch.first_offset, batch.last_offset + 1):
                self.kept[offset] = batch.delivery_state, batch.delivery_count
        assert not self.partition.is_dirty

    @rule()
    def fail_over(self) -> None:
        """Another broker goes on with what was kept."""
        self.keep()
        batches = tuple(
            StateBatch(offset, offset, *kept) for offset, kept in sorted(self.kept.items()) if offset >= self.start
        )
        self.partition = SharePartition.restored(state_of(self.partition, *batches), lambda: SETTINGS)
        end = max((batch.last_offset for batch in batches), default=self.start - 1)
        for offset, record in list(self.records.items()):
            if offset > end:
                del self.records[offset]
            elif record.state is ACQUIRED:
                record.state, record.member = AVAILABLE, ""
                record.count = self.kept[offset][1] if offset in self.kept else 0

    @invariant()
    def is_the_same(self) -> None:
        partition = self.partition
        assert (partition.start_offset, partition.end_offset) == (self.start, self.end())
        available = [offset for offset, record in sorted(self.records.items()) if record.state is AVAILABLE]
        assert partition.next_fetch_offset == (available[0] if available else self.end())
        assert partition.acquired_count == sum(record.state is ACQUIRED for record in self.records.values())
        assert partition.delivery_complete_count == sum(record.state.is_done for record in self.records.values())
        deadlines = [record.deadline for record in self.records.values() if record.state is ACQUIRED]
        assert partition.deadline == min(deadlines, default=None)


AgainstModelTests = AgainstModel.TestCase


@given(st.lists(st.sampled_from([ACCEPT, RELEASE, REJECT]), min_size=2, max_size=20))
def test_parts(types: list[AcknowledgeType]) -> None:
    """What is said of each record is said of parts, without two that say the same."""
    parts = list(AcknowledgementBatch(7, 6 + len(types), types).parts())
    assert [kind for first, last, kind in parts for _ in range(first, last + 1)] == types
    assert all(one[2] != other[2] and one[1] + 1 == other[0] for one, other in pairwise(parts))
