"""
The sparse offset index and time index of a segment, in Kafka's formats (Kafka: OffsetIndex, TimeIndex).

``.index``: 8 bytes an entry, relative offset and position: the batch that *starts* at this position *ends* with this
offset. ``.timeindex``: 12 bytes an entry, timestamp and relative offset: up to and including the batch that ends with
this offset, no record's timestamp is larger. Numbers are big-endian, offsets relative to the segment's base offset,
entries strictly increasing in both columns.

The files are appended to and never preallocated. Entries of the active segment are kept in arrays, and go to the file
in bulk when the log is flushed, rolled or closed; entries lost in a crash are rebuilt. The index of an old segment is
searched in its file, by a few small reads per search.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import lt
from struct import Struct

from attrs import define, field

from logbus.storage.filesystem.file_cache import LazyFile
from logbus.storage.istorage import IFile, NotCached

MAX_RELATIVE_OFFSET = 2**31 - 1

_SWAP = sys.byteorder == "little"
_BLOCK = 512
"""Entries read at once at the end of a search in a file."""

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
OFFSET_ENTRY_SIZE = OFFSET_ENTRY.size
TIME_ENTRY_SIZE = TIME_ENTRY.size


class IndexCorrupt(Exception):
    """An index contradicts itself or the segment it belongs to; it must be rebuilt."""


def open_index(file: LazyFile, entry_size: int) -> tuple[IFile, int]:
    """
    An index file and its size.

    :raises IndexCorrupt: it is missing, or does not consist of whole entries.
    """
    try:
        opened = file.get()
    except FileNotFoundError:
        raise IndexCorrupt("it is missing") from None
    size = opened.size()
    if size % entry_size:
        raise IndexCorrupt(f"its {size} bytes are not a multiple of {entry_size}")
    return opened, size


def _read(file: IFile, length: int, position: int) -> bytes:
    """Some entries of an index; if they are not cached, all of it is to be loaded."""
    try:
        return file.pread(length, position)
    except NotCached as cold:
        raise cold.of_whole_file() from None


def _swapped(values: array[int]) -> array[int]:
    if _SWAP:
        values.byteswap()
    return values


def _increasing(values: array[int]) -> bool:
    return all(map(lt, values, values[1:]))


@define(eq=False)
class OffsetIndex:
    """
    The offset index: offset to position.

    :ivar count: entries, in the file and not yet written to it.
    :ivar last_offset: relative offset of the last entry, -1 without any.
    :ivar _offsets: of the entries, while the segment is active; None while they are only in the file.
    """

    _file: LazyFile
    _offsets: array[int] | None = field(default=None, init=False)
    _positions: array[int] | None = field(default=None, init=False)
    _written: int = field(default=0, init=False)
    count: int = field(default=0, init=False)
    last_offset: int = field(default=-1, init=False)

    @property
    def is_loaded(self) -> bool:
        """Whether the entries are in memory."""
        return self._offsets is not None

    def start(self) -> None:
        """Begin an empty index in memory."""
        self._offsets = array("i")
        self._positions = array("i")
        self._written = self.count = 0
        self.last_offset = -1

    def load(self, segment_size: int) -> None:
        """
        Read the whole file into memory, checking every entry.

        :raises IndexCorrupt: the file is missing or cannot be the index of a segment of ``segment_size`` bytes.
        """
        file, size = open_index(self._file, OFFSET_ENTRY_SIZE)
        pairs = _swapped(array("i", file.pread(size, 0)))
        offsets, positions = pairs[0::2], pairs[1::2]
        if not (_increasing(offsets) and _increasing(positions)):
            raise IndexCorrupt("its entries are not increasing")
        if offsets and (offsets[0] < 0 or positions[0] < 0 or positions[-1] >= segment_size):
            raise IndexCorrupt(f"its entries lie outside the segment's {segment_size} bytes")
        self._offsets, self._positions = offsets, positions
        self.count = self._written = len(offsets)
        self.last_offset = offsets[-1] if offsets else -1

    def open(self, segment_size: int) -> None:
        """
        Open the file without loading it; only its size and last entry are checked.

        :raises IndexCorrupt: it is missing, or not the index of a segment of ``segment_size`` bytes.
        """
        _, size = open_index(self._file, OFFSET_ENTRY_SIZE)
        self._offsets = self._positions = None
        self.count = self._written = size // OFFSET_ENTRY_SIZE
        self.last_offset = -1
        if self.count:
            offset, position = self.entry(self.count - 1)
            if offset < 0 or not 0 <= position < segment_size:
                raise IndexCorrupt(f"its last entry ({offset}, {position}) lies outside the segment")
            self.last_offset = offset

    def append(self, offset: int, position: int) -> None:
        """
        Add an entry, in memory.

        :param offset: relative; that of the last record of the batch at ``position``.
        """
        assert self._offsets is not None and self._positions is not None
        self._offsets.append(offset)
        self._positions.append(position)
        self.count += 1
        self.last_offset = offset

    def extend(self, pairs: bytes) -> None:
        """Add entries, in memory: pairs of 32-bit numbers in the machine's order, as of :meth:`append`."""
        assert self._offsets is not None and self._positions is not None
        numbers = array("i", pairs)
        self._offsets += numbers[0::2]
        self._positions += numbers[1::2]
        self.count = len(self._offsets)
        if numbers:
            self.last_offset = numbers[-2]

    def entry(self, i: int) -> tuple[int, int]:
        """The ``i``-th entry: relative offset and position."""
        if self._offsets is not None and self._positions is not None:
            return self._offsets[i], self._positions[i]
        data = _read(self._file.get(), OFFSET_ENTRY_SIZE, i * OFFSET_ENTRY_SIZE)
        if len(data) != OFFSET_ENTRY_SIZE:
            raise IndexCorrupt(f"it ends before entry {i}")
        return OFFSET_ENTRY.unpack(data)

    def floor(self, offset: int) -> tuple[int, int]:
        """The last entry with an offset of at most ``offset``; (-1, 0), the segment's start, without one."""
        return self._floor(offset, 0)

    def floor_at(self, position: int) -> tuple[int, int]:
        """The last entry with a position of at most ``position``; (-1, 0) without one."""
        return self._floor(position, 1)

    def _floor(self, key: int, column: int) -> tuple[int, int]:
        offsets, positions = self._offsets, self._positions
        if offsets is not None and positions is not None:
            i = bisect_right(positions if column else offsets, key)
            return (offsets[i - 1], positions[i - 1]) if i else (-1, 0)
        low, high = 0, self.count
        while high - low > _BLOCK:
            middle = (low + high) // 2
            if self.entry(middle)[column] <= key:
                low = middle
            else:
                high = middle
        if low == high:
            return -1, 0
        data = _read(self._file.get(), (high - low) * OFFSET_ENTRY_SIZE, low * OFFSET_ENTRY_SIZE)
        if len(data) != (high - low) * OFFSET_ENTRY_SIZE:
            raise IndexCorrupt(f"it ends before entry {high - 1}")
        block = _swapped(array("i", data))
        i = bisect_right(block[column::2], key)
        return (block[2 * i - 2], block[2 * i - 1]) if i else (-1, 0)

    def cut_position(self, position: int) -> tuple[int, int]:
        """
        Drop the entries of batches that begin at ``position`` or behind it; the index must be in memory.

        :returns: the last remaining entry; (-1, 0) without one.
        """
        offsets, positions = self._offsets, self._positions
        assert offsets is not None and positions is not None
        keep = bisect_left(positions, position)
        del offsets[keep:], positions[keep:]
        self.count = keep
        self.last_offset = offsets[-1] if keep else -1
        if self._written > keep:
            self._file.create().truncate(keep * OFFSET_ENTRY_SIZE)
            self._written = keep
        return (offsets[-1], positions[-1]) if keep else (-1, 0)

    def save(self) -> LazyFile:
        """Append new entries to the file; returns the file, to be synced."""
        offsets, positions = self._offsets, self._positions
        file = self._file.create()
        if offsets is not None and positions is not None and self._written < self.count:
            pairs = array("i", bytes(OFFSET_ENTRY_SIZE * (self.count - self._written)))
            pairs[0::2] = offsets[self._written :]
            pairs[1::2] = positions[self._written :]
            file.write(self._written * OFFSET_ENTRY_SIZE, [_swapped(pairs).tobytes()])
            self._written = self.count
        return self._file

    def saved(self) -> tuple[IFile | None, int]:
        """
        The file, with all entries in it, and how many these are; without any there may be no file.

        :raises ApiError: there is no space for new ones.
        """
        if not self.count:
            return None, 0
        return self.save().get(), self.count

    def forget(self) -> None:
        """Release the entries in memory; the file must have all of them."""
        assert self._offsets is None or self._written == self.count
        self._offsets = self._positions = None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@define(eq=False)
class TimeIndex:
    """
    The time index: timestamp to offset. Smaller than the offset index, and searched seldom: a search reads the whole
    file.

    :ivar last: timestamp and relative offset of the last entry, or None.
    :ivar _entries: those that are not in the file yet, packed.
    """

    _file: LazyFile
    _entries: bytearray = field(factory=bytearray, init=False)
    _written: int = field(default=0, init=False)
    last: tuple[int, int] | None = field(default=None, init=False)

    @property
    def count(self) -> int:
        """Entries, in the file and not yet written to it."""
        return self._written + len(self._entries) // TIME_ENTRY_SIZE

    def start(self) -> None:
        """Begin an empty index."""
        self._entries.clear()
        self._written = 0
        self.last = None

    def open(self) -> None:
        """
        Check the file's size and last entry.

        :raises IndexCorrupt: it is missing or damaged.
        """
        file, size = open_index(self._file, TIME_ENTRY_SIZE)
        self.start()
        self._written = size // TIME_ENTRY_SIZE
        if size:
            data = _read(file, TIME_ENTRY_SIZE, size - TIME_ENTRY_SIZE)
            timestamp, offset = TIME_ENTRY.unpack(data)
            if timestamp < 0 or offset < 0:
                raise IndexCorrupt(f"its last entry ({timestamp}, {offset}) is negative")
            self.last = (timestamp, offset)

    def check(self) -> None:
        """
        Read every entry.

        :raises IndexCorrupt: they are not increasing.
        """
        before = (-1, -1)
        for entry in TIME_ENTRY.iter_unpack(self._data()):
            if entry[0] <= before[0] or entry[1] <= before[1]:
                raise IndexCorrupt("its entries are not increasing")
            before = entry

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry, in memory, if its timestamp is larger than all before it."""
        last = self.last
        if last is None or timestamp > last[0]:
            self._entries += TIME_ENTRY.pack(timestamp, offset)
            self.last = (timestamp, offset)

    def extend(self, entries: bytes) -> None:
        """Add entries, in memory, as they are in the file; their timestamps must be larger than those before them."""
        self._entries += entries
        if entries:
            self.last = TIME_ENTRY.unpack_from(entries, len(entries) - TIME_ENTRY_SIZE)

    def before(self, timestamp: int) -> int:
        """The relative offset up to which every timestamp is below ``timestamp``; -1: none is known to be."""
        data = self._data()
        low, high = 0, len(data) // TIME_ENTRY_SIZE
        while low < high:
            middle = (low + high) // 2
            if TIME_ENTRY.unpack_from(data, middle * TIME_ENTRY_SIZE)[0] < timestamp:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return -1
        offset: int = TIME_ENTRY.unpack_from(data, (low - 1) * TIME_ENTRY_SIZE)[1]
        return offset

    def _data(self) -> bytes:
        written = self._file.get().pread(self._written * TIME_ENTRY_SIZE, 0) if self._written else b""
        if len(written) != self._written * TIME_ENTRY_SIZE:
            raise IndexCorrupt(f"it ends before entry {self._written - 1}")
        return written + self._entries

    def cut(self, offset: int) -> None:
        """Drop the entries with an offset above ``offset`` (relative)."""
        data = self._data()
        keep = len(data)
        while keep and TIME_ENTRY.unpack_from(data, keep - TIME_ENTRY_SIZE)[1] > offset:
            keep -= TIME_ENTRY_SIZE
        self.last = TIME_ENTRY.unpack_from(data, keep - TIME_ENTRY_SIZE) if keep else None
        if keep < self._written * TIME_ENTRY_SIZE:
            self._file.create().truncate(keep)
            self._written = keep // TIME_ENTRY_SIZE
        self._entries[:] = data[self._written * TIME_ENTRY_SIZE : keep]

    def save(self) -> LazyFile:
        """Append new entries to the file; returns the file, to be synced."""
        file = self._file.create()
        if self._entries:
            file.write(self._written * TIME_ENTRY_SIZE, [bytes(self._entries)])
            self._written += len(self._entries) // TIME_ENTRY_SIZE
            self._entries.clear()
        return self._file

    def close(self) -> None:
        """Close the file."""
        self._file.close()
