"""
The state of a consumer group that is in its records, so that another broker can restore it from them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from attrs import define, field

from logbus.coordination.consumer import records
from logbus.coordination.consumer.consumer_group_member import ConsumerGroupMember, MemberPosition
from logbus.coordination.consumer.partition_sets import Partitions, TopicId, pairs
from logbus.coordination.group import Change
from logbus.coordination.recorded_changes import put
from logbus.coordination.recorded_group import RecordedGroup
from logbus.wire.messages.group_log import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)


@define(eq=False)
class RecordedState(RecordedGroup[int, ConsumerGroupMember, MemberPosition, Partitions]):
    """
    What this kind of group records beside :class:`.RecordedGroup`.

    :ivar expressions: the topics that match each regular expression of the members.
    :ivar instances: the member ids of static members, by instance id.
    :ivar owners: the member that holds each partition.
    """

    expressions: dict[str, frozenset[str]] = field(factory=dict, init=False)
    instances: dict[str, str] = field(factory=dict, init=False)
    owners: dict[tuple[TopicId, int], str] = field(factory=dict, init=False)

    def is_free(self, topic_id: TopicId, partition: int, member_id: str | None = None) -> bool:
        """Whether no member holds a partition, or none but this one, which has revoked it."""
        owner = self.owners.get((topic_id, partition))
        return owner is None or owner == member_id

    def position(self, member_id: str) -> MemberPosition:
        """A member's position; the initial one if it has no record."""
        return self.positions.get(member_id) or MemberPosition()

    # Changes.

    def set_expression(self, regex: str, topics: frozenset[str] | None, version: int = 0, now_ms: int = 0) -> None:
        """Set the topics that match an expression, in a version of the cluster's topics."""
        change = records.expression(self.group_id, regex, None if topics is None else sorted(topics), version, now_ms)
        self._write(change, partial(put, self.expressions, regex, self.expressions.get(regex)))
        put(self.expressions, regex, topics)

    def _put_member(self, member_id: str, member: ConsumerGroupMember | None) -> None:
        old = self.members.get(member_id)
        if old is not None and old.instance_id is not None and self.instances.get(old.instance_id) == member_id:
            del self.instances[old.instance_id]
        super()._put_member(member_id, member)
        if member is not None and member.instance_id is not None:
            self.instances[member.instance_id] = member_id

    def _put_position(self, member_id: str, position: MemberPosition | None) -> None:
        # While a partly compacted log is read, two members may hold a partition for a while: the later record counts.
        old = self.positions.get(member_id)
        if old is not None:
            for partition in pairs(old.held):
                if self.owners.get(partition) == member_id:
                    del self.owners[partition]
        super()._put_position(member_id, position)
        if position is not None:
            for partition in pairs(position.held):
                self.owners[partition] = member_id

    # Reading back.

    def _read_expression(self, key: Any, value: Any) -> None:
        put(self.expressions, key.regular_expression, None if value is None else frozenset(value.topics))

    def _other_tombstones(self) -> Iterator[Change]:
        return (records.expression(self.group_id, regex, None) for regex in self.expressions)


RecordedState.records = records
RecordedState.readers = {
    ConsumerGroupMetadataKey: RecordedState.read_epoch,
    ConsumerGroupTargetAssignmentMetadataKey: RecordedState.read_target_epoch,
    ConsumerGroupMemberMetadataKey: RecordedState.read_member,
    ConsumerGroupCurrentMemberAssignmentKey: RecordedState.read_position,
    ConsumerGroupTargetAssignmentMemberKey: RecordedState.read_target,
    ConsumerGroupRegularExpressionKey: RecordedState._read_expression,
}
