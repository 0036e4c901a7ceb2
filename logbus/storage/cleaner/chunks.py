"""
Reads and processes a chunk of a segment, for one of the two passes of a cleaning. Runs in an I/O thread.

The compiled loops over its batches do not hold the interpreter's lock; batches that they leave, such as compressed
ones, are processed in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from attrs import define, field

from logbus.errors import DecodeError
from logbus.records.batch import HEADER_SIZE, read_header
from logbus.records.checksum import Buffer
from logbus.storage.cleaner.compaction import Compaction, add_batches
from logbus.storage.cleaner.implementations import IS_COMPILED, OffsetMap, index_points
from logbus.storage.istorage import IFile
from logbus.storage.segments.segment import Segment
from logbus.storage.segments.transaction_index import AbortedTransactionSet

CHUNK = 256 * 1024 if IS_COMPILED else 64 * 1024
"""Bytes read at a time, unless a batch is larger; in Python a thread takes turns with the reactor."""
_LARGEST = 2**31 - 1
"""Upper bound of a segment's bytes: positions in its index are 32-bit numbers."""


class ChunkWork(Protocol):
    """What is done with chunks of batches."""

    def process(self, data: bytes) -> tuple[int, int]:
        """
        Process all whole batches of a chunk, which begins with one.

        :returns: their bytes, and the number of bytes written.
        """


class Processed(NamedTuple):
    """
    What became of a chunk.

    :ivar position: behind its last whole batch, in the file.
    :ivar read: bytes read; ``written``: bytes written.
    :ivar seconds: how long it was processed, reading not included.
    """

    position: int
    read: int
    written: int
    seconds: float


def process_chunk(file: IFile, position: int, end: int, work: ChunkWork, seconds: Callable[[], float]) -> Processed:
    """
    Read whole batches from a position on, at least one, and process them.

    :param end: bytes of the file that belong to the segment.
    :param seconds: a clock.
    :raises DecodeError: there is none at the position, or a damaged one.
    """
    data = file.pread(min(CHUNK, end - position), position)
    header = read_header(data)
    if header.size > len(data):
        data += file.pread(min(header.size, end - position) - len(data), position + len(data))
    if not HEADER_SIZE <= header.size <= len(data):
        raise DecodeError(f"{file.path}: there is no record batch at byte {position}")
    begun = seconds()
    used, written = work.process(data)
    return Processed(position + used, len(data), written, seconds() - begun)


@define(eq=False)
class KeysPass:
    """
    The first pass: puts keys into the offset map.

    :ivar end: the offset up to which keys are in the map; ``is_full``: whether it had no room for those behind it.
    """

    keys: OffsetMap
    start: int
    aborted: AbortedTransactionSet
    end: int = field(default=-1, init=False)
    is_full: bool = field(default=False, init=False)

    def process(self, data: bytes) -> tuple[int, int]:
        """See :class:`ChunkWork`."""
        used, self.end, self.is_full = add_batches(self.keys, data, 0, self.start, self.aborted)
        return used, 0


@define(eq=False)
class RewritePass:
    """
    The second pass: writes what stays to a new segment, which nothing else uses meanwhile.

    :ivar interval: bytes between its index entries.
    """

    compaction: Compaction
    aborted: AbortedTransactionSet
    new: Segment
    file: IFile
    interval: int

    def process(self, data: bytes) -> tuple[int, int]:
        """See :class:`ChunkWork`."""
        used, pieces = self.compaction.retained_of_all(data, 0, self.aborted)
        return used, append_batches(self.new, self.file, pieces, self.interval)


def append_batches(segment: Segment, file: IFile, pieces: Sequence[Buffer], interval: int) -> int:
    """
    Write whole batches to the end of a segment, and index them; returns the number of bytes.

    :param file: the segment's log file.
    :raises ApiError: there is no space.
    """
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if not data:
        return 0
    if segment.size + len(data) > _LARGEST:
        raise DecodeError(f"{file.path} would exceed {_LARGEST} bytes; choose a smaller segment.bytes")
    begin = segment.size
    file.write(begin, (data,))
    for at in index_points(data, begin, segment.indexed_size, interval, segment.max_timestamp):
        header = read_header(data, at)
        segment.size = begin + at
        segment.appended(header, header.base_offset, interval)
    segment.size = begin + len(data)
    return len(data)
