"""Converts the state of a share group to and from records of ``__consumer_offsets``. Pure."""

from __future__ import annotations

from logbus.coordination.consumer.partition_sets import Partitions, TopicId, difference, from_wire
from logbus.coordination.consumer.records import assigned_topics
from logbus.coordination.group import Change
from logbus.coordination.share.share_group_member import ShareGroupMember, SharePosition
from logbus.coordination.share.share_partitions import SharePartitions
from logbus.wire.messages import group_log
from logbus.wire.messages.group_log import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareTopic,
)

STABLE = 0
"""The one state of a member in its record."""


def group_epoch(group_id: str, epoch: int | None) -> Change:
    """The record of the group epoch; None, here and below, makes a tombstone."""
    value = None if epoch is None else ShareGroupMetadataValue(epoch=epoch)
    return ShareGroupMetadataKey(group_id=group_id), value


def read_group_epoch(value: ShareGroupMetadataValue) -> int:
    """The group epoch in a record."""
    return value.epoch


def target_epoch(group_id: str, epoch: int | None, now_ms: int = 0) -> Change:
    """The record of the epoch that the targets were computed for, and when."""
    value = None
    if epoch is not None:
        value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value


def target(group_id: str, member_id: str, partitions: Partitions | None) -> Change:
    """The record of a member's target."""
    value = None
    if partitions is not None:
        value = ShareGroupTargetAssignmentMemberValue(topic_partitions=assigned_topics(partitions))
    return ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value


def read_target(value: ShareGroupTargetAssignmentMemberValue) -> Partitions:
    """The target in a record."""
    return from_wire(value.topic_partitions)


def position(group_id: str, member_id: str, where: SharePosition | None) -> Change:
    """The record of what a member was told."""
    value = None
    if where is not None:
        value = ShareGroupCurrentMemberAssignmentValue(
            member_epoch=where.epoch,
            previous_member_epoch=where.previous_epoch,
            state=STABLE,
            assigned_partitions=assigned_topics(where.assigned),
        )
    return ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), value


def read_position(value: ShareGroupCurrentMemberAssignmentValue) -> SharePosition:
    """The position in a record."""
    return SharePosition(value.member_epoch, value.previous_member_epoch, from_wire(value.assigned_partitions))


def member(group_id: str, member_id: str, wants: ShareGroupMember | None) -> Change:
    """The record of a member."""
    value = None
    if wants is not None:
        value = ShareGroupMemberMetadataValue(
            rack_id=wants.rack_id,
            client_id=wants.client_id,
            client_host=wants.client_host,
            subscribed_topic_names=list(wants.topics),
        )
    return ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value


def read_member(member_id: str, value: ShareGroupMemberMetadataValue) -> ShareGroupMember:
    """The member in a record."""
    return ShareGroupMember(
        member_id, value.rack_id, value.client_id, value.client_host, tuple(sorted(set(value.subscribed_topic_names)))
    )


def share_partitions(group_id: str, state: SharePartitions | None) -> Change:
    """The record of the share partitions."""
    value = None
    if state is not None:
        value = ShareGroupStatePartitionMetadataValue(
            initializing_topics=_topics(state.initializing, state),
            initialized_topics=_topics(state.initialized, state),
            deleting_topics=[
                ShareTopic(topic_id=topic_id, topic_name=state.names.get(topic_id, ""))
                for topic_id in sorted(state.deleting)
            ],
        )
    return ShareGroupStatePartitionMetadataKey(group_id=group_id), value


def read_share_partitions(value: ShareGroupStatePartitionMetadataValue) -> SharePartitions:
    """The share partitions in a record; Kafka notes those whose start offset is being set as initializing, too."""
    names: dict[TopicId, str] = {}
    for topics in (value.initializing_topics, value.initialized_topics, value.deleting_topics):
        names.update((topic.topic_id, topic.topic_name) for topic in topics)
    initialized = from_wire(value.initialized_topics)
    return SharePartitions(
        difference(from_wire(value.initializing_topics), initialized),
        initialized,
        frozenset(topic.topic_id for topic in value.deleting_topics),
        names,
    )


def _topics(partitions: Partitions, state: SharePartitions) -> list[group_log.SharePartitions]:
    return [
        group_log.SharePartitions(
            topic_id=topic_id, topic_name=state.names.get(topic_id, ""), partitions=sorted(numbers)
        )
        for topic_id, numbers in sorted(partitions.items())
    ]
