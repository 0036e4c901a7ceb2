"""
Cleans one log once (Kafka: Cleaner): maps the keys of the dirty section to their last offsets, rewrites segments with
the records that stay, and replaces the old segments.

A thread reads and processes a part of a segment (:mod:`logbus.storage.cleaner.chunks`) for half a second; then
the reactor checks that the log is as it was, and that the cleaner may go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from attrs import define, field

from logbus.errors import StorageError
from logbus.storage.cleaner.chunks import (
    BEHIND,
    CHUNK,
    SHARE,
    SHARE_BEHIND,
    ChunkWork,
    KeysPass,
    RewritePass,
    append_batches,
    process_chunk,
    process_part,
)
from logbus.storage.cleaner.compaction import Compaction
from logbus.storage.cleaner.implementations import OffsetMap
from logbus.storage.cleaner.log_to_clean import LogToClean, SegmentGroup
from logbus.storage.cleaner.offset_map import ENTRY_SIZE
from logbus.storage.istorage import IOPool
from logbus.storage.log import Log
from logbus.storage.producers.aborted_transactions import aborted_index
from logbus.storage.segment_replacement import (
    ReplacementAbandoned,
    check_unchanged,
    new_segment,
    remove_segment_files,
    replace_segments,
)
from logbus.storage.segments.segment import Segment
from logbus.storage.segments.transaction_index import AbortedTransactionSet
from logbus.storage.throttler import Throttler

SMALL = 16 * 1024
"""Cached bytes of this size are processed on the reactor."""
_SMALLEST_RECORD = 8
"""Bytes; bounds the number of keys in the dirty section, unless it is compressed."""
_SMALLEST_MAP = 1024 * 1024
_LARGE_MAP = 250_000
"""Keys, 8 MB. To release more holds the reactor up."""


@define(eq=False)
class CleanerTask:
    """
    One cleaning of one log.

    :ivar log: the log.
    :ivar plan: its section to be cleaned.
    :ivar map_size: bytes of memory for keys.
    :ivar is_stopped: called after each pause.
    :ivar end: everything below is clean now.
    :ivar keys: number of different keys in the dirty section.
    :ivar read_bytes: in both passes.
    :ivar written_bytes: of new segments.
    """

    log: Log
    plan: LogToClean
    throttler: Throttler
    map_size: int
    now_ms: int
    is_stopped: Callable[[], bool] = lambda: False
    end: int = field(default=0, init=False)
    keys: int = field(default=0, init=False)
    read_bytes: int = field(default=0, init=False)
    written_bytes: int = field(default=0, init=False)
    compaction: Compaction = field(init=False)

    async def run(self) -> None:
        """
        Clean up to :ivar:`end`: less than planned if the keys did not fit into memory.

        :raises ReplacementAbandoned: the log changed, or is closed, or the cleaner is to stop. Segments replaced
            before stay replaced.
        :raises ReplacementUnfinished: a replacement was not finished; the log must not be cleaned before the next
            start.
        :raises DecodeError: the log is damaged, or cannot be cleaned.
        :raises ApiError: there is no space; unfinished files are removed.
        :raises StorageError: the disk failed, and is offline.
        """
        log, plan = self.log, self.plan
        self.throttler.begin()
        segments = tuple(segment for segment in log.segments if segment.base_offset < plan.end)
        check_unchanged(log, segments)
        ends = [*(segment.base_offset for segment in segments[1:]), plan.end]
        keys = await self._build_offset_map([s for s, end in zip(segments, ends, strict=True) if end > plan.start])
        self.keys = len(keys)
        self.compaction = Compaction(
            keys,
            self.end,
            self.now_ms,
            log.config.delete_retention_ms,
            {entry.producer_id: entry.last_offset for entry in log.producers if entry.batches},
            {entry.producer_id: entry.epoch for entry in log.producers if not entry.batches},
        )
        reached = [segment for segment in segments if segment.base_offset < self.end]
        following = log.segments[log.segments.index(reached[-1]) + 1].base_offset
        ends = [*(segment.base_offset for segment in reached[1:]), following]
        done = 0
        try:
            while done < len(reached):
                done += await self._replace(reached[done:], ends[done:])
        finally:
            if keys.capacity >= _LARGE_MAP:
                with suppress(StorageError):
                    await log.disk.submit(IOPool.CLEAN, keys.clear)

    # -- The first pass

    async def _build_offset_map(self, dirty: Sequence[Segment]) -> OffsetMap:
        plan = self.plan
        size = sum(segment.size for segment in dirty) // _SMALLEST_RECORD * ENTRY_SIZE
        keys = OffsetMap(min(self.map_size, max(_SMALLEST_MAP, size)))
        self.end = plan.end
        for segment in dirty:
            position, aborted = segment.find(plan.start), self._aborted(segment)
            while position < segment.size:
                keys_pass = KeysPass(keys, plan.start, aborted, self._share)
                begun = position
                position = await self._process(segment, position, keys_pass, dirty)
                if keys_pass.is_full:
                    self.end = keys_pass.end
                    return keys
                assert position > begun
        return keys

    # -- The second pass

    async def _replace(self, segments: Sequence[Segment], ends: Sequence[int]) -> int:
        """
        Write the records that stay of the first of these segments into one new segment, and replace them by it, if
        anything changed.

        :param ends: where each ends.
        :returns: the number of segments processed.
        """
        log, before = self.log, self.compaction.changed
        self._check(segments[:1])
        with new_segment(log, segments[0]) as new:
            run = await self._rewrite(segments, ends, new)
        if (self.compaction.changed > before or len(run) > 1) and any(segment.size for segment in run):
            await replace_segments(log, run, new)
            self.written_bytes += new.size
            self.throttler.begin()
        else:
            remove_segment_files(log, new)
        return len(run)

    async def _rewrite(self, segments: Sequence[Segment], ends: Sequence[int], new: Segment) -> list[Segment]:
        """Copy the records that stay of as many segments as fit into the new one; returns these."""
        compaction, interval = self.compaction, self.log.config.index_interval_bytes
        taken: SegmentGroup[Segment] = SegmentGroup(self.log.config)
        run = taken.segments
        for segment, end in zip(segments, ends, strict=True):
            if not taken.add(segment, end, new):
                break
            self._check(run)
            position, aborted = 0, self._aborted(segment)
            while position < segment.size:
                work = RewritePass(compaction, aborted, new, new.log.get(), interval, self._share)
                position = await self._process(segment, position, work, run)
        if (last := compaction.end_of_group()) is not None:
            append_batches(new, new.log.get(), (last,), interval)
        # Nothing is left of those that ended before, so the new index does not need them.
        for segment in run:
            for entry in aborted_index(segment, self.log.segments, self.log.log_end_offset).ending_from(compaction.end):
                new.aborted.append(entry)
        return run

    # -- Both

    @property
    def _share(self) -> float:
        return SHARE_BEHIND if self.plan.ratio >= BEHIND or self.plan.is_overdue else SHARE

    def _aborted(self, segment: Segment) -> AbortedTransactionSet:
        """The aborted transactions that batches of a segment may belong to; it is not the last one."""
        segments = self.log.segments
        following = segments[segments.index(segment) + 1].base_offset
        return AbortedTransactionSet(self.log.aborted_transactions(segment.base_offset, following))

    async def _process(self, segment: Segment, position: int, work: ChunkWork, needed: Sequence[Segment]) -> int:
        """
        Have a part of a segment read and processed; returns the position behind its last whole batch.

        :raises DecodeError: there is no batch, or a damaged one.
        """
        seconds = 0.0
        file, length, clock = segment.log.get(), min(CHUNK, segment.size - position), self.throttler.timers.clock
        if length <= SMALL and file.is_cold(position, length) is False:
            # Handing it to a thread costs more than doing it here.
            done = process_chunk(file, position, segment.size, work)
        else:
            asked = clock.seconds()
            most, end = self.throttler.bytes_at_once, segment.size
            done = await self.log.disk.submit(
                IOPool.CLEAN, process_part, file, position, end, work, most, clock.seconds
            )
            seconds = clock.seconds() - asked
            self.throttler.waited(asked)
        self.read_bytes += done.read
        self.throttler.moved(done.read + done.written, seconds)
        self._check(needed)
        if self.throttler.is_due:
            await self.throttler.rest()
            self._check(needed)
        return done.position

    def _check(self, needed: Sequence[Segment]) -> None:
        if self.is_stopped():
            raise ReplacementAbandoned(f"{self.log.partition}: the cleaner stops")
        check_unchanged(self.log, needed)
