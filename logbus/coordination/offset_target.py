"""
The target of an offset reset, and the offset it gives in a partition. Pure.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from logbus.errors import LogbusError
from logbus.model import TopicPartition


class TargetKind(Enum):
    """Kinds of targets."""

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
