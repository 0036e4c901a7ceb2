"""
Tells what part of a file is in the page cache, and loads parts into it.

The check is a read that must not block: ``preadv2`` with ``RWF_NOWAIT`` returns a byte that is in memory, and fails for
one that is not. It costs a microsecond. A failed check also starts to load the byte, so a second check of the same byte
tells nothing. Some file systems do not know that, such as tmpfs and overlayfs: there a compiled module maps the pages
and asks for them (``mincore``).
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from attrs import define, field

from logbus.extension_modules import extension_module

STRETCH = 256 * 1024
"""Bytes represented by one check: caches drop files from one end, so missing parts are seldom small."""

_REVISION = 1
"""Of the compiled module."""

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_SEALS: int = getattr(fcntl, "F_GET_SEALS", 0)
_NOWHERE = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
"""Open from the beginning: when it is needed, the process may have too many other files open."""
_UNKNOWING = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


@define(eq=False)
class PageCache:
    """
    The page cache of a file system, as far as it can be asked.

    :ivar can_tell: whether the file system answers; known after the first check.
    """

    can_tell: bool = bool(_NOWAIT)
    _byte: list[bytearray] = field(factory=lambda: [bytearray(1)], init=False)

    def is_cold(self, fd: int, position: int, length: int) -> bool | None:
        """
        Whether reading these bytes would wait for the disk; None if unknown. Checks the last byte of each stretch,
        since the first ones were just read by the search for the batch.
        """
        if self.can_tell:
            end = position + length
            try:
                for stretch in range(position, end, STRETCH):
                    os.preadv(fd, self._byte, min(stretch + STRETCH, end) - 1, _NOWAIT)
                return False
            except OSError as error:
                if error.errno not in _UNKNOWING:
                    # Not cached; or unreadable, which the read itself will report.
                    return True
            self.can_tell = False
        if _in_memory(fd):
            return False
        resident = is_resident()
        # Not all that is in memory is in the page cache everywhere.
        return False if resident is not None and resident(fd, position, length) else None

    def read(self, fd: int, length: int, position: int) -> bytes | None:
        """
        Read as ``pread`` does, without waiting for the device; None: that would wait. Where the file system cannot tell
        it waits.

        :raises OSError: the bytes cannot be read.
        """
        if self.can_tell:
            data: Any = bytearray(length)
            try:
                count = os.preadv(fd, (data,), position, _NOWAIT)
            except OSError as error:
                if error.errno not in _UNKNOWING:
                    # Not cached; or unreadable, which loading it will report.
                    return None
                self.can_tell = False
            else:
                if count < length and position + count < os.fstat(fd).st_size:
                    return None
                del data[count:]
                # It serves as bytes do: it is read, and not kept. A copy would take as long as the read.
                return data  # type: ignore[no-any-return]
        return os.pread(fd, length, position)


@cache
def is_resident() -> Callable[[int, int, int], bool] | None:
    """Of a descriptor, a position and a length, whether these bytes are in the page cache; None without a compiler."""
    compiled = extension_module("logbus.storage.filesystem._page_cache", _REVISION)
    return None if compiled is None else compiled.is_resident


def _in_memory(fd: int) -> bool:
    """Whether a file always is in memory, as on tmpfs: only such files can be sealed."""
    if not _SEALS:
        return False
    try:
        fcntl.fcntl(fd, _SEALS)
    except OSError:
        return False
    return True


def make_resident(fd: int, position: int, length: int, beyond: int) -> None:
    """
    Load bytes of a file into the page cache, and begin to load those behind them. Blocks: for I/O threads.

    The bytes are sent to ``/dev/null`` by ``sendfile``, which waits as sending them to a socket would. Nothing is
    copied; a megabyte that is cached takes 20 µs.

    :param beyond: bytes behind them that are not waited for.
    :raises OSError: they cannot be read.
    """
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, position, length + beyond, os.POSIX_FADV_WILLNEED)
    else:
        length += beyond
    end = position + length
    while position < end:
        sent = _send(fd, position, end - position)
        if not sent:
            return
        position += sent


def _send(fd: int, position: int, length: int) -> int:
    try:
        return os.sendfile(_NOWHERE, fd, position, length)
    except OSError as error:
        # On systems that send to sockets only (ENOTSOCK), or for files that cannot be sent: read it.
        if error.errno not in (*_UNKNOWING, errno.ENOTSOCK):
            raise
        return len(os.pread(fd, min(length, STRETCH), position))
