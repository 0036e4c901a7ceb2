"""
Completes or undoes, at a start, the moves between log directories that a crash interrupted.

:mod:`logbus.storage.log_mover` has the steps of a move. Of the directories with a partition's name this one is used:

1. the one without a mark: records may have been appended there;
2. else the one marked ``arriving`` that the one marked ``moved`` names: the swap was as good as over;
3. else the one marked ``moved``, as if it had never been moved: what arrives elsewhere was given up in an earlier move;
4. else the one marked ``arriving``: what was moved is gone already.

Where a directory does not work nobody knows whether it has one that comes before, so that 3 and 4 do not count, and the
log is not used at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from logbus.model import TopicPartition
from logbus.storage import file_names
from logbus.storage.log_directory import LogDirectory


@frozen
class _Found:
    """
    A directory with a partition's name.

    :ivar moved: the copy that its mark ``moved`` names; None without that mark. ``arriving``: likewise.
    """

    directory: LogDirectory
    name: str
    moved: bytes | None
    arriving: bytes | None

    @property
    def is_marked(self) -> bool:
        return self.moved is not None or self.arriving is not None


def recover_moves(directories: Sequence[LogDirectory], warn: Callable[[str], None]) -> None:
    """
    Complete or undo interrupted moves, before logs are opened.

    :param directories: all of the broker's, locked; logs not to be used are added to their ``ignored``, and to
        ``given_up`` if they can be removed.
    :param warn: logs a message.
    :raise StorageError: a directory failed.
    """
    online = [directory for directory in directories if directory.is_online]
    marked: dict[TopicPartition, list[_Found]] = {}
    unmarked: set[TopicPartition] = set()
    for directory in online:
        for name in directory.disk.names(""):
            partition = file_names.partition_of(name)
            if partition is None:
                continue
            marks = (_mark(directory, name, mark) for mark in (file_names.MOVED, file_names.ARRIVING))
            found = _Found(directory, name, *marks)
            if found.is_marked:
                marked.setdefault(partition, []).append(found)
            else:
                unmarked.add(partition)
    for partition, every in marked.items():
        used = _used(every, all_online=len(online) == len(directories))
        for found in every:
            if partition in unmarked or (used is not None and found is not used):
                found.directory.ignored.add(found.name)
                found.directory.given_up.append((partition, found.name))
            elif found is used:
                for mark in (file_names.MOVED, file_names.ARRIVING):
                    found.directory.disk.unlink(f"{found.name}/{mark}")
            else:
                found.directory.ignored.add(found.name)
                warn(
                    f"{found.directory.disk.root}/{found.name} is not used: {partition} was being moved to another log "
                    "directory, and not all of them work"
                )


def _mark(directory: LogDirectory, name: str, mark: str) -> bytes | None:
    path = f"{name}/{mark}"
    return directory.disk.read(path) if directory.disk.exists(path) else None


def _used(marked: Sequence[_Found], *, all_online: bool) -> _Found | None:
    """The one to use if all have marks; None: nobody knows."""
    moved = next((one for one in marked if one.moved is not None), None)
    arriving = [one for one in marked if one.moved is None]
    if moved is not None:
        meant = next((one for one in arriving if one.arriving == moved.moved), None)
        if meant is not None:
            return meant
    if not all_online:
        return None
    return moved or arriving[0]
