"""
What Linux has, and macOS has by another name or not at all.

Only what a broker cannot do without; what it can is looked for where it is used.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys

UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTTY, errno.ENOTSOCK})
"""The error numbers that say that a system or file system cannot do something."""

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


CAN_SHARE_PORTS = sys.platform == "linux"
"""
Whether the system spreads connections over all sockets that listen on a port (SO_REUSEPORT), and gives none to those
that are bound only. Workers need both.
"""


def sync(fd: int) -> None:
    """
    Force a file or directory to stable storage.

    The ``fsync`` of macOS ends when the device has the data, in a cache that a power failure empties; its manual names
    ``F_FULLFSYNC``, which not all file systems have.

    :raises OSError: it failed.
    """
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(fd, _FULL_SYNC)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
        else:
            return
    os.fsync(fd)


sync_data = getattr(os, "fdatasync", sync)
"""As :func:`sync`, without such metadata of a file as its times, where there is a call for that."""


def sync_directory(path: str | os.PathLike[str]) -> None:
    """
    Force the names in a directory to stable storage: that files were made, renamed or removed there.

    :raises OSError: it failed.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(fd)
    finally:
        os.close(fd)
