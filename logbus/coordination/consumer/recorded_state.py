"""
The state of a consumer group that is in its records, so that another broker can restore it from them. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define, field

from logbus.coordination.consumer import records
from logbus.coordination.consumer.consumer_group_member import ConsumerGroupMember, MemberPosition
from logbus.coordination.consumer.partition_sets import Partitions, TopicId, from_wire, pairs
from logbus.coordination.group import Change
from logbus.coordination.recorded_changes import RecordedChanges, put
from logbus.wire.messages.group_log import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)


@define(eq=False)
class RecordedState(RecordedChanges):
    """
    The state of one group. Its fields are read only; change them by its methods.

    :ivar epoch: the group epoch: grows when members, subscriptions or topics change; None without a record of it.
    :ivar target_epoch: the group epoch that the targets were computed for.
    :ivar target_ms: when they were computed, in ms since 1970; 0: never, or not known.
    :ivar members: the members, with their subscriptions.
    :ivar positions: the members' epochs and assignments.
    :ivar targets: the members' target assignments.
    :ivar expressions: the topics that match each regular expression of the members.
    :ivar instances: the member ids of static members, by instance id.
    :ivar owners: the member that holds each partition.
    """

    epoch: int | None = field(default=None, init=False)
    target_epoch: int | None = field(default=None, init=False)
    target_ms: int = field(default=0, init=False)
    members: dict[str, ConsumerGroupMember] = field(factory=dict, init=False)
    positions: dict[str, MemberPosition] = field(factory=dict, init=False)
    targets: dict[str, Partitions] = field(factory=dict, init=False)
    expressions: dict[str, frozenset[str]] = field(factory=dict, init=False)
    instances: dict[str, str] = field(factory=dict, init=False)
    owners: dict[tuple[TopicId, int], str] = field(factory=dict, init=False)

    def is_free(self, topic_id: TopicId, partition: int) -> bool:
        """Whether no member holds a partition."""
        return (topic_id, partition) not in self.owners

    def position(self, member_id: str) -> MemberPosition:
        """A member's position; the initial one if it has no record."""
        return self.positions.get(member_id) or MemberPosition()

    # Changes.

    def set_epoch(self, epoch: int | None) -> None:
        """Set the group epoch; None, here and below, deletes the record."""
        self._write(records.group_epoch(self.group_id, epoch), partial(setattr, self, "epoch", self.epoch))
        self.epoch = epoch

    def set_target_epoch(self, epoch: int, now_ms: int) -> None:
        """Set the epoch of the targets, and when they were computed."""
        change = records.target_epoch(self.group_id, epoch, now_ms)
        self._write(change, partial(self._put_target_epoch, self.target_epoch, self.target_ms))
        self._put_target_epoch(epoch, now_ms)

    def _put_target_epoch(self, epoch: int | None, now_ms: int) -> None:
        self.target_epoch, self.target_ms = epoch, now_ms

    def set_member(self, member_id: str, member: ConsumerGroupMember | None) -> None:
        """Set a member."""
        change = records.member(self.group_id, member_id, member)
        self._write(change, partial(self._put_member, member_id, self.members.get(member_id)))
        self._put_member(member_id, member)

    def set_position(self, member_id: str, position: MemberPosition | None) -> None:
        """Set a member's position."""
        change = records.position(self.group_id, member_id, position)
        self._write(change, partial(self._put_position, member_id, self.positions.get(member_id)))
        self._put_position(member_id, position)

    def set_target(self, member_id: str, target: Partitions | None) -> None:
        """Set a member's target."""
        change = records.target(self.group_id, member_id, target)
        self._write(change, partial(put, self.targets, member_id, self.targets.get(member_id)))
        put(self.targets, member_id, target)

    def set_expression(self, regex: str, topics: frozenset[str] | None, version: int = 0, now_ms: int = 0) -> None:
        """Set the topics that match an expression, in a version of the cluster's topics."""
        change = records.expression(self.group_id, regex, None if topics is None else sorted(topics), version, now_ms)
        self._write(change, partial(put, self.expressions, regex, self.expressions.get(regex)))
        put(self.expressions, regex, topics)

    def remove(self, member_id: str) -> None:
        """Delete all records of a member."""
        self.set_position(member_id, None)
        self.set_target(member_id, None)
        self.set_member(member_id, None)

    def _put_member(self, member_id: str, member: ConsumerGroupMember | None) -> None:
        old = self.members.get(member_id)
        if old is not None and old.instance_id is not None and self.instances.get(old.instance_id) == member_id:
            del self.instances[old.instance_id]
        put(self.members, member_id, member)
        if member is not None and member.instance_id is not None:
            self.instances[member.instance_id] = member_id

    def _put_position(self, member_id: str, position: MemberPosition | None) -> None:
        # While a partly compacted log is read, two members may hold a partition for a while: the later record counts.
        old = self.positions.get(member_id)
        if old is not None:
            for partition in pairs(old.held):
                if self.owners.get(partition) == member_id:
                    del self.owners[partition]
        put(self.positions, member_id, position)
        if position is not None:
            for partition in pairs(position.held):
                self.owners[partition] = member_id

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
        self._put_member(key.member_id, None if value is None else records.read_member(key.member_id, value))

    def _read_position(self, key: Any, value: Any) -> None:
        self._put_position(key.member_id, None if value is None else records.read_position(value))

    def _read_target(self, key: Any, value: Any) -> None:
        put(self.targets, key.member_id, None if value is None else from_wire(value.topic_partitions))

    def _read_expression(self, key: Any, value: Any) -> None:
        put(self.expressions, key.regular_expression, None if value is None else frozenset(value.topics))

    def tombstones(self) -> list[Change]:
        """The records that delete the group."""
        group_id = self.group_id
        return [
            *(records.position(group_id, member_id, None) for member_id in self.positions),
            *(records.target(group_id, member_id, None) for member_id in self.targets),
            records.target_epoch(group_id, None),
            *(records.member(group_id, member_id, None) for member_id in self.members),
            *(records.expression(group_id, regex, None) for regex in self.expressions),
            records.group_epoch(group_id, None),
        ]


_READERS: dict[type[Any], Callable[[RecordedState, Any, Any], None]] = {
    ConsumerGroupMetadataKey: RecordedState._read_epoch,
    ConsumerGroupTargetAssignmentMetadataKey: RecordedState._read_target_epoch,
    ConsumerGroupMemberMetadataKey: RecordedState._read_member,
    ConsumerGroupCurrentMemberAssignmentKey: RecordedState._read_position,
    ConsumerGroupTargetAssignmentMemberKey: RecordedState._read_target,
    ConsumerGroupRegularExpressionKey: RecordedState._read_expression,
}
