"""
Cleans one log once (Kafka: Cleaner): maps the keys of the dirty section to their last offsets, rewrites segments with
the records that stay, and replaces the old segments.

Cold data is read in a thread, a megabyte at a time; batches are processed on the reactor, a few milliseconds at a time.
A single batch is not divided: one that takes longer to decompress and decode blocks the reactor for that long, as it
did when it was produced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from logbus.errors import DecodeError
from logbus.records.batch import HEADER_SIZE, BatchHeader, iter_batches, read_header
from logbus.records.checksum import Buffer
from logbus.storage.cleaner.compaction import Compaction, add_keys
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

CHUNK = 1024 * 1024
"""Bytes read at a time, and upper bound of bytes written at a time."""
SMALL = 64 * 1024
"""Cached bytes of this size are read on the reactor."""
_LARGEST = 2**31 - 1
"""Upper bound of a segment's bytes: positions in its index are 32-bit numbers."""
_SMALLEST_RECORD = 8
"""Bytes; bounds the number of keys in the dirty section, unless it is compressed."""
_SMALLEST_MAP = 1024 * 1024


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
        while done < len(reached):
            done += await self._replace(reached[done:], ends[done:])

    # -- The first pass

    async def _build_offset_map(self, dirty: Sequence[Segment]) -> OffsetMap:
        plan = self.plan
        size = sum(segment.size for segment in dirty) // _SMALLEST_RECORD * ENTRY_SIZE
        keys = OffsetMap(min(self.map_size, max(_SMALLEST_MAP, size)))
        self.end = plan.end
        for segment in dirty:
            position = segment.find(plan.start)
            while position < segment.size:
                data = await self._read(segment, position, dirty)
                batches = list(iter_batches(data))
                aborted = self._aborted(batches)
                for at, header in batches:
                    learnt = add_keys(keys, data, at, header, plan.start, aborted.of(header) is not None)
                    if learnt < header.next_offset:
                        self.end = learnt
                        return keys
                    position += header.size
                    if self.throttler.is_due:
                        await self._rest(dirty)
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
        compaction = self.compaction
        taken: SegmentGroup[Segment] = SegmentGroup(self.log.config)
        run = taken.segments
        for segment, end in zip(segments, ends, strict=True):
            if not taken.add(segment, end, new):
                break
            position = 0
            while position < segment.size:
                data = await self._read(segment, position, run)
                out = _Output(new, self.log.config.index_interval_bytes)
                batches = list(iter_batches(data))
                aborted = self._aborted(batches)
                for at, header in batches:
                    left = compaction.retained(data, at, header, aborted.of(header))
                    if left is not None:
                        out.add(left)
                    position += header.size
                    if self.throttler.is_due:
                        self.throttler.moved(out.write())
                        await self._rest(run)
                self.throttler.moved(out.write())
        out = _Output(new, self.log.config.index_interval_bytes)
        if (last := compaction.end_of_group()) is not None:
            out.add(last)
        out.write()
        # Nothing is left of those that ended before, so the new index does not need them.
        for segment in run:
            for entry in aborted_index(segment, self.log.segments, self.log.log_end_offset).ending_from(compaction.end):
                new.aborted.append(entry)
        return run

    # -- Both

    def _aborted(self, batches: Sequence[tuple[int, BatchHeader]]) -> AbortedTransactionSet:
        """The aborted transactions that these batches may belong to."""
        if any(header.transactional for _, header in batches):
            return AbortedTransactionSet(
                self.log.aborted_transactions(batches[0][1].base_offset, batches[-1][1].next_offset)
            )
        return AbortedTransactionSet()

    async def _read(self, segment: Segment, position: int, needed: Sequence[Segment]) -> bytes:
        """
        Whole batches from a position on, at least one, and perhaps a part of the next.

        :raises DecodeError: there is none.
        """
        data = await self._pread(segment, position, CHUNK, needed)
        header = read_header(data)
        if header.size > len(data):
            data = await self._pread(segment, position, header.size, needed)
        if not HEADER_SIZE <= header.size <= len(data):
            raise DecodeError(f"{segment.log.path}: there is no record batch at byte {position}")
        return data

    async def _pread(self, segment: Segment, position: int, size: int, needed: Sequence[Segment]) -> bytes:
        file, length = segment.log.get(), min(size, segment.size - position)
        if length <= SMALL and file.is_cold(position, length) is False:
            # Handing it to a thread costs more than the copy.
            data = file.pread(length, position)
        else:
            asked = self.throttler.timers.clock.seconds()
            data = await self.log.disk.submit(IOPool.READ, file.pread, length, position)
            self.throttler.waited(asked)
        self._check(needed)
        self.read_bytes += len(data)
        self.throttler.moved(len(data))
        return data

    async def _rest(self, needed: Sequence[Segment]) -> None:
        await self.throttler.rest()
        self._check(needed)

    def _check(self, needed: Sequence[Segment]) -> None:
        if self.is_stopped():
            raise ReplacementAbandoned(f"{self.log.partition}: the cleaner stops")
        check_unchanged(self.log, needed)


@define(eq=False)
class _Output:
    """Buffers batches for the end of a segment, to write them together."""

    segment: Segment
    interval: int
    _batches: list[Buffer] = field(factory=list, init=False)

    def add(self, data: Buffer) -> None:
        """Add a batch."""
        self._batches.append(data)

    def write(self) -> int:
        """
        Write the buffered batches; returns the number of bytes.

        :raises ApiError: there is no space.
        """
        segment = self.segment
        data = b"".join(self._batches)
        self._batches.clear()
        if not data:
            return 0
        if segment.size + len(data) > _LARGEST:
            raise DecodeError(f"{segment.log.path} would exceed {_LARGEST} bytes; choose a smaller segment.bytes")
        segment.write((data,))
        for _, header in iter_batches(data):
            segment.appended(header, header.base_offset, self.interval)
        return len(data)
