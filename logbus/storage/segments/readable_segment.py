"""
The reads of a segment: finds batches by offset, and cuts slices of whole batches (Kafka: LogSegment.read).

Offsets of the newest batches are looked up in memory, others in the offset index and then in the file. Positions are
bytes of the log file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from attrs import define, field

from logbus.records.file_slice import BatchRange, FileSlice
from logbus.storage.segments.header_scan import fitting_batches
from logbus.storage.segments.indexes import IndexCorrupt
from logbus.storage.segments.segment_files import SegmentFiles

RECENT = 256
"""The positions of at least half that many batches at the end of the active segment are kept in memory."""

_SMALL = 8 * 1024
"""Reads of at most this many bytes end where the headers tell, not the index: the next one of that reader is found."""
_READERS = 256
"""The positions at which so many small reads ended are remembered: their readers will go on there."""

_NONE = array("q")
"""Stands for the attributes of an active segment in other segments; never changed."""
_NEVER = 2**63 - 1


@define(eq=False, repr=False)
class ReadableSegment(SegmentFiles):
    """
    The files of a segment, with the positions of some batches in memory.

    :ivar _recent_last: last offsets of the newest batches, for reads at the end of the log; ``_recent_position``: where
        these batches begin.
    :ivar _recent_floor: every offset from here on is in one of them, or behind them.
    :ivar _read_to: where batches with these offsets and later ones begin, because small reads ended before them.
    """

    _recent_last: array[int] = field(default=_NONE, init=False)
    _recent_position: array[int] = field(default=_NONE, init=False)
    _recent_floor: int = field(default=_NEVER, init=False)
    _read_to: dict[int, int] = field(factory=dict, init=False)

    # -- Recent batches

    @property
    def is_active(self) -> bool:
        """Whether its indexes are in memory, for appends."""
        return self._recent_floor != _NEVER

    def _start_recent(self, floor: int) -> None:
        self._recent_last = array("q")
        self._recent_position = array("q")
        self._recent_floor = floor

    def _end_recent(self) -> None:
        self._recent_last = self._recent_position = _NONE
        self._recent_floor = _NEVER

    def remember(self, last_offset: int, position: int) -> None:
        """Have look-ups find a batch whose header is not to be believed, as :meth:`index` does for others."""
        if self._recent_floor != _NEVER:
            self._remember(last_offset, position)

    def _remember(self, last_offset: int, position: int) -> None:
        if len(self._recent_last) >= RECENT:
            self._forget_older()
        self._recent_last.append(last_offset)
        self._recent_position.append(position)

    def _forget_older(self) -> None:
        recent, positions = self._recent_last, self._recent_position
        half = len(recent) // 2
        self._recent_floor = recent[half - 1] + 1
        del recent[:half], positions[:half]

    # -- Reading

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

    def range(self, start: int, bound: int, end_offset: int) -> BatchRange | None:
        """
        The batches from ``start``, where one begins; None: there are none. Arguments as of :meth:`slice`.

        :raises ApiError: there is no space for the newest entries of the offset index.
        """
        end = self.find(bound) if bound < end_offset else self.size
        if end <= start:
            return None
        index, entries = self.offsets.saved()
        return BatchRange(self.base_offset, self.log.get(), start, end, index, entries)

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

    def _repair(self, problem: str) -> None:
        """
        Called when a look-up finds the indexes damaged: makes them right, or raises an error.

        :raises IndexCorrupt: there is nobody here to rebuild them.
        """
        raise IndexCorrupt(problem)
