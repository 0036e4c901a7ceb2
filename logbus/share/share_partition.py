"""
A partition that the consumers of a share group read together (KIP-932; Kafka: SharePartition). Pure.

Each of its records is available, acquired by a member for some time, or done with: acknowledged or archived. A record
that is released, or whose time is over, is available again, unless it was delivered too often. The *start offset* is
the first that is not done with. What is acquired is not kept when the partition's leader changes: it is available then.

Time is in the seconds of a clock that never jumps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum

from attrs import define, field, frozen

from logbus.coordination.share.share_group_settings import ShareGroupSettings
from logbus.coordination.share_state.share_state import ShareState, StateBatch
from logbus.errors import ApiError, ErrorCode
from logbus.share.in_flight_records import AVAILABLE, InFlightRecords, InFlightRun, RecordState


class AcknowledgeType(IntEnum):
    """What a member says of a record, as in ShareFetch and ShareAcknowledge."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_TYPES = frozenset(AcknowledgeType)


@frozen
class AcknowledgementBatch:
    """
    What a member says of the records from ``first`` to ``last``.

    :ivar types: one for all of them, or one for each.
    """

    first: int
    last: int
    types: Sequence[int]

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """The first and last offset of records of which the same is said, and what."""
        if len(self.types) == 1:
            yield self.first, self.last, self.types[0]
            return
        start = 0
        for at in range(1, len(self.types) + 1):
            if at == len(self.types) or self.types[at] != self.types[start]:
                yield self.first + start, self.first + at - 1, self.types[start]
                start = at


@frozen
class AcquiredRecords:
    """Records from ``first`` to ``last`` that a member got, and how often they were delivered with this time."""

    first: int
    last: int
    delivery_count: int


@define(eq=False)
class SharePartition:
    """
    One partition of a group.

    :ivar start_offset: the first record that is not done with.
    :ivar state_epoch: changes when an administrator sets other offsets.
    """

    start_offset: int
    state_epoch: int
    _settings: Callable[[], ShareGroupSettings]
    _records: InFlightRecords = field(init=False)
    _start_moved: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._records = InFlightRecords(self.start_offset)

    @classmethod
    def restored(cls, state: ShareState, settings: Callable[[], ShareGroupSettings]) -> SharePartition:
        """
        A partition as it was kept; what was acquired is available.

        :param state: with a start offset.
        """
        partition = cls(state.start_offset, state.state_epoch, settings)
        records = partition._records
        for batch in sorted(state.batches, key=lambda batch: batch.first_offset):
            if batch.last_offset < records.end:
                continue
            first = max(batch.first_offset, records.end)
            if first > records.end:
                records.add(InFlightRun(records.end, first - 1, AVAILABLE, 0))
            records.add(InFlightRun(first, batch.last_offset, RecordState(batch.delivery_state), batch.delivery_count))
        partition._advance()
        partition._start_moved = False
        return partition

    @property
    def end_offset(self) -> int:
        """The first offset that no member has got yet."""
        return self._records.end

    @property
    def next_fetch_offset(self) -> int:
        """From where on a member's records are to be read."""
        for run in self._records.runs:
            if run.state is AVAILABLE:
                return run.first
        return self.end_offset

    @property
    def is_full(self) -> bool:
        """Whether no record can be acquired now."""
        return self.next_fetch_offset == self.end_offset and self.room <= 0

    @property
    def acquired_count(self) -> int:
        """Records that members have."""
        return sum(run.count for run in self._records.runs if run.state is RecordState.ACQUIRED)

    @property
    def delivery_complete_count(self) -> int:
        """Records from the start offset on that are done with."""
        return sum(run.count for run in self._records.runs if run.state.is_done)

    def acquirable_count(self, first: int, last: int, room: int) -> int:
        """How many records from one offset to another a member would get, with room for so many new ones."""
        known = sum(
            min(run.last, last) - max(run.first, first) + 1
            for run in self._records.between(first, last)
            if run.state is AVAILABLE
        )
        return known + max(0, min(last - max(first, self.end_offset) + 1, room))

    @property
    def room(self) -> int:
        """How many records behind the end offset can be acquired now; negative if it has become less."""
        return self._settings().partition_max_record_locks - (self.end_offset - self.start_offset)

    # Acquiring.

    def acquire(
        self,
        member_id: str,
        first: int,
        batch_ends: Sequence[int],
        now: float,
        max_records: int,
        *,
        strict: bool = False,
        skipped: Sequence[tuple[int, int]] = (),
    ) -> list[AcquiredRecords]:
        """
        Give a member records that were read.

        :param first: the offset that they were read from: what was :attr:`next_fetch_offset` then.
        :param batch_ends: the last offset of each batch that was read, in order.
        :param max_records: so many, and those up to the end of the last one's batch; with ``strict`` no more.
        :param skipped: first and last offsets of records that nobody is to get, in order: control records, and
            those of aborted transactions.
        """
        if not batch_ends or first > self.end_offset:
            return []
        found: list[AcquiredRecords] = []
        settings = self._settings()
        deadline = now + settings.record_lock_duration_ms / 1000
        left = max_records
        for run in self._candidates(first, batch_ends[-1], skipped):
            if left <= 0:
                break
            end = run.last
            if run.count > left:
                end = run.first + left - 1
                if not strict:
                    end = min(run.last, batch_ends[bisect_left(batch_ends, end)])
            is_new = run.first >= self.end_offset
            if is_new:
                end = min(end, self.start_offset + settings.partition_max_record_locks - 1)
                if end < run.first:
                    break
            if run.state.is_done:
                # Nobody is to get them.
                self._records.add(InFlightRun(run.first, end, run.state, 0, is_dirty=True))
                continue
            count = run.delivery_count + 1
            acquired = InFlightRun(run.first, end, RecordState.ACQUIRED, count, member_id, deadline)
            if is_new:
                self._records.add(acquired)
            else:
                self._records.replace(acquired)
            found.append(AcquiredRecords(run.first, end, count))
            left -= end - run.first + 1
        self._advance()
        return found

    def _candidates(self, first: int, last: int, skipped: Sequence[tuple[int, int]]) -> list[InFlightRun]:
        """The available records among some, and those that are new; those that nobody is to get are archived."""
        found = [
            InFlightRun(max(run.first, first), min(run.last, last), run.state, run.delivery_count)
            for run in self._records.between(first, last)
            if run.state is AVAILABLE
        ]
        at = self.end_offset
        for begin, end in skipped:
            begin, end = max(begin, at), min(end, last)
            if begin > end:
                continue
            if begin > at:
                found.append(InFlightRun(at, begin - 1, AVAILABLE, 0))
            found.append(InFlightRun(begin, end, RecordState.ARCHIVED, 0))
            at = end + 1
        if at <= last:
            found.append(InFlightRun(at, last, AVAILABLE, 0))
        return found

    # Giving back.

    def acknowledge(self, member_id: str, batches: Sequence[AcknowledgementBatch], now: float) -> None:
        """
        Take what a member says of records that it has acquired: all of it, or nothing.

        :raise ApiError: INVALID_REQUEST; INVALID_RECORD_STATE: it has not acquired some, or not any more.
        """
        self._check(member_id, batches)
        start, settings = self.start_offset, self._settings()
        deadline = now + settings.record_lock_duration_ms / 1000

        def settle(run: InFlightRun, kind: int) -> None:
            if kind == AcknowledgeType.RENEW:
                run.deadline = deadline
            elif kind == AcknowledgeType.ACCEPT:
                self._end(run, RecordState.ACKNOWLEDGED)
            elif kind == AcknowledgeType.RELEASE:
                self._release(run, settings.delivery_count_limit)
            else:
                self._end(run, RecordState.ARCHIVED)

        self._records.change(
            (
                (max(first, start), last, kind)
                for batch in batches
                for first, last, kind in batch.parts()
                if last >= start
            ),
            settle,
        )
        self._advance()

    def _check(self, member_id: str, batches: Sequence[AcknowledgementBatch]) -> None:
        before = -1
        renews = self._settings().renew_acknowledge
        for batch in batches:
            if not before < batch.first <= batch.last:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"the acknowledgement of {batch.first} to {batch.last} does not follow one up to {before}",
                )
            if len(batch.types) not in (1, batch.last - batch.first + 1):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"the acknowledgement of {batch.first} to {batch.last} has {len(batch.types)} types",
                )
            for kind in set(batch.types):
                if kind not in _TYPES:
                    raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no acknowledgement of type {kind}")
                if kind == AcknowledgeType.RENEW and not renews:
                    raise ApiError(ErrorCode.INVALID_REQUEST, "the group does not let acquisitions be renewed")
            before = batch.last
            if batch.last >= self.end_offset:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"records up to {batch.last} are acknowledged, but those from {self.end_offset} on were not "
                    "delivered",
                )
        self._check_acquired(member_id, batches)

    def _check_acquired(self, member_id: str, batches: Sequence[AcknowledgementBatch]) -> None:
        """Check batches that are in order, and before the end; those before the start are past."""
        runs = iter(self._records.runs)
        run = next(runs, None)
        for batch in batches:
            while run is not None and run.last < batch.first:
                run = next(runs, None)
            while run is not None and run.first <= batch.last:
                if run.state is not RecordState.ACQUIRED or run.member_id != member_id:
                    raise ApiError(
                        ErrorCode.INVALID_RECORD_STATE,
                        f"the member {member_id} has not acquired the record at {max(batch.first, run.first)}, "
                        "or not any more",
                    )
                if run.last > batch.last:
                    break
                run = next(runs, None)

    def _release(self, run: InFlightRun, most_deliveries: int) -> None:
        self._end(run, RecordState.ARCHIVED if run.delivery_count >= most_deliveries else AVAILABLE)

    @staticmethod
    def _end(run: InFlightRun, state: RecordState) -> None:
        run.state, run.member_id, run.deadline, run.is_dirty = state, "", 0.0, True

    def release(self, member_id: str) -> bool:
        """Release all that a member has acquired; whether that was something."""
        return self._release_all(lambda run: run.member_id == member_id)

    def expire(self, now: float) -> bool:
        """Release all whose time is over; whether that was something."""
        return self._release_all(lambda run: run.deadline <= now)

    def _release_all(self, applies: Callable[[InFlightRun], bool]) -> bool:
        found = [run for run in self._records.runs if run.state is RecordState.ACQUIRED and applies(run)]
        if found:
            most = self._settings().delivery_count_limit
            for run in found:
                self._release(run, most)
            self._advance()
        return bool(found)

    @property
    def deadline(self) -> float | None:
        """When the next acquisition ends."""
        return min((run.deadline for run in self._records.runs if run.state is RecordState.ACQUIRED), default=None)

    def log_starts(self, offset: int) -> None:
        """The log begins at an offset: what was before it is gone."""
        if offset > self.start_offset:
            self._records.drop_before(offset)
            self._moved(offset)
            self._advance()

    def log_ends(self, offset: int) -> None:
        """The log ends at an offset: there is nothing behind it."""
        if offset < self.end_offset:
            self._records.drop_from(offset)
            if offset < self.start_offset:
                self._moved(offset)

    def _advance(self) -> None:
        """Move the start offset behind what is done with, and join what has become alike."""
        self._records.join()
        runs = self._records.runs
        if runs and runs[0].state.is_done:
            self._records.drop_before(runs[0].last + 1)
            self._moved(self._records.start)

    def _moved(self, start: int) -> None:
        self.start_offset = start
        self._start_moved = True

    # Keeping.

    @property
    def is_dirty(self) -> bool:
        """Whether there are changes that :meth:`changes` has not given yet."""
        return self._start_moved or any(run.is_dirty for run in self._records.runs)

    def changes(self) -> tuple[StateBatch, ...]:
        """What has changed since the last call and is to be kept, beside the start offset."""
        self._start_moved = False
        found = []
        for run in self._records.runs:
            if run.is_dirty:
                run.is_dirty = False
                found.append(_kept(run))
        return tuple(found)


def _kept(run: InFlightRun) -> StateBatch:
    """A run as it is kept: one that has been acquired again has not been delivered again as far as anybody knows."""
    if run.state is RecordState.ACQUIRED:
        return StateBatch(run.first, run.last, AVAILABLE, run.delivery_count - 1)
    return StateBatch(run.first, run.last, run.state, run.delivery_count)
