"""
One segment of a log (Kafka: LogSegment): appends, reads, truncation, and the repair of its indexes.

Invariant: every offset in a segment is at least its base offset and below the base offset of the next segment.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logbus.errors import ApiError, StorageError
from logbus.records.batch import BatchHeader
from logbus.records.checksum import Buffer
from logbus.records.file_slice import FileSlice
from logbus.storage.filesystem.cached_only import CachedOnly
from logbus.storage.segments.batch_ahead import BatchAhead
from logbus.storage.segments.header_scan import fitting_batches
from logbus.storage.segments.index_check import check_times, trusted_entry
from logbus.storage.segments.index_entries import IndexEntries, IndexState
from logbus.storage.segments.index_rebuild import IndexRebuild
from logbus.storage.segments.indexed_file import IndexedFile
from logbus.storage.segments.indexes import MAX_RELATIVE_OFFSET, IndexCorrupt
from logbus.storage.segments.segment_files import SegmentFiles

_RECENT = 256
"""The positions of at least half that many batches at the end of the active segment are kept in memory."""

_SMALL = 8 * 1024
"""Reads of at most this many bytes end where the headers tell, not the index: the next one of that reader is found."""
_READERS = 256
"""The positions at which so many small reads ended are remembered: their readers will go on there."""

_NONE = array("q")
"""Stands for the attributes of an active segment in other segments; never changed."""
_NEVER = 2**63 - 1
_BASE_OFFSET = attrgetter("base_offset")


def segment_with(segments: Sequence[Segment], offset: int) -> int:
    """The position, among a log's segments, of the last one that begins at ``offset`` or before; 0 if none does."""
    return max(0, bisect_right(segments, offset, key=_BASE_OFFSET) - 1)


@define(eq=False, repr=False)
class Segment(SegmentFiles):
    """
    One segment: files that are appended to, and whose indexes are repaired.

    :ivar created_ms: time of creation, for logs whose records have no timestamps.
    :ivar index_rebuild: the rebuild of its indexes, while it runs.
    :ivar on_damage: called when something that is not a batch is found where batches are; a stale index may be the
        reason.
    :ivar _recent_last: last offsets of the newest batches, for reads at the end of the log; ``_recent_position``: where
        these batches begin.
    :ivar _recent_floor: every offset from here on is in one of them, or behind them.
    :ivar _read_to: where batches with these offsets and later ones begin, because small reads ended before them.
    """

    created_ms: int = -1
    index_rebuild: IndexRebuild | None = field(default=None, init=False)
    on_damage: Callable[[Segment], object] | None = field(default=None, init=False)
    _ahead: BatchAhead | None = field(default=None, init=False)
    _recent_last: array[int] = field(default=_NONE, init=False)
    _recent_position: array[int] = field(default=_NONE, init=False)
    _recent_floor: int = field(default=_NEVER, init=False)
    _read_to: dict[int, int] = field(factory=dict, init=False)
    _log = Logger()

    # -- Becoming usable

    def create(self) -> None:
        """
        Begin an empty segment on disk.

        :raises ApiError: there is no space, or no file descriptor.
        """
        file = self.log.create()
        if file.size():
            # Left over from a roll that a crash or a full disk interrupted.
            file.truncate(0)
        self.activate_empty()

    def activate_empty(self) -> None:
        """Start empty indexes in memory, to be filled by :meth:`appended`."""
        offsets, times = self._new_indexes()
        offsets.start()
        times.start()
        self.drop_transaction_index()
        self._start_recent(self.base_offset)
        self.indexed_size = 0

    def activate(self) -> None:
        """
        Prepare an existing segment for appends: its indexes are loaded, or rebuilt if they are damaged.

        :raises ApiError: KAFKA_STORAGE_ERROR: the rebuild takes a while.
        """
        if self._recent_floor != _NEVER:
            return
        self._expect_indexes()
        offsets, times = self._new_indexes()
        try:
            offsets.load(self.size)
            times.open()
            check_times(self)
        except IndexCorrupt as problem:
            self._repair(str(problem))
        if not self.offsets.is_loaded:
            # The check found it damaged, and the rebuilt one was written to the file.
            self.offsets.load(self.size)
        self.indexed_size = self.offsets.floor_at(self.size)[1]
        # Only a few kilobytes lie behind the last index entry: scan them once, now.
        self._start_recent(self.base_offset)
        assert self._offsets is not None
        last, position = self._offsets.floor(MAX_RELATIVE_OFFSET)
        self._recent_floor = self.base_offset + last + 1
        for at, header in self.batches(position):
            if header.last_offset >= self._recent_floor:
                self._remember(header.last_offset, at)
        self.first_ms()

    def begin_scan(self, offset: int) -> tuple[int, int]:
        """
        Activate the segment for batches that are in the file already: :meth:`index` must be called for each from the
        returned position on. Index entries beyond it are dropped.

        :param offset: the returned position is that of the batch with this offset, or an earlier one's.
        :returns: the position, and the least offset that can be there.
        """
        offsets, times = self._new_indexes()
        try:
            offsets.load(self.size)
            times.open()
            times.check()
            relative, position = trusted_entry(self, offsets, offset)
        except IndexCorrupt as problem:
            if self.size:
                self._log.info("{path}: index rebuilt: {problem}", path=self.log.path, problem=str(problem))
            self.begin_rebuild()
            relative, position = -1, 0
        else:
            self.indexed_size = position
            offsets.cut_position(position + 1)
            times.cut(relative)
            self.max_timestamp, last = times.last or (-1, -1 - self.base_offset)
            self.max_timestamp_offset = self.base_offset + last
        if relative < 0:
            position = 0
        elif position:
            self.first_ms()
        self._start_recent(self.base_offset if position == 0 else self.base_offset + relative)
        return position, self.base_offset

    @property
    def is_active(self) -> bool:
        """Whether its indexes are in memory, for appends."""
        return self._recent_floor != _NEVER

    def _start_recent(self, floor: int) -> None:
        self._recent_last = array("q")
        self._recent_position = array("q")
        self._recent_floor = floor

    # -- Writing

    def write(self, parts: Sequence[Buffer], batch: Buffer | None = None) -> None:
        """
        Write batches at the end of the file: all but their index entries.

        :param batch: if :meth:`write_ahead` may have got it, the batch whose records are the last part.
        :raises ApiError, StorageError: as of :meth:`.IFile.write`.
        """
        ahead = self._ahead
        if ahead is not None:
            self._ahead = None
            parts = ahead.left_to_write(self.size, parts, batch)
        self.log.get().write(self.size, parts)

    def write_ahead(self, batch: Buffer) -> Deferred[None] | None:
        """
        Begin to write the records of a batch that will most likely be appended next, and must not change until then.

        :returns: fires when that is over: it is time to append the batch. None: it cannot be done now.
        """
        if self._ahead is not None:
            return None
        ahead = self._ahead = BatchAhead.begin(self.disk, self.log.get(), self.size, batch)
        return None if ahead is None else ahead.over

    def drop_ahead(self) -> None:
        """
        Remove records that were written ahead and not appended, if there are any.

        :raises StorageError: that failed; the disk is offline.
        """
        ahead = self._ahead
        if ahead is not None:
            self._ahead = None
            ahead.remove(self.size)

    def appended(self, header: BatchHeader, base_offset: int, interval: int) -> None:
        """
        Index a batch that was written at the end of the file.

        :param base_offset: the offset it was given, which may differ from the header's.
        :param interval: bytes between index entries.
        """
        position = self.size
        last_offset = base_offset + header.last_offset_delta
        recent = self._recent_last
        if len(recent) >= _RECENT:
            self._forget_older()
        recent.append(last_offset)
        self._recent_position.append(position)
        timestamp = header.max_timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last_offset
        size = header.length + 12
        # As in Kafka: an entry for a batch with more than an interval of unindexed bytes before it.
        if position - self.indexed_size > interval:
            self._index_entry(last_offset, position)
        elif not position:
            self.first_timestamp = timestamp
        self.size = position + size

    def index_state(self, interval: int) -> IndexState:
        """
        What its next index entries depend on.

        :param interval: bytes between them.
        """
        last = self.times.last
        return IndexState(
            self.base_offset,
            interval,
            self.indexed_size,
            self.first_timestamp,
            self.max_timestamp,
            self.max_timestamp_offset,
            -1 if last is None else last[0],
            self.base_offset,
        )

    def appended_all(self, entries: IndexEntries, size: int) -> None:
        """
        Index batches that were written at the end of the file: as :meth:`appended` for each.

        :param entries: made from :meth:`index_state`.
        :param size: bytes that were written.
        """
        if not size:
            return
        self.offsets.extend(entries.offsets)
        self.times.extend(entries.times)
        state = entries.state
        self.indexed_size, self.first_timestamp = state.indexed, state.first_timestamp
        self.max_timestamp, self.max_timestamp_offset = state.max_timestamp, state.max_timestamp_offset
        self.size += size
        # Where these batches are is known from the index alone.
        self._start_recent(state.end_offset)

    def index(self, header: BatchHeader, position: int, interval: int) -> None:
        """Index a batch that is in the file already: like :meth:`appended`, without growing the segment."""
        super().index(header, position, interval)
        self.remember(header.last_offset, position)

    def remember(self, last_offset: int, position: int) -> None:
        """Have look-ups find a batch whose header is not to be believed, as :meth:`index` does for others."""
        if self._recent_floor != _NEVER:
            self._remember(last_offset, position)

    def _remember(self, last_offset: int, position: int) -> None:
        if len(self._recent_last) >= _RECENT:
            self._forget_older()
        self._recent_last.append(last_offset)
        self._recent_position.append(position)

    def _forget_older(self) -> None:
        recent, positions = self._recent_last, self._recent_position
        half = len(recent) // 2
        self._recent_floor = recent[half - 1] + 1
        del recent[:half], positions[:half]

    def seal(self) -> None:
        """
        No batch will be added for now: the time index gets its last entry, all entries go to the files, and their
        memory is released. On a full disk the entries stay in memory, for the next :meth:`save_indexes`.
        """
        self.drop_ahead()
        if self.max_timestamp >= 0:
            self.times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        self._recent_last = self._recent_position = _NONE
        self._recent_floor = _NEVER
        try:
            self.save_indexes()
        except ApiError as problem:
            self._log.warn("{path}: index kept in memory: {problem}", path=self.log.path, problem=str(problem))
        else:
            self.offsets.forget()

    def truncate(self, offset: int) -> int:
        """
        Remove the batches at ``offset`` and behind it, and one that contains it. The segment must be active.

        :returns: the offset after the last remaining batch; the base offset without one.
        """
        self.drop_ahead()
        self._read_to.clear()
        self._expect_indexes()
        position = self.find(offset)
        if position < self.size:
            self.log.get().truncate(position)
            self.size = position
        last, at = self.offsets.cut_position(position)
        self.times.cut(last)
        self.indexed_size = at
        self.max_timestamp, relative = self.times.last or (-1, -1 - self.base_offset)
        self.max_timestamp_offset = self.base_offset + relative
        end = self.base_offset + last + 1
        self._start_recent(end)
        for place, header in self.batches(at):
            if header.last_offset >= end:
                end = header.next_offset
                self._remember(header.last_offset, place)
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.max_timestamp_offset = header.last_offset
        return end

    # -- Reading

    def damaged(self, position: int, what: str) -> StorageError:
        """The error for something at ``position`` that is not a batch; also reports it to the owner."""
        if self.on_damage is not None:
            self.on_damage(self)
        return super().damaged(position, what)

    def find(self, offset: int) -> int:
        """The position of the first batch that has ``offset`` or a later one; the segment's size without one."""
        if offset >= self._recent_floor:
            recent = self._recent_last
            i = bisect_left(recent, offset)
            return self._recent_position[i] if i < len(recent) else self.size
        if self._read_to and (position := self._read_to.pop(offset, None)) is not None:
            return position
        try:
            return self.search(offset)
        except IndexCorrupt as problem:
            self._repair(str(problem))
            return self.find(offset)

    def slice(
        self, start: int, max_bytes: int, bound: int, end_offset: int, min_one_batch: bool
    ) -> tuple[FileSlice, int] | None:
        """
        Whole batches from ``start``, where one begins, and an offset above all of them; see :class:`.ReadResult`.

        :param bound: nothing at or above this offset is returned.
        :param end_offset: where the segment ends.
        :param min_one_batch: return the first batch even if it is larger than ``max_bytes``.
        """
        if bound < end_offset:
            limit = self.find(bound)
        else:
            limit, bound = self.size, end_offset
        length = limit - start
        if length <= 0:
            return None
        if length > max_bytes:
            if max_bytes <= _SMALL and not (self._recent_position and self._recent_position[0] <= start):
                return self._small_slice(start, limit, max_bytes, min_one_batch)
            end, bound = self._fitting(start, limit, max_bytes, bound, min_one_batch)
            length = end - start
            if not length:
                return None
        return FileSlice(self.log.get(), start, length), bound

    def _small_slice(self, start: int, limit: int, max_bytes: int, min_one_batch: bool) -> tuple[FileSlice, int] | None:
        """As :meth:`slice`, when there is more before ``limit``; where it ends is remembered."""
        file = self.log.get()
        found = fitting_batches(file, start, max_bytes, limit, self.damaged, at_least_one=min_one_batch)
        if found is None:
            return None
        length, next_offset, data = found
        if len(self._read_to) >= _READERS:
            del self._read_to[next(iter(self._read_to))]
        self._read_to[next_offset] = start + length
        return FileSlice(file, start, length, data), next_offset

    def _fitting(self, start: int, limit: int, max_bytes: int, bound: int, min_one_batch: bool) -> tuple[int, int]:
        """
        Where to end whole batches from ``start`` that fit into ``max_bytes``, in bytes, and an offset above all of
        them.

        :param bound: all batches up to ``limit`` lie below it.
        """
        target = start + max_bytes
        positions = self._recent_position
        if positions and positions[0] <= start:
            i = bisect_right(positions, target) - 1
            if positions[i] <= start:
                if not min_one_batch:
                    return start, bound
                i += 1
                if i == len(positions):
                    return limit, bound
            return positions[i], self._recent_last[i - 1] + 1
        last, end = self.offsets.floor_at(target)
        if end > start:
            # Up to an index interval less than would fit, which is cheaper than reading each header.
            return end, self.base_offset + last
        end = start
        for at, header in self.batches(start, limit):
            if at + header.size > target and (at > start or not min_one_batch):
                break
            end, bound = at + header.size, header.next_offset
            if end >= target:
                break
        return end, bound

    # -- Repair of its indexes

    def _open_on_demand(self) -> None:
        """Open the indexes, rebuilt if they are damaged."""
        self._expect_indexes()
        try:
            self.open_indexes()
            check_times(self)
        except IndexCorrupt as problem:
            self._repair(str(problem))

    def _repair(self, problem: str) -> None:
        """
        Rebuild the indexes.

        :raises ApiError: KAFKA_STORAGE_ERROR: that takes a while.
        """
        with CachedOnly(self.disk, on=False):
            self.rebuild_indexes(problem)
        self._expect_indexes()
        if self._offsets is None:
            raise self.disk.offline()

    def _expect_indexes(self) -> None:
        if self.index_rebuild is not None:
            raise self.index_rebuild.refusal()

    def rebuild_indexes(self, problem: str, progress: Callable[[int, int], None] | None = None) -> IndexRebuild:
        """
        Begin to rebuild both indexes, unless a rebuild runs already.

        :param problem: the reason, for the log.
        :param progress: called for each slice with its bytes, and the position behind it.
        """
        index_rebuild = self.index_rebuild
        if index_rebuild is None:
            # Those of an active segment are written to meanwhile.
            if not self.is_active:
                self._close_indexes()
            fresh = IndexedFile(self.disk, self.files, self.directory, self.base_offset, suffix=self.suffix)
            index_rebuild = self.index_rebuild = IndexRebuild(self, fresh, self._adopt, self._rebuild_ended, progress)
            index_rebuild.start(problem)
        return index_rebuild

    def _rebuild_ended(self) -> None:
        self.index_rebuild = None

    def _adopt(self, fresh: IndexedFile) -> None:
        self.take_indexes(fresh)
        if self._recent_floor == _NEVER:
            self.seal()

    # -- Files

    def close(self) -> None:
        """Close the files."""
        with suppress(StorageError):
            self.drop_ahead()
        if self.index_rebuild is not None:
            self.index_rebuild.stop()
        super().close()
