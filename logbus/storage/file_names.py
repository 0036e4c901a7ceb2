"""Names of the files and directories in a log directory."""

from __future__ import annotations

import re
import uuid

from logbus.model import TopicPartition, topic_name_problem

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
"""Suffix of a segment's files that are to be removed; files with it are removed at a start."""
CLEANED = ".cleaned"
"""Suffix while a segment is written that will replace others; files with it are removed at a start."""
SWAP = ".swap"
"""Suffix of a finished segment that replaces others; a start completes the replacement."""
TEMPORARY = ".tmp"

EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
SPACE_TEST = "space-test"
"""Written and removed to find out whether a full directory has space again."""

PLUGIN = ".plugin"
"""Suffix of a plugin's file beside a log, which goes with it."""
MOVED = "moved"
"""In a log's directory: the log is being moved, or was moved, to another log directory. It names the copy."""
ARRIVING = "arriving"
"""In a log's directory: it is a copy that takes the place of a log in another directory. It has the copy's name."""
STRAY = "stray"
"""In a log's directory: the log is being set aside, or was."""

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
"""Suffix of a directory that a log is being copied to (KIP-113)."""
LINKED_SUFFIX = "-linked"
"""Suffix of a directory with a linked copy of a log, until another worker has it; removed at a start."""
STRAY_SUFFIX = "-stray"
"""Suffix of the directory of a log that was set aside, since the cluster does not know its topic."""
SNAPSHOT_SUFFIX = "-snapshot"
"""Suffix of a directory with a snapshot of all logs; removed at a start."""
MAX_NAME = 255

_DELETED = re.compile(r"(\.[0-9]+)?" + re.escape(DELETED) + "$")
_DIRECTORY = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})")
_SNAPSHOT = re.compile("[0-9a-f]{32}" + SNAPSHOT_SUFFIX)


def segment_file(base_offset: int, suffix: str) -> str:
    """The name of a segment's file, as ``00000000000000000042.log``."""
    return f"{base_offset:020d}{suffix}"


def base_offset_of(name: str, suffix: str) -> int | None:
    """The offset in a file's name; None for other names."""
    stem = name.removesuffix(suffix)
    if len(stem) == 20 and len(name) == 20 + len(suffix) and stem.isascii() and stem.isdigit():
        return int(stem)
    return None


def deleted(name: str, others: int = 0) -> str:
    """The name of a file that is to be removed, while so many others of its name are, too."""
    return f"{name}.{others}{DELETED}" if others else name + DELETED


def before_deletion(name: str) -> str:
    """The name that a file had before it was to be removed; others as they are."""
    return _DELETED.sub("", name)


def partition_directory(partition: TopicPartition) -> str:
    """
    The directory of a partition's log.

    :raises ValueError: the topic's name cannot be a directory name.
    """
    problem = topic_name_problem(partition.topic)
    if problem is not None:
        raise ValueError(problem)
    if partition.partition < 0:
        raise ValueError(f"partition {partition.partition} is negative")
    return str(partition)


def partition_of(directory: str) -> TopicPartition | None:
    """The partition whose log is in a directory of that name; None for other names."""
    match = _DIRECTORY.fullmatch(directory)
    if match is None or topic_name_problem(match[1]) is not None:
        return None
    return TopicPartition(match[1], int(match[2]))


def deleted_directory(partition: TopicPartition, unique: uuid.UUID) -> str:
    """``<topic>-<partition>.<uuid>-delete``, with the topic shortened if the file system would not accept the name."""
    suffix = f"-{partition.partition}.{unique.hex}{DELETE_SUFFIX}"
    return partition.topic[: MAX_NAME - len(suffix)] + suffix


def linked_directory(partition: TopicPartition, unique: uuid.UUID) -> str:
    """``<topic>-<partition>.<uuid>-linked``, with the topic shortened as by :func:`deleted_directory`."""
    suffix = f"-{partition.partition}.{unique.hex}{LINKED_SUFFIX}"
    return partition.topic[: MAX_NAME - len(suffix)] + suffix


def stray_directory(partition: TopicPartition, unique: uuid.UUID) -> str:
    """``<topic>-<partition>.<uuid>-stray``, as in Kafka, with the topic shortened as by :func:`deleted_directory`."""
    suffix = f"-{partition.partition}.{unique.hex}{STRAY_SUFFIX}"
    return partition.topic[: MAX_NAME - len(suffix)] + suffix


def snapshot_directory(unique: uuid.UUID) -> str:
    """``<uuid>-snapshot``."""
    return f"{unique.hex}{SNAPSHOT_SUFFIX}"


def is_snapshot_directory(name: str) -> bool:
    """Whether a directory of that name has a snapshot of all logs."""
    return _SNAPSHOT.fullmatch(name) is not None


def future_directory(partition: TopicPartition, unique: uuid.UUID) -> str:
    """
    ``<topic>-<partition>.<uuid>-future``.

    :raises ValueError: the file system would not accept the name.
    """
    name = f"{partition}.{unique.hex}{FUTURE_SUFFIX}"
    if len(name) > MAX_NAME:
        raise ValueError(f"the name of topic {partition.topic!r} is too long for its logs to be moved")
    return name


def future_partition_of(directory: str) -> TopicPartition | None:
    """The partition that is being copied to a directory of that name; None for other names."""
    name, _, unique = directory.removesuffix(FUTURE_SUFFIX).rpartition(".")
    if not directory.endswith(FUTURE_SUFFIX) or len(unique) != 32:
        return None
    return partition_of(name)
