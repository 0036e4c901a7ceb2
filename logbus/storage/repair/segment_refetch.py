"""
Replaces damaged segments by batches fetched from another replica.

The batches are checked one by one and written to a new segment, which then replaces the old ones as a compacted segment
does (:mod:`logbus.storage.segment_replacement`): a crash leaves the old segments or the new one, never a
mixture.

Compaction makes the replaced range larger. Replicas compact independently, so the other one may still have a record
whose tombstone is gone here, or lack a tombstone whose record is still here. A reader must not get the record without
the tombstone. So everything compacted here behind the damage is replaced with it, and counts as not compacted
afterwards. Before and behind that range both replicas agree on the records of a key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred

from logbus.errors import DecodeError, LogbusError, StorageError
from logbus.model import NO_EPOCH
from logbus.records.batch import BatchHeader, iter_batches, read_marker, rewrite_batch
from logbus.records.checksum import Buffer
from logbus.records.header import (
    CONTROL_BIT,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
)
from logbus.storage.log import Log
from logbus.storage.producers.aborted_transactions import aborted_index, rebuild_transaction_index
from logbus.storage.producers.producer_state_manager import ProducerStateManager
from logbus.storage.repair.damage import BatchChecker, latest_epoch
from logbus.storage.segment_replacement import (
    ReplacementAbandoned,
    check_unchanged,
    new_segment,
    replace_segments,
)
from logbus.storage.segments.indexes import MAX_RELATIVE_OFFSET
from logbus.storage.segments.segment import Segment
from logbus.storage.segments.transaction_index import AbortedTransaction
from logbus.storage.throttler import Throttler

NO_TIMESTAMP = -1
_LARGEST = 2**31 - 1
"""Upper bound of a segment's bytes: positions in its index are 32-bit numbers."""


class ReplicaNotAvailable(LogbusError):
    """The other replica cannot provide the batches; nothing was replaced."""


class RangeNotCommitted(ReplicaNotAvailable):
    """Part of the range is not known to be committed yet; nothing was replaced."""


class ReplicaDamaged(ReplicaNotAvailable):
    """The other replica's batches are damaged, too; nothing was replaced."""


@frozen
class FetchedBatches:
    """
    A fetch response of another replica.

    :ivar data: whole batches from the offset asked for, or the next existing one; empty without any.
    :ivar high_watermark: as that replica knows it.
    :ivar log_start_offset: of that replica.
    """

    data: Buffer
    high_watermark: int
    log_start_offset: int


class BatchSource(Protocol):
    """Another replica of the partition."""

    def fetch(self, offset: int) -> Deferred[FetchedBatches]:
        """
        Fetch batches from an offset on.

        :raises ApiError: (as a failure) the replica refuses, or cannot be reached.
        """


def segments_to_refetch(log: Log, segment: Segment) -> tuple[Segment, ...]:
    """The segments that must be replaced together with a damaged one; never includes the active segment."""
    segments = log.segments[:-1]
    first = last = segments.index(segment)
    cleaned_end = log.cleaned_end_offset
    if cleaned_end > segment.base_offset:
        starts = [one.base_offset for one in log.segments]
        while last + 1 < len(segments) and starts[last + 1] < cleaned_end:
            last += 1
        if cleaned_end not in starts:
            # The last one was compacted only in part. Segments before it may depend on records that it lost.
            first = 0
    return segments[first : last + 1]


@define(eq=False)
class SegmentRefetch:
    """
    One replacement.

    :ivar old: neighbouring closed segments.
    :ivar source: the replica that provides the batches.
    :ivar is_stopped: called after each wait.
    :ivar diverges_at: the offset from which on the source has other records; the log will be cut there, so that these
        are not fetched, and those here are dropped.
    :ivar read_bytes: fetched so far.
    """

    log: Log
    old: Sequence[Segment]
    source: BatchSource
    throttler: Throttler
    is_stopped: Callable[[], bool]
    diverges_at: int | None = None
    read_bytes: int = field(default=0, init=False)
    _fetching: Deferred[FetchedBatches] | None = field(default=None, init=False)
    _producers: ProducerStateManager = field(init=False)
    _aborted: dict[int, AbortedTransaction] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._producers = ProducerStateManager(self.old[0].base_offset)

    async def run(self) -> Segment:
        """
        Replace the segments.

        :returns: the new segment.
        :raises ReplicaNotAvailable: the source lacks the batches; ReplicaDamaged: they are damaged there, too.
        :raises ReplacementAbandoned: the log changed, was closed, or the broker stops; or all of it will be cut off.
        :raises ReplacementUnfinished: see :func:`.replace_segments`.
        :raises ApiError: there is no space, or the source refuses.
        :raises StorageError: the disk failed, and is offline.
        """
        log, first = self.log, self.old[0]
        self._check()
        if self.diverges_at is not None and self.diverges_at <= first.base_offset:
            # An empty segment in its place would only be a gap, should the log not be cut after all.
            raise ReplacementAbandoned(f"{log.partition}: the damaged segment is about to be cut off")
        end = log.segments[log.segments.index(self.old[-1]) + 1].base_offset
        if end - first.base_offset > MAX_RELATIVE_OFFSET:
            raise ReplicaNotAvailable(self._too_large(end))
        with new_segment(log, first) as new:
            last = await self._copy(new, end if self.diverges_at is None else min(end, self.diverges_at))
            if last < self.old[-1].base_offset and len(self.old) > 1:
                self._mark_end(new, end - 1)
            known = self._copy_aborted(new)
        await replace_segments(log, self.old, new)
        if not known and new in log.segments and not log.is_closed:
            rebuild_transaction_index(new, log.segments, log.log_end_offset, "the segment was damaged")
        return new

    async def _copy(self, new: Segment, end: int) -> int:
        """Write the source's batches below ``end``; returns the last offset written, or the one before the segment."""
        log = self.log
        checker = BatchChecker(new.base_offset, end, NO_EPOCH, latest_epoch(log))
        offset = new.base_offset
        self.throttler.begin()
        while offset < end:
            asked = self.throttler.timers.clock.seconds()
            got = await self._fetch(offset)
            self.throttler.waited(asked)
            self._check()
            if got.high_watermark < end:
                raise RangeNotCommitted(f"only offsets below {got.high_watermark} are committed; {end - 1} must be")
            if offset < got.log_start_offset:
                # Earlier records were deleted there, and soon will be here.
                offset = min(got.log_start_offset, end)
                continue
            batches = self._batches(got.data)
            if not batches:
                raise ReplicaNotAvailable(f"it gives nothing at offset {offset}")
            size = 0
            for position, header in batches:
                if header.base_offset >= end:
                    end = offset  # Compaction removed the rest.
                    break
                self._take(checker, got.data, position, header)
                offset, size = header.next_offset, position + header.size
            if new.size + size > _LARGEST:
                raise ReplicaNotAvailable(self._too_large(end))
            if size:
                new.write((memoryview(got.data)[:size],))
                for position, header in batches:
                    if position < size:
                        new.appended(header, header.base_offset, log.config.index_interval_bytes)
                self.read_bytes += size
                self.throttler.moved(size)
            if self.throttler.is_due:
                await self.throttler.rest()
                self._check()
        return checker.next_offset - 1

    async def _fetch(self, offset: int) -> FetchedBatches:
        fetching = self._fetching = self.source.fetch(offset)
        try:
            return await fetching
        except CancelledError as error:
            raise ReplacementAbandoned(f"{self.log.partition}: the repair was stopped") from error
        finally:
            self._fetching = None

    def hurry(self) -> None:
        """End a pause, or a wait for the source, to check :attr:`is_stopped`."""
        self.throttler.hurry()
        if self._fetching is not None:
            self._fetching.cancel()

    def _mark_end(self, new: Segment, offset: int) -> None:
        """
        End the new segment with an empty batch, as compaction does: after a crash its last batch tells which segments
        it replaces.
        """
        header = BatchHeader(
            offset, 0, self.log.epoch_at(offset), MAGIC, 0, 0, 0, NO_TIMESTAMP, NO_TIMESTAMP, NO_PRODUCER_ID,
            NO_PRODUCER_EPOCH, NO_SEQUENCE, 0,
        )  # fmt: skip
        batch = rewrite_batch(header, ())
        new.write((batch,))
        new.appended(header._replace(length=len(batch) - LENGTH_OVERHEAD), offset, self.log.config.index_interval_bytes)

    def _batches(self, data: Buffer) -> list[tuple[int, BatchHeader]]:
        """The whole batches in ``data``; a partial one at the end is ignored."""
        batches: list[tuple[int, BatchHeader]] = []
        try:
            batches.extend(iter_batches(data))
        except DecodeError as error:
            if not batches:
                raise ReplicaDamaged(f"its copy is damaged, too: {error}") from error
        return batches

    def _take(self, checker: BatchChecker, data: Buffer, position: int, header: BatchHeader) -> None:
        problem = checker.problem(data, position, header)
        if problem is not None:
            raise ReplicaDamaged(f"its copy is damaged, too, at offset {header.base_offset}: {problem}")
        if header.producer_id < 0:
            return
        marker = None
        if header.attributes & CONTROL_BIT:
            try:
                marker = read_marker(data, position, header)
            except DecodeError as error:
                raise ReplicaDamaged(f"its copy is damaged, too: {error}") from error
        aborted = self._producers.appended(header, header.base_offset, marker)
        if aborted is not None:
            self._aborted[aborted.last_offset] = aborted

    def _copy_aborted(self, new: Segment) -> bool:
        """
        Fill the transaction index: from the old index for transactions that began before the segments, and from the
        batches. Returns whether it is complete.
        """
        known = True
        try:
            for segment in self.old:
                for entry in aborted_index(segment, self.log.segments, self.log.log_end_offset).entries():
                    self._aborted[entry.last_offset] = entry
        except StorageError:
            # It is damaged, too, and cannot be rebuilt before the segment is.
            known = False
        for _, entry in sorted(self._aborted.items()):
            new.aborted.append(entry)
        return known

    def _check(self) -> None:
        if self.is_stopped():
            raise ReplacementAbandoned(f"{self.log.partition}: the repair was stopped")
        check_unchanged(self.log, self.old)

    def _too_large(self, end: int) -> str:
        first = self.old[0]
        return (
            f"offsets {first.base_offset} to {end - 1} do not fit into one segment, and were compacted, so that they "
            f"must be replaced together: stop the broker, remove {self.log.disk.root}/{self.log.directory}, start it"
        )
