"""
Windows of remote segments: some chunks each, the least recently used of which go first.

A window has the bytes that the store answered with, and they are sent from there. One of a store in a directory is sent
from the object itself, and only the page cache has it in memory. It is released with the last slice of it, even if it
has left the cache before.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from attrs import define, field

from logbus.errors import StorageError
from logbus.records.batch import HEADER_SIZE, BatchHeader, read_header
from logbus.records.checksum import Buffer
from logbus.records.file_slice import MEMORY, FileSlice
from logbus.storage.segments.header_scan import scan_headers

MOST_FILES = 256
"""Windows of files that are kept: those of small segments would use up the descriptors, of which each has one."""

BUFFER_BYTES = 1 << 19
"""Of a thread that reads files; a larger chunk, of one large batch, gets its own."""

_of_thread = threading.local()


class WindowKey(NamedTuple):
    """A window of a segment, by the position of its first byte."""

    segment_id: UUID
    position: int


class WindowFile:
    """
    The open file that the bytes of a window are sent from.

    :param fd: closed with this object.
    """

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """The open descriptor."""
        return self._fd

    def pread(self, size: int, position: int) -> bytes:
        """Read up to ``size`` bytes."""
        return os.pread(self._fd, size, position)

    def chunks(self, position: int, lengths: Sequence[int]) -> Iterator[tuple[int, memoryview]]:
        """
        Read runs of bytes that follow each other, in a thread: the number of each, and its bytes, until the next one.
        They are read into one buffer that stays in the processor's caches: new memory for all of them, page by page,
        took longer than reading. A short one is the last.

        :raise OSError: the read failed.
        """
        os.posix_fadvise(self._fd, position, sum(lengths), os.POSIX_FADV_WILLNEED)
        buffer = getattr(_of_thread, "buffer", None)
        if buffer is None:
            buffer = _of_thread.buffer = memoryview(bytearray(BUFFER_BYTES))
        for i, length in enumerate(lengths):
            into = buffer[:length] if length <= BUFFER_BYTES else memoryview(bytearray(length))
            done = 0
            while done < length and (size := os.preadv(self._fd, (into[done:],), position + done)):
                done += size
            yield i, into[:done]
            if done < length:
                return
            position += length

    def __del__(self) -> None:
        os.close(self._fd)


@define(eq=False)
class Window:
    """
    A loaded window, whose bytes were checked. Positions are those in the segment.

    :ivar position: of its first byte; ``size``: bytes.
    """

    position: int
    size: int
    _file: WindowFile | None
    _data: memoryview | None

    @classmethod
    def of(cls, position: int, data: bytes) -> Window:
        """A window of some bytes, at least one."""
        return cls(position, len(data), None, memoryview(data))

    @classmethod
    def of_segment(cls, file: WindowFile, position: int, size: int) -> Window:
        """
        A part of a whole segment that is an open file. It is not mapped: should somebody truncate it, a response ends
        there, but the process does not.
        """
        return cls(position, size, file, None)

    @property
    def end(self) -> int:
        """The position after its last byte."""
        return self.position + self.size

    def slice(self, start: int, end: int) -> FileSlice:
        """A part of it, to be sent."""
        if self._file is None:
            return FileSlice(MEMORY, start, end - start, self._bytes(start, end))
        return FileSlice(self._file, start, end - start)

    def read(self, start: int, end: int) -> Buffer:
        """A part of it, to be looked at."""
        return self._bytes(start, end) if self._file is None else self.slice(start, end).read()

    def _bytes(self, start: int, end: int) -> memoryview:
        assert self._data is not None
        return self._data[start - self.position : end - self.position]

    @property
    def is_of_file(self) -> bool:
        """Whether its file is the whole segment."""
        return self._file is not None

    def batches(self, start: int, end: int | None = None) -> Iterator[tuple[int, int, BatchHeader]]:
        """
        Start, end and header of its batches from ``start`` on, where one begins.

        :param end: where they end; beyond this window only in the file of a whole segment.
        :raise StorageError: the file was changed since.
        """
        if self._file is not None:
            for at, header in scan_headers(self._file, start, self.end if end is None else end, _changed):
                yield at, at + header.size, header
            return
        assert self._data is not None
        at, limit = start - self.position, self.size
        while limit - at >= HEADER_SIZE:
            header = read_header(self._data, at)
            after = at + header.size
            yield self.position + at, self.position + after, header
            at = after


def _changed(position: int, problem: str) -> StorageError:
    return StorageError(f"a remote segment was changed at {position} since it was checked: {problem}")


@define(eq=False)
class WindowCache:
    """
    The loaded windows, up to a number of bytes.

    :ivar limit: bytes that are kept; at least the last window is.
    :ivar size: bytes kept now.
    """

    limit: int
    size: int = field(default=0, init=False)
    _files: int = field(default=0, init=False)
    _windows: OrderedDict[WindowKey, Window] = field(factory=OrderedDict, init=False)

    def __len__(self) -> int:
        return len(self._windows)

    def __contains__(self, key: WindowKey) -> bool:
        return key in self._windows

    def get(self, key: WindowKey) -> Window | None:
        """A window, which counts as used now."""
        window = self._windows.get(key)
        if window is not None:
            self._windows.move_to_end(key)
        return window

    def add(self, key: WindowKey, window: Window) -> None:
        """Keep a window; others go, if there are too many bytes."""
        self._remove(key)
        self._windows[key] = window
        self.size += window.size
        self._files += window.is_of_file
        while (self.size > self.limit or self._files > MOST_FILES) and len(self._windows) > 1:
            self._remove(next(iter(self._windows)))

    def drop(self, segment_id: UUID) -> None:
        """Drop the windows of a segment that is deleted."""
        for key in [key for key in self._windows if key.segment_id == segment_id]:
            self._remove(key)

    def _remove(self, key: WindowKey) -> None:
        window = self._windows.pop(key, None)
        if window is not None:
            self.size -= window.size
            self._files -= window.is_of_file
