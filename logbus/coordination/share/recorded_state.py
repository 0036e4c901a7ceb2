"""
The state of a share group that is in its records, so that another broker can restore it from them. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define, field

from logbus.coordination.consumer.partition_sets import Partitions, from_wire
from logbus.coordination.group import Change
from logbus.coordination.recorded_changes import RecordedChanges, put
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
class RecordedState(RecordedChanges):
    """
    The state of one group. Its fields are read only; change them by its methods.

    :ivar epoch: the group epoch: grows when members, subscriptions or share partitions change; None without a record.
    :ivar target_epoch: the group epoch that the targets were computed for.
    :ivar target_ms: when they were computed, in ms since 1970; 0: never, or not known.
    :ivar members: the members, with their subscriptions.
    :ivar positions: what the members were told.
    :ivar targets: the members' target assignments.
    :ivar partitions: the share partitions.
    """

    epoch: int | None = field(default=None, init=False)
    target_epoch: int | None = field(default=None, init=False)
    target_ms: int = field(default=0, init=False)
    members: dict[str, ShareGroupMember] = field(factory=dict, init=False)
    positions: dict[str, SharePosition] = field(factory=dict, init=False)
    targets: dict[str, Partitions] = field(factory=dict, init=False)
    partitions: SharePartitions = field(default=NONE, init=False)

    def position(self, member_id: str) -> SharePosition:
        """A member's position; the initial one if it has no record."""
        return self.positions.get(member_id) or SharePosition()

    # Changes.

    def set_epoch(self, epoch: int) -> None:
        """Set the group epoch."""
        self._write(records.group_epoch(self.group_id, epoch), partial(setattr, self, "epoch", self.epoch))
        self.epoch = epoch

    def set_target_epoch(self, epoch: int, now_ms: int) -> None:
        """Set the epoch of the targets, and when they were computed."""
        change = records.target_epoch(self.group_id, epoch, now_ms)
        self._write(change, partial(self._put_target_epoch, self.target_epoch, self.target_ms))
        self._put_target_epoch(epoch, now_ms)

    def _put_target_epoch(self, epoch: int | None, now_ms: int) -> None:
        self.target_epoch, self.target_ms = epoch, now_ms

    def set_member(self, member_id: str, member: ShareGroupMember | None) -> None:
        """Set a member; None, here and below, deletes the record."""
        change = records.member(self.group_id, member_id, member)
        self._write(change, partial(put, self.members, member_id, self.members.get(member_id)))
        put(self.members, member_id, member)

    def set_position(self, member_id: str, position: SharePosition | None) -> None:
        """Set a member's position."""
        change = records.position(self.group_id, member_id, position)
        self._write(change, partial(put, self.positions, member_id, self.positions.get(member_id)))
        put(self.positions, member_id, position)

    def set_target(self, member_id: str, target: Partitions | None) -> None:
        """Set a member's target."""
        change = records.target(self.group_id, member_id, target)
        self._write(change, partial(put, self.targets, member_id, self.targets.get(member_id)))
        put(self.targets, member_id, target)

    def set_partitions(self, partitions: SharePartitions) -> None:
        """Set the share partitions."""
        change = records.share_partitions(self.group_id, partitions)
        self._write(change, partial(setattr, self, "partitions", self.partitions))
        self.partitions = partitions

    def remove(self, member_id: str) -> None:
        """Delete all records of a member."""
        self.set_position(member_id, None)
        self.set_target(member_id, None)
        self.set_member(member_id, None)

    # Reading back.

    def apply(self, change: Change) -> None:
        """Apply a record that was read back; records of other kinds are ignored."""
        key, value = change
        reader = _READERS.get(type(key))
        if reader is not None:
            reader(self, key, value)

    def _read_epoch(self, key: Any, value: Any) -> None:
        self.epoch = None if value is None else value.epoch

    def _read_target_epoch(self, key: Any, value: Any) -> None:
        if value is None:
            self._put_target_epoch(None, 0)
        else:
            self._put_target_epoch(value.assignment_epoch, value.assignment_timestamp)

    def _read_member(self, key: Any, value: Any) -> None:
        put(self.members, key.member_id, None if value is None else records.read_member(key.member_id, value))

    def _read_position(self, key: Any, value: Any) -> None:
        put(self.positions, key.member_id, None if value is None else records.read_position(value))

    def _read_target(self, key: Any, value: Any) -> None:
        put(self.targets, key.member_id, None if value is None else from_wire(value.topic_partitions))

    def _read_partitions(self, key: Any, value: Any) -> None:
        self.partitions = NONE if value is None else records.read_share_partitions(value)

    def tombstones(self) -> list[Change]:
        """The records that delete the group."""
        group_id = self.group_id
        return [
            *(records.position(group_id, member_id, None) for member_id in self.positions),
            *(records.target(group_id, member_id, None) for member_id in self.targets),
            records.target_epoch(group_id, None),
            *(records.member(group_id, member_id, None) for member_id in self.members),
            records.share_partitions(group_id, None),
            records.group_epoch(group_id, None),
        ]


_READERS: dict[type[Any], Callable[[RecordedState, Any, Any], None]] = {
    ShareGroupMetadataKey: RecordedState._read_epoch,
    ShareGroupTargetAssignmentMetadataKey: RecordedState._read_target_epoch,
    ShareGroupMemberMetadataKey: RecordedState._read_member,
    ShareGroupCurrentMemberAssignmentKey: RecordedState._read_position,
    ShareGroupTargetAssignmentMemberKey: RecordedState._read_target,
    ShareGroupStatePartitionMetadataKey: RecordedState._read_partitions,
}
