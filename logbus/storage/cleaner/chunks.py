"""
Reads and processes a part of a segment, for one of the two passes of a cleaning. Runs in an I/O thread, with pauses.

Compiled loops read, process and write batches without the interpreter's lock, for which a request would wait. Batches
that they leave, such as compressed ones, are read in chunks, and processed in Python.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from attrs import define, field

from logbus.errors import DecodeError
from logbus.records.batch import HEADER_SIZE, read_header
from logbus.records.checksum import Buffer
from logbus.storage.cleaner.compaction import Compaction, add_batches
from logbus.storage.cleaner.implementations import IS_COMPILED, OffsetMap, index_batches
from logbus.storage.cleaner.offset_map import LARGEST_BLOCK
from logbus.storage.istorage import IFile
from logbus.storage.segments.segment import Segment
from logbus.storage.segments.transaction_index import AbortedTransactionSet
from logbus.storage.throttler import MAX_PAUSE_SECONDS, PAUSE_RATIO

CHUNK = 256 * 1024 if IS_COMPILED else 64 * 1024
"""Bytes read at a time, unless a batch is larger; in Python a thread takes turns with the reactor."""
SHARE = 1 / 32
"""Share of its time that a thread works where no Python is needed. docs/explanation/storage.rst: what others cost."""
SHARE_BEHIND = 1 / 4
"""The same for a log that gets dirty faster than it is cleaned."""
BEHIND = 0.75
"""Dirty ratio from which on a log is such a one."""
AT_ONCE_SECONDS = 0.5
"""How long a thread goes on, pauses included, before the reactor looks whether it may."""
_AT_ONCE = 4 * 1024 * 1024
"""Bytes processed without a look at the clock."""
_LARGEST = 2**31 - 1
"""Upper bound of a segment's bytes: positions in its index are 32-bit numbers."""


class ChunkWork(Protocol):
    """What is done with batches."""

    def process_file(self, file: IFile, position: int, end: int, most: int) -> tuple[int, int]:
        """
        Process batches of a file from a position on, as far as that takes no Python, with pauses.

        :param end: bytes of the file that belong to the segment.
        :param most: no block is begun after so many bytes.
        :returns: as of :meth:`process`; zeros if there are none.
        """

    def process(self, data: bytes) -> tuple[int, int]:
        """
        Process all whole batches of a chunk, which begins with one.

        :returns: their bytes, and the number of bytes written.
        """

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be read."""


class Processed(NamedTuple):
    """
    The result of processing a part of a segment.

    :ivar position: behind its last whole batch, in the file.
    :ivar read: bytes read; ``written``: bytes written.
    """

    position: int
    read: int
    written: int


def process_part(
    file: IFile, position: int, end: int, work: ChunkWork, most: int, clock: Callable[[], float]
) -> Processed:
    """
    Process whole batches from a position on, at least one, for about :data:`AT_ONCE_SECONDS`. The reactor is not asked
    in between: to hand over a chunk and its result costs it as much as it takes to process 100 KB, and requests wait.

    :param end: bytes of the file that belong to the segment.
    :param most: nothing is begun after so many bytes.
    :param clock: in seconds.
    :raises DecodeError: there is no batch at the position, or a damaged one.
    """
    began, read, written = clock(), 0, 0
    while True:
        used, size = work.process_file(file, position, end, min(most - read, _AT_ONCE))
        if used:
            position += used
            read += used
            written += size
        else:
            begun = clock()
            done = process_chunk(file, position, end, work)
            position = done.position
            read += done.read
            written += done.written
            if (pause := (clock() - begun) * PAUSE_RATIO) > 0:
                time.sleep(min(pause, MAX_PAUSE_SECONDS))
        if work.is_over or position >= end or read >= most or clock() - began >= AT_ONCE_SECONDS:
            return Processed(position, read, written)


def process_chunk(file: IFile, position: int, end: int, work: ChunkWork) -> Processed:
    """
    Read whole batches from a position on, at least one, and process them; see :func:`process_part`.

    :raises DecodeError: there is none at the position, or a damaged one.
    """
    data = file.pread(min(CHUNK, end - position), position)
    header = read_header(data)
    if header.size > len(data):
        data += file.pread(min(header.size, end - position) - len(data), position + len(data))
    if not HEADER_SIZE <= header.size <= len(data):
        raise DecodeError(f"{file.path}: there is no record batch at byte {position}")
    used, written = work.process(data)
    return Processed(position + used, len(data), written)


@define(eq=False)
class KeysPass:
    """
    The first pass: puts keys into the offset map.

    :ivar share: of the time, in which to work.
    :ivar end: the offset up to which keys are in the map; ``is_full``: whether it had no room for those behind it.
    """

    keys: OffsetMap
    start: int
    aborted: AbortedTransactionSet
    share: float
    end: int = field(default=-1, init=False)
    is_full: bool = field(default=False, init=False)

    def process_file(self, file: IFile, position: int, end: int, most: int) -> tuple[int, int]:
        """See :class:`ChunkWork`."""
        if not file.is_plain:
            return 0, 0
        reached, last = self.keys.put_file(file.fileno(), position, end, most, 1 / self.share - 1, self.start)
        if reached > position:
            self.end = last
        return reached - position, 0

    def process(self, data: bytes) -> tuple[int, int]:
        """See :class:`ChunkWork`."""
        used, self.end, self.is_full = add_batches(self.keys, data, 0, self.start, self.aborted)
        return used, 0

    @property
    def is_over(self) -> bool:
        """See :class:`ChunkWork`."""
        return self.is_full


@define(eq=False)
class RewritePass:
    """
    The second pass: writes what stays to a new segment, which nothing else uses meanwhile.

    :ivar interval: bytes between its index entries.
    :ivar share: of the time, in which to work.
    """

    compaction: Compaction
    aborted: AbortedTransactionSet
    new: Segment
    file: IFile
    interval: int
    share: float

    def process_file(self, file: IFile, position: int, end: int, most: int) -> tuple[int, int]:
        """See :class:`ChunkWork`."""
        new = self.new
        begin = new.size
        if not file.is_plain or begin + min(end - position, most + LARGEST_BLOCK) > _LARGEST:
            return 0, 0
        state = new.index_state(self.interval)
        run = self.compaction.retained_of_file(file, position, end, most, 1 / self.share - 1, self.file, begin, state)
        new.appended_all(run.index_entries, run.written)
        return run.position - position, run.written

    def process(self, data: bytes) -> tuple[int, int]:
        """See :class:`ChunkWork`."""
        used, pieces = self.compaction.retained_of_all(data, 0, self.aborted)
        return used, append_batches(self.new, self.file, pieces, self.interval)

    @property
    def is_over(self) -> bool:
        """See :class:`ChunkWork`."""
        return False


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
    segment.appended_all(index_batches(data, begin, segment.index_state(interval)), len(data))
    return len(data)
