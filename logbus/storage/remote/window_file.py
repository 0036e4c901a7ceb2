"""
Segments of a store in a directory: they are sent from their own files, through the page cache.

The page cache may drop what was loaded, as it may drop parts of local segments. So the sender asks again, and does not
wait for the disk, or the file server, on the reactor.
"""

from __future__ import annotations

import os

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.storage.filesystem.page_cache import PageCache, make_resident
from logbus.storage.remote.load_queue import LoadQueue


@define(eq=False)
class WindowLoads:
    """
    Loads what the page cache has dropped.

    :param queue: runs functions in threads.
    """

    _queue: LoadQueue
    _cache: PageCache = field(factory=PageCache)

    def is_cold(self, file: WindowFile, position: int, length: int) -> bool:
        """Whether bytes of a file are known not to be in the page cache."""
        return bool(self._cache.is_cold(file.fileno(), position, length))

    def load(self, file: WindowFile, position: int, length: int) -> Deferred[None] | None:
        """
        Load bytes that somebody waits for; None: they are there.

        :raise OSError: (as a failure) they cannot be read.
        """
        if not self.is_cold(file, position, length):
            return None
        key = object()
        loading = self._queue.add(key, file.load, position, position + length)
        self._queue.hurry(key)
        return loading.addCallback(lambda end: None)


class WindowFile:
    """
    The open file that the bytes of a segment's windows are sent from.

    :param fd: closed with this object.
    :param loads: loads what the page cache has dropped; None: it is waited for.
    """

    __slots__ = ("__weakref__", "_fd", "_loads")

    def __init__(self, fd: int, loads: WindowLoads | None = None) -> None:
        self._fd = fd
        self._loads = loads

    def fileno(self) -> int:
        """The open descriptor."""
        return self._fd

    def pread(self, size: int, position: int) -> bytes:
        """Read up to ``size`` bytes."""
        return os.pread(self._fd, size, position)

    def load(self, start: int, end: int) -> int:
        """
        Wait, in a thread, until bytes are in the page cache; where they end: before ``end`` if the file does.

        :raise OSError: they cannot be read.
        """
        make_resident(self._fd, start, end - start, 0)
        return min(end, os.fstat(self._fd).st_size)

    def is_cold(self, position: int, length: int) -> bool:
        """Whether bytes are known not to be in the page cache, and somebody loads them."""
        return self._loads is not None and self._loads.is_cold(self, position, length)

    def read_ahead(self, position: int, length: int) -> Deferred[None] | None:
        """Check that bytes can be sent without waiting for the disk, as :meth:`.IFile.read_ahead`."""
        return None if self._loads is None else self._loads.load(self, position, length)

    def __del__(self) -> None:
        os.close(self._fd)
