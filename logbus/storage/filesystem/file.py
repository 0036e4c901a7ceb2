"""An open file of a log directory: system calls, and what is known of its part of the page cache."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from threading import get_ident
from typing import Protocol

from twisted.internet.defer import Deferred
from zope.interface import implementer

from logbus.errors import ApiError, StorageError
from logbus.portability import sync_data
from logbus.records.checksum import Buffer
from logbus.storage.filesystem.disk_errors import refusal
from logbus.storage.filesystem.page_cache import PageCache, make_resident
from logbus.storage.filesystem.read_ahead import HOT, ReadAhead
from logbus.storage.filesystem.slow_writes import LARGE, SlowWrites
from logbus.storage.istorage import IFile, NotCached

_NOWHERE = 2**63


class OwnDisk(Protocol):
    """The part of a :class:`~logbus.storage.filesystem.disk.Disk` that its files need."""

    failure: StorageError | None
    cached_only: int
    page_cache: PageCache
    reads: ReadAhead
    slow_writes: SlowWrites

    def offline(self) -> StorageError: ...

    def broken(self, error: OSError, what: str) -> StorageError: ...

    def report_no_space(self, error: BaseException | None) -> None: ...


def write_fully(fd: int, position: int, parts: Sequence[Buffer]) -> None:
    """
    Write all parts at ``position``, with more system calls after partial writes.

    :raises OSError: as the system call does; part of the data may be in the file.
    """
    total = sum(map(len, parts))
    done = os.pwritev(fd, parts, position)
    if done == total:
        return
    rest = memoryview(b"".join(parts))
    while done < total:
        count = os.pwrite(fd, rest[done:], position + done)
        if count == 0:
            raise OSError(errno.EIO, "the disk takes no more bytes and gives no reason")
        done += count


@implementer(IFile)
class File:
    """
    An open file, the only owner of its descriptor.

    :ivar path: relative to the disk's directory, as opened.
    :ivar ahead: position up to which it was read ahead for a reader of cold data.
    """

    __slots__ = ("_disk", "_fd", "_hot_from", "ahead", "path")
    is_plain = True

    def __init__(self, disk: OwnDisk, path: str, fd: int) -> None:
        self._disk = disk
        self._fd = fd
        self._hot_from = _NOWHERE
        self.path = path
        self.ahead = -1

    def __del__(self) -> None:
        os.close(self._fd)

    def fileno(self) -> int:
        """The descriptor; valid as long as this object is referenced."""
        return self._fd

    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._fd).st_size

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        """Write all parts at ``position``; see :class:`~logbus.storage.istorage.IFile`."""
        disk = self._disk
        if disk.failure is not None:
            raise disk.offline()
        try:
            if len(parts[-1]) < LARGE:
                write_fully(self._fd, position, parts)
            else:
                begun = disk.slow_writes.seconds()
                write_fully(self._fd, position, parts)
                disk.slow_writes.took(begun)
        except OSError as error:
            raise self._not_written(error, position) from error
        self._hot_from = position - HOT

    def _not_written(self, error: OSError, position: int) -> ApiError | StorageError:
        # A method of its own: an error named in a frame of its traceback is a cycle, which keeps the file open.
        refused = refusal(error, f"append to {self.path}")
        if refused is None:
            return self._disk.broken(error, f"write {self.path}")
        self.truncate(position)
        self._disk.report_no_space(refused)
        return refused

    def is_cold(self, position: int, length: int) -> bool | None:
        """Whether reading these bytes would wait for the device; None if unknown."""
        return self._disk.page_cache.is_cold(self._fd, position, length)

    def make_resident(self, position: int, length: int, beyond: int) -> None:
        """Load these bytes into the page cache, and begin to load those behind them."""
        try:
            make_resident(self._fd, position, length, beyond)
        except OSError as error:
            raise self._disk.broken(error, f"read {self.path}") from error

    def read_ahead(self, position: int, length: int) -> Deferred[None] | None:
        """None if these bytes can be sent without waiting; else a Deferred that fires when they can."""
        return None if position >= self._hot_from else self._disk.reads.want(self, position, length)

    def load(self, position: int, length: int) -> Deferred[None]:
        """Load bytes that are not cached."""
        return self._disk.reads.load(self, position, length)

    def pread(self, length: int, position: int) -> bytes:
        """Up to ``length`` bytes from ``position``."""
        disk = self._disk
        try:
            if not disk.cached_only or position >= self._hot_from or disk.cached_only != get_ident():
                return os.pread(self._fd, length, position)
            data = disk.page_cache.read(self._fd, length, position)
        except OSError as error:
            raise disk.broken(error, f"read {self.path}") from error
        if data is None:
            raise NotCached(self, position, length)
        return data

    def truncate(self, size: int) -> None:
        """Truncate the file to ``size`` bytes."""
        disk = self._disk
        if disk.failure is not None:
            raise disk.offline()
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise disk.broken(error, f"truncate {self.path}") from error

    def sync(self) -> None:
        """Wait until the device has the data (fdatasync)."""
        try:
            sync_data(self._fd)
        except OSError as error:
            raise self._disk.broken(error, f"sync {self.path}") from error
