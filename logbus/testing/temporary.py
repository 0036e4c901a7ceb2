"""
Temporary directories of the test kit.

Each has a lock as long as the process lives that made it, so that the next one can tell, and remove, what was left by
one that was killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from logbus.testing.errors import BrokerFailed

LEAST_ROOM = 1 << 20
"""Bytes without which a broker would not start; it would wait for room."""


PREFIX = "logbus-test-"
"""What all their names begin with."""

_locks: dict[Path, int] = {}
"""The descriptors that hold the locks, until the directories are removed."""
_swept: set[str] = set()
"""Where this process has looked for those that were left."""


def temporary_directory(what: str) -> Path:
    """
    A new, empty one, for :func:`remove_temporary`.

    :param what: goes into its name.
    :raise BrokerFailed: there can be none; names the place and the reason.
    """
    try:
        place = tempfile.gettempdir()
    except OSError as e:
        # None of the usual ones can be written: full, read-only or missing.
        raise BrokerFailed(f"no temporary directory: {e.strerror}; set TMPDIR") from None
    with suppress(OSError):
        total, _, left = shutil.disk_usage(place)
        # A file system that holds no files, such as /proc, has no size at all.
        if total and left < LEAST_ROOM:
            raise BrokerFailed(f"{place} has room for {left >> 10} KiB, too little for a broker: set TMPDIR")
    try:
        _remove_abandoned(place)
        made = None
        while made is None:
            # Another process may take it for one that was left, before it has its lock.
            made = _held(Path(tempfile.mkdtemp(prefix=f"{PREFIX}{what}-", dir=place)))
        return made
    except OSError as e:
        raise BrokerFailed(f"no temporary directory in {place}: {e.strerror}; set TMPDIR") from None


def _held(made: Path) -> Path | None:
    """A directory with its lock; None: it has been removed."""
    try:
        lock = _locked(made)
    except OSError as e:
        # Where the file system has no locks, nobody takes it for one that was left.
        return None if e.errno == errno.ENOENT else made
    if lock is None or not made.exists():
        if lock is not None:
            os.close(lock)
        return None
    _locks[made] = lock
    return made


def remove_temporary(directory: Path) -> None:
    """Remove one, with what is in it, as far as that can be done."""
    shutil.rmtree(directory, ignore_errors=True)
    lock = _locks.pop(directory, None)
    if lock is not None:
        os.close(lock)


def empty_directory(directory: Path) -> None:
    """Remove what is in a directory, and not the directory itself, whose lock would go with it."""
    for entry in os.scandir(directory):
        shutil.rmtree(entry) if entry.is_dir(follow_symlinks=False) else os.unlink(entry)


def _remove_abandoned(place: str) -> None:
    """Remove those whose processes were killed; once in a process."""
    if place in _swept:
        return
    _swept.add(place)
    with os.scandir(place) as entries:
        found = [Path(each.path) for each in entries if each.name.startswith(PREFIX)]
    for each in found:
        # Other users' cannot be opened.
        with suppress(OSError):
            lock = _locked(each)
            if lock is not None:
                shutil.rmtree(each, ignore_errors=True)
                os.close(lock)


def _locked(directory: Path) -> int | None:
    """
    The descriptor that holds its lock; None: another process has it.

    :raise OSError: it is not there, or cannot be locked.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
