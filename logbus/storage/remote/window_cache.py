"""
Windows of remote segments in memory: some chunks each, the least recently used of which go first.

A window is an anonymous file (memfd), so that its bytes are sent like those of a log, by ``sendfile``; one of a store
in a directory is sent from the object itself. It is released with the last slice of it, even if it has left the cache
before.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections import OrderedDict
from typing import NamedTuple
from uuid import UUID

from attrs import define, field

MOST_WINDOWS = 256
"""Windows that are kept: those of small segments would use up the descriptors, of which each has two."""


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

    @classmethod
    def holding(cls, data: bytes) -> WindowFile:
        """One without a name, that has these bytes."""
        file = cls(_anonymous_file())
        view = memoryview(data)
        while view:
            view = view[os.write(file._fd, view) :]
        return file

    def mapped(self) -> memoryview:
        """The bytes, which are those of the file."""
        return memoryview(mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ))

    def fileno(self) -> int:
        """The open descriptor."""
        return self._fd

    def __del__(self) -> None:
        os.close(self._fd)


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("logbus-remote", os.MFD_CLOEXEC)
    fd, path = tempfile.mkstemp(prefix="logbus-remote")
    os.unlink(path)
    return fd


@define(eq=False)
class Window:
    """
    A loaded window.

    :ivar position: of its first byte, in the segment.
    :ivar file: its bytes, to be sent; ``data``: the same, to find batches in.
    :ivar file_position: of its first byte, in the file.
    """

    position: int
    file: WindowFile
    data: memoryview
    file_position: int = 0

    @classmethod
    def of(cls, position: int, data: bytes, segment_file: int | None = None) -> Window:
        """
        A window of some bytes, at least one.

        :param segment_file: the whole segment, if it is an open file. It is not mapped: should somebody truncate it, a
            response ends there, but the process does not.
        """
        if segment_file is not None:
            return cls(position, WindowFile(segment_file), memoryview(data), position)
        file = WindowFile.holding(data)
        return cls(position, file, file.mapped())


@define(eq=False)
class WindowCache:
    """
    The loaded windows, up to a number of bytes.

    :ivar limit: bytes that are kept; at least the last window is.
    :ivar size: bytes kept now.
    """

    limit: int
    size: int = field(default=0, init=False)
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
        before = self._windows.pop(key, None)
        if before is not None:
            self.size -= len(before.data)
        self._windows[key] = window
        self.size += len(window.data)
        while (self.size > self.limit or len(self._windows) > MOST_WINDOWS) and len(self._windows) > 1:
            _, old = self._windows.popitem(last=False)
            self.size -= len(old.data)

    def drop(self, segment_id: UUID) -> None:
        """Drop the windows of a segment that is deleted."""
        for key in [key for key in self._windows if key.segment_id == segment_id]:
            self.size -= len(self._windows.pop(key).data)
