"""
Committed offsets as lines of znodes, the format of Kafka's ExportZkOffsets and ImportZkOffsets (0.7 and 0.8).

::

    /consumers/billing/offsets/orders/0:42

That is where consumers of that time kept them in ZooKeeper. A line has no place for what the consumer noted.
"""

from __future__ import annotations

import re

from logbus.cli.groups.offset_file import Saved, SavedOffset
from logbus.cli.groups.offset_target import MAX_OFFSET
from logbus.errors import LogbusError
from logbus.model import TopicPartition

_LINE = re.compile(r"/consumers/(.+)/offsets/([^/]{1,249})/([0-9]{1,10}):([0-9]{1,19})")
_LINE_OF_07 = re.compile(r"/consumers/.+/offsets/[^/]+/[0-9]+-[0-9]+:[0-9]+")
_MAX_PARTITION = 2**31 - 1


def write_lines(groups: Saved) -> str:
    """
    Return the text of a file.

    :raise LogbusError: a group's id has a line break.
    """
    lines = []
    for group, offsets in groups.items():
        if len(group.splitlines()) > 1 or group.endswith(("\n", "\r")):
            raise LogbusError(f"group {group!r} has a line break, which these lines cannot have; export it as JSON")
        lines += [
            f"/consumers/{group}/offsets/{at.topic}/{at.partition}:{each.offset}\n" for at, each in offsets.items()
        ]
    return "".join(lines)


def is_lines(data: bytes) -> bool:
    """Whether a file is meant to be one of these; otherwise it is one of JSON."""
    return data.lstrip().startswith(b"/")


def read_lines(data: bytes, name: str) -> dict[str, dict[TopicPartition, SavedOffset]]:
    """
    Parse a file.

    :param name: the file's name, for errors.
    :raise LogbusError: the file is invalid; says where, and what is expected.
    """
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as e:
        raise LogbusError(f"{name}: it is not UTF-8 at byte {e.start}") from None
    found: dict[str, dict[TopicPartition, SavedOffset]] = {}
    for number, text in enumerate(lines, 1):
        line = text.strip()
        if not line:
            continue
        if (match := _LINE.fullmatch(line)) is None:
            if _LINE_OF_07.fullmatch(line):
                problem = "is of Kafka 0.7, whose offsets are bytes, and mean nothing here"
            else:
                problem = "is not /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET"
            raise LogbusError(f"{name}, line {number}: {line[:200]!r} {problem}")
        group, partition, offset = match[1], TopicPartition(match[2], int(match[3])), int(match[4])
        if partition.partition > _MAX_PARTITION or offset > MAX_OFFSET:
            raise LogbusError(
                f"{name}, line {number}: a partition is at most {_MAX_PARTITION}, and an offset {MAX_OFFSET}"
            )
        offsets = found.setdefault(group, {})
        if partition in offsets:
            raise LogbusError(f"{name}, line {number}: {partition} of group {group!r} is there already")
        offsets[partition] = SavedOffset(offset)
    return found
