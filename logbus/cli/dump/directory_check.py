"""
Checks all files of a log directory for ``verify``, and says what a broker does with what is damaged.

Each file is decoded by :mod:`logbus.cli.dump.file_dump`; :mod:`logbus.cli.dump.log_check` compares those of a log, and
the offsets in checkpoints are compared with the ends of the logs. Nothing is written.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from glob import escape as glob_escape
from pathlib import Path

from attrs import frozen

from logbus.cli.dump.file_dump import UNREADABLE, dump, is_dumpable
from logbus.cli.dump.log_check import LogCheck
from logbus.errors import LogbusError
from logbus.model import TopicPartition
from logbus.storage import checkpoints, file_names
from logbus.storage.filesystem.directory_lock import LOCK_FILE

MAX_FINDINGS = 100
"""Findings told of one file; of more only the number."""
_REMOVED = (
    file_names.DELETE_SUFFIX,
    file_names.FUTURE_SUFFIX,
    file_names.LINKED_SUFFIX,
    file_names.SNAPSHOT_SUFFIX,
)
_REPLICA = (
    "If the partition has other replicas, let one of them lead, and copy the log from there; else keep a copy first."
)
_NOTHING = "Nothing: it is written again."
_REBUILT = "It is built anew from the segment when the damage is noticed."
_NOT_CLOSED = "The marker is ignored: all logs are scanned from their recovery points."

_ADVICE: dict[str, tuple[str, str]] = {
    file_names.LOG: (
        "Below the recovery point nothing at a start. Above it, after an unclean stop, the log is cut here.",
        _REPLICA,
    ),
    file_names.OFFSET_INDEX: (_REBUILT, "Remove the file while the broker is stopped."),
    file_names.TIME_INDEX: (_REBUILT, "Remove the file while the broker is stopped."),
    file_names.TRANSACTION_INDEX: (_REBUILT, "Remove the file while the broker is stopped."),
    file_names.SNAPSHOT: ("It is not used: producers are read from an older one, and from the segments.", _NOTHING),
    file_names.EPOCHS: ("It counts as empty; later batches add their epochs again.", _NOTHING),
    file_names.PARTITION_METADATA: ("It is ignored, with a warning.", "Restore it from another replica."),
    checkpoints.META_PROPERTIES: ("It does not start.", "Restore the file: broker.id and cluster.id of this broker."),
    checkpoints.CLEAN_SHUTDOWN: (_NOT_CLOSED, _NOTHING),
}
_SENT_SO = (
    "Nothing: the batch stays. Consumers that decode it fail there.",
    "Have them go on behind its last offset. A producer has sent it like that: mend that one.",
)
_OFFSETS = ("It is ignored, with an error in the log: its offsets count as 0.", _NOTHING)
_SHORT = (
    "It tells of lost records in its log; replicas that have them lead before this one.",
    "Start the other replicas first. Without any, the records are lost.",
)


_UNFINISHED = ("No broker starts.", "Remove the directory, and restore again.")
_ABSENT = (
    "It has no records of this partition, and copies them from the leader; alone, it leads an empty log.",
    "If the topic was deleted or the log moved, nothing. Else restore the directory before a start.",
)
_CONFLICTS: dict[str, tuple[str, str]] = {
    "": (
        "Replicas and consumers that were cut off may be told a wrong end of an epoch, and go on at a wrong offset.",
        "If the partition has other replicas, let one of them lead, and copy the log from there.",
    ),
    file_names.SNAPSHOT: (
        "A duplicate of this producer may be taken, or its next batch refused.",
        "Remove the log's snapshots while the broker is stopped: producers are read from the segments.",
    ),
    file_names.TRANSACTION_INDEX: (
        "Consumers of committed records get records of the aborted transaction.",
        "If the partition has other replicas, let one of them lead, and copy the log from there.",
    ),
}
_LEFTOVERS = {
    file_names.DELETED: "A start removes it.",
    file_names.CLEANED: "A start removes it.",
    file_names.TEMPORARY: "A start removes it.",
    file_names.SWAP: "A start completes the replacement.",
    file_names.DELETE_SUFFIX: "A start removes it.",
    file_names.LINKED_SUFFIX: "A start removes it.",
    file_names.SNAPSHOT_SUFFIX: "A start removes it.",
    file_names.FUTURE_SUFFIX: "A start goes on copying, or removes it.",
    file_names.STRAY_SUFFIX: "It is used if the cluster knows its topic's id, and kept for log.stray.retention.ms.",
}


class DirectoryInUse(LogbusError):
    """A running broker holds the directory's lock."""


@frozen
class Finding:
    """
    Something wrong in a file.

    :ivar effect: what a broker does with it at its next start.
    :ivar remedy: what to do.
    """

    file: str
    position: int
    what: str
    effect: str
    remedy: str


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """
    Keep brokers from starting on a directory, by a shared lock on what is there of lock files.

    :raises DirectoryInUse: a broker has it.
    """
    with ExitStack() as held:
        for path in (directory / LOCK_FILE, directory.absolute().parent / LOCK_FILE, *directory.glob(f"*/{LOCK_FILE}")):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            except FileNotFoundError:
                continue
            held.callback(os.close, fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DirectoryInUse(
                    f"a running broker holds {path}: stop it, or check a copy; with --read-only-while-in-use what it "
                    "is writing may be reported as damage"
                ) from None
        yield


def files_of(directory: Path) -> list[tuple[Path, int]]:
    """Return the files to check, with their sizes, but for those that a start removes."""
    found = []
    for path in _walk(directory):
        if is_dumpable(path) or path.name == checkpoints.UNFINISHED_RESTORE:
            # A broker that runs may have removed it meanwhile.
            with suppress(FileNotFoundError):
                found.append((path, path.stat().st_size))
    return found


def leftovers_of(directory: Path) -> list[tuple[Path, str]]:
    """Return what a broker has not finished, files and directories, with what a start does with each."""
    found = []
    for parent, directories, names in os.walk(directory):
        for name in sorted([*directories, *names]):
            effect = next((effect for suffix, effect in _LEFTOVERS.items() if name.endswith(suffix)), None)
            if effect is not None:
                found.append((Path(parent, name), effect))
        directories[:] = sorted(each for each in directories if not each.endswith(_REMOVED))
    return found


def _walk(directory: Path) -> Iterator[Path]:
    for parent, directories, names in os.walk(directory):
        directories[:] = sorted(each for each in directories if not each.endswith(_REMOVED))
        yield from (Path(parent, name) for name in sorted(names))


def check(files: list[tuple[Path, int]], progress: Callable[[Path, int], None]) -> Iterator[Finding]:
    """
    Yield what is wrong in files.

    :param progress: called with the file that is read, and the bytes that were read of all.
    """
    logs: dict[Path, LogCheck] = {}
    checkpoints_of: dict[Path, dict[TopicPartition, int]] = {}
    read = 0
    for path, size in files:
        found = 0
        progress(path, read)
        if path.name == checkpoints.UNFINISHED_RESTORE:
            yield Finding(str(path), 0, "a restore was not finished", *_UNFINISHED)
            continue
        base = file_names.base_offset_of(path.name, file_names.LOG)
        log = logs.get(path.parent)
        if log is None:
            log = logs[path.parent] = LogCheck(path.parent)
        if base is not None:
            log.begin_segment(base)
        try:
            for item in dump(path, deep=True):
                position = item.get("position", 0)
                if base is not None:
                    progress(path, read + position)
                if "damage" in item:
                    found += 1
                    if found <= MAX_FINDINGS:
                        yield _finding(path, position, item["damage"])
                elif base is not None:
                    log.batch(base, item)
                else:
                    log.other(path, item)
        except (OSError, ValueError) as error:
            yield _finding(path, 0, f"it cannot be read: {error}")
        if found > MAX_FINDINGS:
            yield _finding(path, 0, f"{found - MAX_FINDINGS} more")
        read += size
    for path, _ in files:
        if path.name in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS):
            try:
                checkpoints_of[path] = checkpoints.decode_offsets(path.read_bytes())
            except (OSError, ValueError):
                continue  # Told already.
            yield from _beyond_ends(path, checkpoints_of[path], logs)
    for directory, log in logs.items():
        points = checkpoints_of.get(directory.parent / checkpoints.RECOVERY_POINTS, {})
        partition = file_names.partition_of(directory.name)
        for told, (wrong, what) in enumerate(log.conflicts(points.get(partition) if partition else None)):
            if told == MAX_FINDINGS:
                yield Finding(str(directory), 0, "more of this kind", *_CONFLICTS[wrong.suffix])
                break
            yield Finding(str(wrong), 0, what, *_CONFLICTS[wrong.suffix])


def _finding(path: Path, position: int, what: str) -> Finding:
    if what.startswith(UNREADABLE):
        return Finding(str(path), position, what, *_SENT_SO)
    effect, remedy = _ADVICE.get(path.name) or _ADVICE.get(path.suffix) or _OFFSETS
    return Finding(str(path), position, what, effect, remedy)


def _beyond_ends(path: Path, offsets: Mapping[TopicPartition, int], logs: Mapping[Path, LogCheck]) -> Iterator[Finding]:
    """Yield the offsets of a checkpoint that are behind the end of their log: records are missing."""
    for partition, offset in offsets.items():
        directory = path.parent / str(TopicPartition(*partition))
        log = logs.get(directory)
        if log is not None and offset > log.end:
            yield Finding(str(path), 0, f"{partition} has offset {offset}, but its log ends at {log.end}", *_SHORT)
        elif log is None and offset > 0 and not _is_leaving(directory):
            yield Finding(str(path), 0, f"{partition} has offset {offset}, but its log is not here", *_ABSENT)


def _is_leaving(directory: Path) -> bool:
    """Whether a log's directory was renamed: to be removed, or set aside."""
    renamed = (*_REMOVED, file_names.STRAY_SUFFIX)
    return any(True for suffix in renamed for _ in directory.parent.glob(f"{glob_escape(directory.name)}*{suffix}"))
