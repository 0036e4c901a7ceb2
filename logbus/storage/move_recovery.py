"""
Completes or undoes, at a start, the moves between log directories that a crash interrupted.

:mod:`logbus.storage.log_mover` has the steps of a move. A log marked ``moved`` is not used if another directory has the
partition under its own name, since records may have been appended there; if none has, the log is used as if it had
never been moved. Where a directory does not work nobody knows, and the log is not used either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from logbus.model import TopicPartition
from logbus.storage import file_names
from logbus.storage.log_directory import LogDirectory


def recover_moves(directories: Sequence[LogDirectory], warn: Callable[[str], None]) -> None:
    """
    Complete or undo interrupted moves, before logs are opened.

    :param directories: all of the broker's, locked; logs not to be used are added to their ``ignored``, and to
        ``leftovers`` if they can be removed.
    :param warn: logs a message.
    :raise StorageError: a directory failed.
    """
    online = [directory for directory in directories if directory.is_online]
    moved: list[tuple[LogDirectory, TopicPartition, str]] = []
    elsewhere: set[TopicPartition] = set()
    for directory in online:
        for name in directory.disk.names(""):
            partition = file_names.partition_of(name)
            if partition is None:
                continue
            if directory.disk.exists(f"{name}/{file_names.MOVED}"):
                moved.append((directory, partition, name))
            else:
                elsewhere.add(partition)
    for directory, partition, name in moved:
        if partition in elsewhere:
            directory.ignored.add(name)
            directory.leftovers.append(name)
        elif len(online) == len(directories):
            directory.disk.unlink(f"{name}/{file_names.MOVED}")
        else:
            directory.ignored.add(name)
            warn(
                f"{directory.disk.root}/{name} is not used: {partition} was being moved to another log directory, and "
                "not all of them work"
            )
