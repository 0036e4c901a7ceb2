"""
One segment of a log (Kafka: LogSegment): appends, truncation, and the repair of its indexes.

Invariant: every offset in a segment is at least its base offset and below the base offset of the next segment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import TypeAlias

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logbus.errors import ApiError, StorageError
from logbus.records.batch import BatchHeader
from logbus.records.checksum import Buffer
from logbus.records.header import LENGTH_OVERHEAD
from logbus.storage.filesystem.cached_only import CachedOnly
from logbus.storage.segments.batch_ahead import BatchAhead
from logbus.storage.segments.index_check import check_times, trusted_entry
from logbus.storage.segments.index_entries import IndexEntries, IndexState
from logbus.storage.segments.index_rebuild import IndexRebuild
from logbus.storage.segments.indexed_file import IndexedFile
from logbus.storage.segments.indexes import MAX_RELATIVE_OFFSET, IndexCorrupt
from logbus.storage.segments.readable_segment import RECENT, ReadableSegment

AppendedBatch: TypeAlias = tuple[int, int, int]
"""Its last offset, its largest timestamp, and its size in bytes."""

_BASE_OFFSET = attrgetter("base_offset")


def segment_with(segments: Sequence[Segment], offset: int) -> int:
    """The position, among a log's segments, of the last one that begins at ``offset`` or before; 0 if none does."""
    return max(0, bisect_right(segments, offset, key=_BASE_OFFSET) - 1)


@define(eq=False, repr=False)
class Segment(ReadableSegment):
    """
    One segment: files that are read and appended to, and whose indexes are repaired.

    :ivar created_ms: time of creation, for logs whose records have no timestamps.
    :ivar index_rebuild: the rebuild of its indexes, while it runs.
    :ivar on_damage: called when something that is not a batch is found where batches are; a stale index may be the
        reason.
    """

    created_ms: int = -1
    index_rebuild: IndexRebuild | None = field(default=None, init=False)
    on_damage: Callable[[Segment], object] | None = field(default=None, init=False)
    _ahead: BatchAhead | None = field(default=None, init=False)
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
        if self.is_active:
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
        last_offset = base_offset + header.last_offset_delta
        self.appended_many(((last_offset, header.max_timestamp, header.length + LENGTH_OVERHEAD),), interval)

    def appended_many(self, batches: Sequence[AppendedBatch], interval: int) -> None:
        """Index batches that were written at the end of the file, as :meth:`appended` does."""
        position, recent, positions = self.size, self._recent_last, self._recent_position
        for last_offset, timestamp, size in batches:
            if len(recent) >= RECENT:
                self._forget_older()
            recent.append(last_offset)
            positions.append(position)
            if timestamp > self.max_timestamp:
                self.max_timestamp = timestamp
                self.max_timestamp_offset = last_offset
            # As in Kafka: an entry for a batch with more than an interval of unindexed bytes before it.
            if position - self.indexed_size > interval:
                self._index_entry(last_offset, position)
            elif not position:
                self.first_timestamp = timestamp
            position += size
        self.size = position

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

    def seal(self) -> None:
        """
        No batch will be added for now: the time index gets its last entry, all entries go to the files, and their
        memory is released. On a full disk the entries stay in memory, for the next :meth:`save_indexes`.
        """
        self.drop_ahead()
        if self.max_timestamp >= 0:
            self.times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        self._end_recent()
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

    # -- Repair of its indexes

    def damaged(self, position: int, what: str) -> StorageError:
        """The error for something at ``position`` that is not a batch; also reports it to the owner."""
        if self.on_damage is not None:
            self.on_damage(self)
        return super().damaged(position, what)

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
        if not self.is_active:
            self.seal()

    # -- Files

    def close(self) -> None:
        """Close the files."""
        with suppress(StorageError):
            self.drop_ahead()
        if self.index_rebuild is not None:
            self.index_rebuild.stop()
        super().close()
