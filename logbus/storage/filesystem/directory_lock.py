"""The lock of a log directory, which one broker holds at a time."""

from __future__ import annotations

import fcntl
import os

from logbus.errors import ConfigError, short_reason

LOCK_FILE = ".lock"
"""Has the process id of the broker that locked it last."""

_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


def lock_directory(root: str) -> int:
    """
    Lock a directory, until the descriptor that is returned is closed.

    :raises ConfigError: another process holds the lock, or the directory is not writable.
    """
    path = f"{root}/{LOCK_FILE}"
    try:
        fd = os.open(path, _FLAGS | os.O_CREAT, 0o644)
    except OSError as error:
        raise ConfigError(
            f"the log directory {root} is not writable: {path}: {short_reason(error)}{_other_owner(path)}"
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise ConfigError(
            f"the log directory {root} is in use by another broker (process {holder} holds {path}); "
            "stop it, or choose another directory by log.dirs"
        ) from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    return fd


def _other_owner(path: str) -> str:
    """Who else has a file, if it is somebody else: often a broker was once started as root."""
    try:
        owner = os.stat(path).st_uid
    except OSError:
        return ""
    mine = os.geteuid()
    return "" if owner == mine else f"; it belongs to uid {owner}, and this broker runs as uid {mine}"
