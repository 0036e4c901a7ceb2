"""
Opens the log directories of a broker: locks all of them, ends moves that a crash interrupted, and opens the logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from twisted.internet.defer import CancelledError, Deferred, gatherResults
from twisted.logger import Logger

from logbus.errors import ConfigError, StorageError
from logbus.model import TopicPartition
from logbus.storage.log_directory import LogDirectory
from logbus.storage.move_recovery import recover_moves

_log = Logger()


async def open_directories(directories: Sequence[LogDirectory]) -> None:
    """
    Open all directories; one that fails is offline from then on. After an error all of them are closed.

    :raises ConfigError: a directory is locked, belongs to another program, or two have the same partition.
    :raises StorageError: no directory works.
    """
    try:
        for directory in directories:
            with suppress(StorageError):  # It is offline now.
                directory.lock()
        _recover_moves(directories)
        await _open_logs(directories)
        _check_partitions(directories)
    except Exception:
        await gatherResults([directory.disk.close() for directory in directories], consumeErrors=True)
        raise


def _recover_moves(directories: Sequence[LogDirectory]) -> None:
    """Complete or undo moves; anew, without it, when a directory fails meanwhile."""
    for _ in directories:
        with suppress(StorageError):
            recover_moves(directories, lambda what: _log.error("{what}", what=what))
            return


async def _open_logs(directories: Sequence[LogDirectory]) -> None:
    opening = [Deferred.fromCoroutine(each.open()) for each in directories if each.is_online]
    bug: Exception | None = None
    for opened in opening:
        try:
            await opened
        except StorageError:
            pass  # It is offline now.
        except CancelledError as error:
            # The broker stops: nor are the logs of the others recovered, which may take long.
            bug = error
            for other in opening:
                other.cancel()
        except Exception as error:
            bug = error
    if bug is not None:
        raise bug
    if not any(directory.is_online for directory in directories):
        raise StorageError("; ".join(str(directory.disk.failure) for directory in directories))


def _check_partitions(directories: Sequence[LogDirectory]) -> None:
    """
    Check that each partition has one log.

    :raises ConfigError: two directories have the same partition.
    """
    seen: dict[TopicPartition, LogDirectory] = {}
    for directory in directories:
        for partition in directory.logs if directory.is_online else ():
            first = seen.setdefault(partition, directory)
            if first is not directory:
                raise ConfigError(
                    f"{partition} is in two log directories, {first.disk.root} and {directory.disk.root}; move one "
                    "of them away"
                )
