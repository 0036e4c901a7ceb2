"""
Windows of remote segments: some chunks each, the least recently used of which go first.

A window has the bytes that the store answered with, which were checked, and they are sent from there. It is released
with the last slice of it, even if it has left the cache before.

One of a store in a directory is sent from the object itself, as a local segment is: only the page cache has it in
memory, and its checksums are left to its reader. To read all bytes here takes about as long as to send them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from attrs import define, field

from logbus.errors import StorageError
from logbus.records.batch import HEADER_SIZE, BatchHeader, read_header
from logbus.records.checksum import Buffer
from logbus.records.file_slice import MEMORY, FileSlice
from logbus.storage.remote.window_file import WindowFile
from logbus.storage.segments.header_scan import scan_headers

MOST_FILES = 256
"""Files whose windows are kept: those of small segments would use up the descriptors."""


class WindowKey(NamedTuple):
    """A window of a segment, by the position of its first byte."""

    segment_id: UUID
    position: int


@define(eq=False)
class Window:
    """
    A loaded window. Positions are those in the segment.

    :ivar position: of its first byte; ``size``: bytes.
    :ivar file: the whole segment, if it is a file.
    """

    position: int
    size: int
    file: WindowFile | None
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

    def is_cold(self, position: int) -> bool:
        """Whether the header of the batch at a position has left memory."""
        return self.file is not None and self.file.is_cold(position, HEADER_SIZE)

    def slice(self, start: int, end: int) -> FileSlice:
        """A part of it, to be sent."""
        if self.file is None:
            return FileSlice(MEMORY, start, end - start, self._bytes(start, end))
        return FileSlice(self.file, start, end - start)

    def read(self, start: int, end: int) -> Buffer:
        """A part of it, to be looked at."""
        return self._bytes(start, end) if self.file is None else self.slice(start, end).read()

    def _bytes(self, start: int, end: int) -> memoryview:
        assert self._data is not None
        return self._data[start - self.position : end - self.position]

    def batches(self, start: int, end: int | None = None) -> Iterator[tuple[int, int, BatchHeader]]:
        """
        Start, end and header of its batches from ``start`` on, where one begins.

        :param end: where they end; beyond this window only in the file of a whole segment.
        :raise StorageError: in the file is none.
        """
        if self.file is not None:
            for at, header in scan_headers(self.file, start, self.end if end is None else end, _damaged):
                yield at, at + header.size, header
            return
        assert self._data is not None
        at, limit = start - self.position, self.size
        while limit - at >= HEADER_SIZE:
            header = read_header(self._data, at)
            after = at + header.size
            yield self.position + at, self.position + after, header
            at = after


def _damaged(position: int, problem: str) -> StorageError:
    return StorageError(f"at {position}: {problem}")


@define(eq=False)
class WindowCache:
    """
    The loaded windows, up to a number of bytes.

    :ivar limit: bytes that are kept; at least the last window is.
    :ivar size: bytes kept now.
    """

    limit: int
    size: int = field(default=0, init=False)
    # How many windows of each segment that is a file.
    _files: Counter[UUID] = field(factory=Counter, init=False)
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

    def loaded_end(self, segment_id: UUID, window: Window, wanted: int) -> int:
        """The end of what can be sent with a window, if that is not enough: those that follow it in the same file."""
        end = window.end
        while window.file is not None and end < wanted:
            following = self.get(WindowKey(segment_id, end))
            if following is None or following.file is None:
                break
            end = following.end
        return end

    def add(self, key: WindowKey, window: Window) -> None:
        """Keep a window; others go, if there are too many bytes."""
        self.remove(key)
        self._windows[key] = window
        self.size += window.size
        if window.file is not None:
            self._files[key.segment_id] += 1
        while (self.size > self.limit or len(self._files) > MOST_FILES) and len(self._windows) > 1:
            self.remove(next(iter(self._windows)))

    def drop(self, segment_id: UUID) -> None:
        """Drop the windows of a segment that is deleted."""
        for key in [key for key in self._windows if key.segment_id == segment_id]:
            self.remove(key)

    def remove(self, key: WindowKey) -> None:
        """Drop a window, if it is there."""
        window = self._windows.pop(key, None)
        if window is not None:
            self.size -= window.size
            if window.file is not None:
                self._files[key.segment_id] -= 1
                if not self._files[key.segment_id]:
                    del self._files[key.segment_id]
