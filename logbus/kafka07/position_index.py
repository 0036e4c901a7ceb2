"""
The index between the byte positions of a 0.7 log and the offsets of records. Pure.

An entry says at which position the record with an offset begins, about every :data:`SPAN` bytes of messages; what is
between two is counted from the records. The last entry is where counting goes on.

The file is a header, the 16 bytes of the topic's id, and entries of 28 bytes, each with a CRC-32::

    "LB07IDX1" | topic id | (offset int64 | position int64 | latest timestamp before it int64 | crc uint32) ...

A crash may cut it off or leave zeros at its end: entries count as far as they are valid and increase.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import NamedTuple
from uuid import UUID
from zlib import crc32

SPAN = 512 * 1024
"""Bytes of messages between two entries; a read from a position that nobody was at lately decodes half of it."""

JUMP = 256 * 1024 * 1024
"""
Bytes by which positions go on where those that were given out are not known: more than lie between the last entry and
any position that could have been counted from it.
"""

_EPOCH_BITS = 48
_EPOCHS = 1 << 14

_MAGIC = b"LB07IDX1"
_ENTRY = Struct(">qqqI")
_NUMBERS = Struct(">qqq")
_HEADER = len(_MAGIC) + 16
_AT_ONCE = 5000
"""Entries decoded in one go: some milliseconds."""


class Entry(NamedTuple):
    """
    A record's place.

    :ivar offset: of the record, or of the next one from there on.
    :ivar position: at which it begins, in bytes.
    :ivar timestamp: the latest of all records before it, in ms since 1970; −1: there are none.
    """

    offset: int
    position: int
    timestamp: int


class PositionIndex:
    """The entries of one partition, at least one, increasing by offset and by position."""

    def __init__(self, first: Entry) -> None:
        self._offsets = array("q", [first.offset])
        self._positions = array("q", [first.position])
        self._timestamps = array("q", [first.timestamp])

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, index: int) -> Entry:
        return Entry(self._offsets[index], self._positions[index], self._timestamps[index])

    @property
    def last(self) -> Entry:
        """The last entry."""
        return self[len(self) - 1]

    def add(self, entry: Entry) -> None:
        """
        Add an entry.

        :raises ValueError: it is not behind the last one.
        """
        if not follows(self.last, entry):
            raise ValueError(f"{entry} does not follow {self.last}")
        self._offsets.append(entry.offset)
        self._positions.append(entry.position)
        self._timestamps.append(entry.timestamp)

    def at_position(self, position: int) -> int:
        """Return the index of the last entry at or before a position; −1 before all."""
        return bisect_right(self._positions, position) - 1

    def at_offset(self, offset: int) -> int:
        """Return the index of the last entry at or before an offset; −1 before all."""
        return bisect_right(self._offsets, offset) - 1

    def before_time(self, timestamp: int) -> int:
        """Return the index of the last entry before which no record is later than ``timestamp``; −1: there is none."""
        return bisect_right(self._timestamps, timestamp) - 1

    def begin_at(self, first: Entry) -> int:
        """
        Drop the entries before ``first``, which takes their place; it must be at or before the last one.

        :return: how many were dropped.
        """
        keep = bisect_left(self._offsets, first.offset)
        if keep < len(self) and self._offsets[keep] == first.offset:
            dropped = keep
            del self._offsets[:keep], self._positions[:keep], self._timestamps[:keep]
            return dropped
        del self._offsets[:keep], self._positions[:keep], self._timestamps[:keep]
        self._offsets.insert(0, first.offset)
        self._positions.insert(0, first.position)
        self._timestamps.insert(0, first.timestamp)
        return keep

    def encode(self, topic_id: UUID) -> bytes:
        """Return the content of the file."""
        entries = zip(self._offsets, self._positions, self._timestamps, strict=True)
        return _MAGIC + topic_id.bytes + b"".join(encode_entry(Entry(*entry)) for entry in entries)

    @classmethod
    def decode_some(cls, data: bytes, topic_id: UUID) -> tuple[PositionIndex | None, bool]:
        """
        Return the index in a file, as far as one turn of the reactor goes, and whether :meth:`add_encoded` has more to
        add; None if there is none, if it is damaged from its beginning, or another topic's.

        :param topic_id: a topic that was deleted and created again has another one.
        """
        first = _decode_entry(data, _HEADER) if data[:_HEADER] == _MAGIC + topic_id.bytes else None
        if first is None:
            return None, False
        index = cls(first)
        return index, index.add_encoded(data)

    def add_encoded(self, data: bytes) -> bool:
        """Add the next entries of a file; whether there are more."""
        for _ in range(_AT_ONCE):
            entry = _decode_entry(data, _HEADER + len(self) * _ENTRY.size)
            if entry is None or not follows(self.last, entry):
                return False
            self.add(entry)
        return True


def base_of(leader_epoch: int) -> int:
    """
    Return the position from which on a leader counts if it cannot know that of a record: behind all those from 0 on,
    and other ones than those of other leaders, so that no position means another record there.
    """
    return (leader_epoch + 1) % _EPOCHS << _EPOCH_BITS


def follows(last: Entry, entry: Entry) -> bool:
    """Whether an entry may come after another one."""
    return entry.offset > last.offset and entry.position >= last.position and entry.timestamp >= last.timestamp


def encode_entry(entry: Entry) -> bytes:
    """Return an entry as it is in the file."""
    return _ENTRY.pack(*entry, crc32(_NUMBERS.pack(*entry)))


def _decode_entry(data: bytes, pos: int) -> Entry | None:
    if pos + _ENTRY.size > len(data):
        return None
    *numbers, crc = _ENTRY.unpack_from(data, pos)
    return Entry(*numbers) if crc32(_NUMBERS.pack(*numbers)) == crc else None
