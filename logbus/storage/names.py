"""
What the files of a log directory are called.
"""

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
"""Appended to the names of a segment's files when it is to go; what bears it at start is removed."""
CLEANED = ".cleaned"
"""Appended while a segment is written that is to replace others; what bears it at start is removed."""
SWAP = ".swap"
"""Appended while it takes their place; what bears it at start takes the place then."""
TEMPORARY = ".tmp"

EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
SPACE_TEST = "space-test"
"""Written to a directory that was full, and removed at once, to learn whether it has space again."""

MOVED = "moved"
"""In a log's directory: the log is being moved, or was moved, to another log directory."""

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
"""Ends the name of a directory that a log is being copied to (KIP-113)."""
MAX_NAME = 255

_DIRECTORY = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})")


def segment_file(base_offset: int, suffix: str) -> str:
    """``00000000000000000042.log`` and its like."""
    return f"{base_offset:020d}{suffix}"


def base_offset_of(name: str, suffix: str) -> int | None:
    """The offset in a file's name, or None if it is not the name of a file of that kind."""
    stem = name.removesuffix(suffix)
    if len(stem) == 20 and len(name) == 20 + len(suffix) and stem.isascii() and stem.isdigit():
        return int(stem)
    return None


def partition_directory(partition: TopicPartition) -> str:
    """
    The directory of a partition's log.

    :raises ValueError: the topic's name cannot be a directory's.
    """
    problem = topic_name_problem(partition.topic)
    if problem is not None:
        raise ValueError(problem)
    if partition.partition < 0:
        raise ValueError(f"partition {partition.partition} is negative")
    return str(partition)


def partition_of(directory: str) -> TopicPartition | None:
    """The partition whose log is in a directory of that name; None if it is not a log's."""
    match = _DIRECTORY.fullmatch(directory)
    if match is None or topic_name_problem(match[1]) is not None:
        return None
    return TopicPartition(match[1], int(match[2]))


def deleted_directory(partition: TopicPartition, unique: uuid.UUID) -> str:
    """``<topic>-<partition>.<uuid>-delete``, the topic cut short where a file system would not take the name."""
    suffix = f"-{partition.partition}.{unique.hex}{DELETE_SUFFIX}"
    return partition.topic[: MAX_NAME - len(suffix)] + suffix


def future_directory(partition: TopicPartition, unique: uuid.UUID) -> str:
    """
    ``<topic>-<partition>.<uuid>-future``.

    :raises ValueError: a file system would not take the name.
    """
    name = f"{partition}.{unique.hex}{FUTURE_SUFFIX}"
    if len(name) > MAX_NAME:
        raise ValueError(f"the name of topic {partition.topic!r} is too long for its logs to be moved")
    return name


def future_partition_of(directory: str) -> TopicPartition | None:
    """The partition that is being copied to a directory of that name; None if it is not such a name."""
    name, _, unique = directory.removesuffix(FUTURE_SUFFIX).rpartition(".")
    if not directory.endswith(FUTURE_SUFFIX) or len(unique) != 32:
        return None
    return partition_of(name)
