"""
The target of an offset reset, parsed from the command line, and the offset it gives in a partition.
"""

from __future__ import annotations

import re
from enum import Enum

from attrs import frozen

from logbus.errors import LogbusError
from logbus.model import TopicPartition, topic_name_problem

_UNITS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_PARTS = re.compile(r"([0-9]{1,15})(ms|[wdhms])")
_ISO_PERIOD = re.compile(
    r"P(?!$)(?:(?P<w>\d{1,9})W)?(?:(?P<d>\d{1,9})D)?"
    r"(?:T(?!$)(?:(?P<h>\d{1,9})H)?(?:(?P<m>\d{1,9})M)?(?:(?P<s>\d{1,9}(?:\.\d{1,3})?)S)?)?",
    re.ASCII,
)
_MAX_INT32 = 2**31 - 1
MAX_OFFSET = 2**63 - 1


class TargetKind(Enum):
    """Kinds of targets; see the options of ``logbus groups reset-offsets``."""

    EARLIEST = "to the first offset that is kept"
    LATEST = "to the end"
    CURRENT = "to where the group is"
    OFFSET = "to an offset"
    SHIFT = "by a number of records"
    TIME = "to the first record at or after a time"


@frozen
class OffsetTarget:
    """
    The target of a reset.

    :ivar value: the offset, the shift, or the time in ms since 1970.
    """

    kind: TargetKind
    value: int = 0


@frozen
class PartitionBounds:
    """
    The offsets of a partition.

    :ivar start: the log start offset.
    :ivar end: the offset of the next record.
    :ivar at_time: the first offset at or after the target's time; −1: there is none.
    """

    start: int
    end: int
    at_time: int = -1


@frozen
class OffsetChange:
    """
    A change of a group's committed offset for one partition.

    :ivar old: None if no offset is committed.
    :ivar note: why the new offset differs from the target; empty if it does not.
    """

    partition: TopicPartition
    old: int | None
    new: int
    note: str = ""
    metadata: str = ""


def resolve_target(
    partition: TopicPartition, target: OffsetTarget, old: int | None, bounds: PartitionBounds, metadata: str = ""
) -> OffsetChange:
    """
    Compute the new offset, limited to the partition's bounds.

    :raise LogbusError: the target is a shift, and no offset is committed.
    """
    if target.kind is TargetKind.EARLIEST:
        return OffsetChange(partition, old, bounds.start, metadata=metadata)
    if target.kind is TargetKind.LATEST:
        return OffsetChange(partition, old, bounds.end, metadata=metadata)
    if target.kind is TargetKind.TIME:
        if bounds.at_time < 0:
            return OffsetChange(partition, old, bounds.end, "no record is so late: the end", metadata)
        return OffsetChange(partition, old, bounds.at_time, metadata=metadata)
    if target.kind is TargetKind.OFFSET:
        wanted = target.value
    elif old is not None:
        wanted = old + (target.value if target.kind is TargetKind.SHIFT else 0)
    elif target.kind is TargetKind.CURRENT:
        return OffsetChange(partition, old, bounds.end, "nothing is committed: the end", metadata)
    else:
        raise LogbusError(
            f"nothing is committed for {partition} that could be shifted; leave it out with --topic "
            f"{partition.topic}:PARTITION,..., or set it with --to-offset"
        )
    if wanted < bounds.start:
        return OffsetChange(partition, old, bounds.start, f"{wanted} is before the first that is kept", metadata)
    if wanted > bounds.end:
        return OffsetChange(partition, old, bounds.end, f"{wanted} is behind the end", metadata)
    return OffsetChange(partition, old, wanted, metadata=metadata)


def parse_duration(text: str) -> int:
    """
    Parse a time span like ``1h30m``, ``250ms``, or ISO 8601's ``PT1H30M``, ``P7D``, into ms.

    :raise LogbusError: it has neither form.
    """
    iso = _ISO_PERIOD.fullmatch(text.upper())
    if iso is not None:
        return sum(round(float(number) * _UNITS[unit]) for unit, number in iso.groupdict().items() if number)
    parts = _PARTS.findall(text.lower())
    if not parts or "".join(number + unit for number, unit in parts) != text.lower():
        raise LogbusError(f"{text!r} is not a time span; write 1h30m, 250ms, or PT1H30M or P7D as in ISO 8601")
    return sum(int(number) * _UNITS[unit] for number, unit in parts)


def parse_scope(text: str) -> tuple[str, tuple[int, ...] | None]:
    """
    Parse ``orders`` or ``orders:0,2`` into a topic and its partitions (None: all).

    :raise LogbusError: it has neither form.
    """
    topic, colon, rest = text.partition(":")
    problem = topic_name_problem(topic)
    if problem is not None:
        raise LogbusError(problem)
    if not colon:
        return topic, None
    numbers = [each.strip() for each in rest.split(",")]
    for each in numbers:
        if not (each.isascii() and each.isdigit() and len(each) < 11 and int(each) <= _MAX_INT32):
            raise LogbusError(f"{each!r} in {text!r} is not the number of a partition; write {topic}:0,1,2")
    return topic, tuple(sorted({int(each) for each in numbers}))
