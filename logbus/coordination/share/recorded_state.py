"""
The state of a share group that is in its records, so that another broker can restore it from them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from attrs import define, field

from logbus.coordination.consumer.partition_sets import Partitions
from logbus.coordination.group import Change
from logbus.coordination.recorded_group import RecordedGroup
from logbus.coordination.share import records
from logbus.coordination.share.share_group_member import ShareGroupMember, SharePosition
from logbus.coordination.share.share_partitions import NONE, SharePartitions
from logbus.wire.messages.group_log import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)


@define(eq=False)
class RecordedState(RecordedGroup[int, ShareGroupMember, SharePosition, Partitions]):
    """
    What this kind of group records beside :class:`.RecordedGroup`.

    :ivar partitions: the share partitions.
    """

    partitions: SharePartitions = field(default=NONE, init=False)

    def position(self, member_id: str) -> SharePosition:
        """A member's position; the initial one if it has no record."""
        return self.positions.get(member_id) or SharePosition()

    # Changes.

    def set_partitions(self, partitions: SharePartitions) -> None:
        """Set the share partitions."""
        change = records.share_partitions(self.group_id, partitions)
        self._write(change, partial(setattr, self, "partitions", self.partitions))
        self.partitions = partitions

    # Reading back.

    def _read_partitions(self, key: Any, value: Any) -> None:
        self.partitions = NONE if value is None else records.read_share_partitions(value)

    def _other_tombstones(self) -> Iterator[Change]:
        yield records.share_partitions(self.group_id, None)


RecordedState.records = records
RecordedState.readers = {
    ShareGroupMetadataKey: RecordedState.read_epoch,
    ShareGroupTargetAssignmentMetadataKey: RecordedState.read_target_epoch,
    ShareGroupMemberMetadataKey: RecordedState.read_member,
    ShareGroupCurrentMemberAssignmentKey: RecordedState.read_position,
    ShareGroupTargetAssignmentMemberKey: RecordedState.read_target,
    ShareGroupStatePartitionMetadataKey: RecordedState._read_partitions,
}
