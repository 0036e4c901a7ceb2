"""Converts the state of a consumer group to and from records of ``__consumer_offsets``. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from logbus.coordination.assignment_epochs import aligned
from logbus.coordination.consumer.consumer_group_member import (
    ClassicProtocols,
    ConsumerGroupMember,
    MemberPosition,
    MemberState,
)
from logbus.coordination.consumer.partition_sets import Partitions, TopicId, from_wire
from logbus.coordination.group import Change
from logbus.wire.messages.group_log import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    OwnedTopicPartitions,
)
from logbus.wire.messages.partitions import TopicIdPartitions


def group_epoch(group_id: str, epoch: int | None) -> Change:
    """The record of the group epoch; None, here and below, makes a tombstone."""
    value = None if epoch is None else ConsumerGroupMetadataValue(epoch=epoch)
    return ConsumerGroupMetadataKey(group_id=group_id), value


def read_group_epoch(value: ConsumerGroupMetadataValue) -> int:
    """The group epoch in a record."""
    return value.epoch


def target_epoch(group_id: str, epoch: int | None, now_ms: int = 0) -> Change:
    """The record of the epoch that the targets were computed for, and when."""
    value = None
    if epoch is not None:
        value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value


def target(group_id: str, member_id: str, partitions: Partitions | None) -> Change:
    """The record of a member's target."""
    value = None
    if partitions is not None:
        value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=assigned_topics(partitions))
    return ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value


def read_target(value: ConsumerGroupTargetAssignmentMemberValue) -> Partitions:
    """The target in a record."""
    return from_wire(value.topic_partitions)


def position(group_id: str, member_id: str, where: MemberPosition | None) -> Change:
    """The record of a member's position."""
    value = None
    if where is not None:
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=where.epoch,
            previous_member_epoch=where.previous_epoch,
            state=where.state,
            assigned_partitions=_owned(where.assigned, where.since),
            partitions_pending_revocation=_owned(where.revoking, where.since),
        )
    return ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), value


def read_position(value: ConsumerGroupCurrentMemberAssignmentValue) -> MemberPosition:
    """The position in a record; an unknown state becomes UNKNOWN."""
    known = value.state in MemberState.__members__.values()
    since: dict[tuple[TopicId, int], int] = {}
    for topic in (*value.assigned_partitions, *value.partitions_pending_revocation):
        epochs = aligned(topic.partitions, topic.assignment_epochs, value.member_epoch)
        since.update(((topic.topic_id, number), epoch) for number, epoch in zip(topic.partitions, epochs, strict=True))
    return MemberPosition(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if known else MemberState.UNKNOWN,
        assigned=from_wire(value.assigned_partitions),
        revoking=from_wire(value.partitions_pending_revocation),
        since=since,
    )


def member(group_id: str, member_id: str, wants: ConsumerGroupMember | None) -> Change:
    """The record of a member."""
    value = None
    if wants is not None:
        value = ConsumerGroupMemberMetadataValue(
            instance_id=wants.instance_id,
            rack_id=wants.rack_id,
            client_id=wants.client_id,
            client_host=wants.client_host,
            subscribed_topic_names=list(wants.topics),
            subscribed_topic_regex=wants.regex,
            rebalance_timeout_ms=wants.rebalance_timeout_ms,
            server_assignor=wants.assignor,
            classic_member_metadata=None if wants.classic is None else _classic(wants.classic),
        )
    return ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value


def read_member(member_id: str, value: ConsumerGroupMemberMetadataValue) -> ConsumerGroupMember:
    """The member in a record."""
    classic = value.classic_member_metadata
    return ConsumerGroupMember(
        member_id=member_id,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=tuple(sorted(set(value.subscribed_topic_names))),
        regex=value.subscribed_topic_regex or None,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicProtocols(
            classic.session_timeout_ms, tuple((p.name, bytes(p.metadata)) for p in classic.supported_protocols)
        ),
    )


def expression(group_id: str, regex: str, topics: list[str] | None, version: int = 0, now_ms: int = 0) -> Change:
    """The record of the topics that match an expression, in a version of the cluster's topics."""
    value = None
    if topics is not None:
        value = ConsumerGroupRegularExpressionValue(topics=topics, version=version, timestamp=now_ms)
    return ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value


def assigned_topics(partitions: Partitions) -> list[TopicIdPartitions]:
    """A set of partitions in the format of records, sorted, so that equal sets are equal bytes."""
    return [
        TopicIdPartitions(topic_id=topic_id, partitions=sorted(numbers))
        for topic_id, numbers in sorted(partitions.items())
    ]


def _owned(partitions: Partitions, since: Mapping[tuple[TopicId, int], int]) -> list[OwnedTopicPartitions]:
    return [
        OwnedTopicPartitions(
            topic_id=topic_id,
            partitions=sorted(numbers),
            assignment_epochs=[since.get((topic_id, number), 0) for number in sorted(numbers)],
        )
        for topic_id, numbers in sorted(partitions.items())
    ]


def _classic(classic: ClassicProtocols) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in classic.protocols],
    )
