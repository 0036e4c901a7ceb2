"""
Waits for the workers of a supervisor that was killed: they end by themselves, and have their directories until then.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from logbus.errors import ConfigError
from logbus.storage.filesystem.directory_lock import LOCK_FILE as DIRECTORY_LOCK
from logbus.workers.worker_plan import WORKERS_DIRECTORY

LOCK_FILE = "workers.lock"
"""
A file in the first log directory that the supervisor locks; it contains its process id until its workers have ended in
order.
"""

WAIT_SECONDS = 60.0
"""How long they may take to end; if they take longer, one hangs, and the start fails."""
POLL_SECONDS = 0.1


def wait_for_earlier_workers(
    directories: Sequence[str],
    tell: Callable[[str], object],
    *,
    seconds: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """
    Wait until nobody has the directories, if their last supervisor did not stop in order. The reactor does not run yet.

    :param directories: the log directories of the machine.
    :param tell: called with a line, if there is anything to wait for.
    :raise ConfigError: they have not ended in time.
    """
    if not _was_killed(Path(directories[0]) / LOCK_FILE):
        return
    end = seconds() + WAIT_SECONDS
    told = False
    while left := list(holders(directories)):
        if seconds() >= end:
            raise ConfigError(
                f"log.dirs: workers of a supervisor that was killed have not ended within {WAIT_SECONDS:g} s; kill "
                f"them, and start again: {'; '.join(left)}"
            )
        if not told:
            told = True
            tell(f"waiting for workers of a supervisor that was killed: {'; '.join(left)}")
        sleep(POLL_SECONDS)


def _was_killed(path: Path) -> bool:
    try:
        with path.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return bool(lock.read(1))
    except OSError:
        return False  # There was none, or it runs; what is wrong is said elsewhere.


def holders(directories: Iterable[str]) -> Iterator[str]:
    """
    Say which log directories are in use, and by which processes.

    :param directories: those of the machine; workers have others below them.
    """
    for directory in map(Path, directories):
        for path in (directory / DIRECTORY_LOCK, *sorted((directory / WORKERS_DIRECTORY).glob(f"*/{DIRECTORY_LOCK}"))):
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue  # There is none, or the worker will say what is wrong with it.
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                process = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
                yield f"process {process} holds {path}"
            finally:
                os.close(descriptor)
