"""
What of a file is in the page cache, and how it gets there.

Whether a read would wait for the device is found out by trying it: ``preadv2`` with ``RWF_NOWAIT`` takes a byte that is
in memory, and refuses one that is not. Asking costs a microsecond. It is no look from outside: a byte that was asked
for and was not there is on its way from then on, so nobody should ask twice.
"""

from __future__ import annotations

import errno
import fcntl
import os

from attrs import define, field

STRETCH = 256 * 1024
"""Bytes for which one stands: caches let go of files from one end, so what is not there is seldom in small pieces."""

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_SEALS: int = getattr(fcntl, "F_GET_SEALS", 0)
_UNKNOWING = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


@define(eq=False)
class Residency:
    """
    What a file system says of its page cache.

    :ivar can_tell: whether it says anything; known after the first question.
    """

    can_tell: bool = bool(_NOWAIT)
    _byte: list[bytearray] = field(factory=lambda: [bytearray(1)], init=False)

    def is_cold(self, fd: int, position: int, length: int) -> bool | None:
        """
        Whether reading these bytes would wait for the device; None if that cannot be known. Looks at the last byte
        of each stretch: the first ones were just read by whoever looked for the batch there.
        """
        if self.can_tell:
            end = position + length
            try:
                for stretch in range(position, end, STRETCH):
                    os.preadv(fd, self._byte, min(stretch + STRETCH, end) - 1, _NOWAIT)
                return False
            except OSError as error:
                if error.errno not in _UNKNOWING:
                    # Not there; or it cannot be read at all, which whoever reads it will hear.
                    return True
            self.can_tell = False
        return False if _in_memory(fd) else None


def _in_memory(fd: int) -> bool:
    """Whether a file is in memory for good, as on tmpfs: only such files can be sealed."""
    if not _SEALS:
        return False
    try:
        fcntl.fcntl(fd, _SEALS)
    except OSError:
        return False
    return True


def make_resident(fd: int, position: int, length: int, beyond: int) -> None:
    """
    Wait until bytes of a file are in the page cache, and have those behind them begin their way. Blocks: for lanes.

    The wait is the one that ``sendfile`` to a socket would have: they are sent, to nowhere. Nothing is copied, and
    what is there already costs 20 µs a megabyte.

    :param beyond: bytes behind them that nobody waits for yet.
    :raises OSError: they cannot be read.
    """
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, position, length + beyond, os.POSIX_FADV_WILLNEED)
    else:
        length += beyond
    end = position + length
    with open(os.devnull, "wb", buffering=0) as nowhere:
        while position < end:
            sent = _send(nowhere.fileno(), fd, position, end - position)
            if not sent:
                return
            position += sent


def _send(nowhere: int, fd: int, position: int, length: int) -> int:
    try:
        return os.sendfile(nowhere, fd, position, length)
    except OSError as error:
        # Where only sockets are sent to (ENOTSOCK), or this file cannot be sent: read it.
        if error.errno not in (*_UNKNOWING, errno.ENOTSOCK):
            raise
        return len(os.pread(fd, min(length, STRETCH), position))
