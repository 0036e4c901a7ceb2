"""
Describes groups of the classic and the consumer protocol (KIP-848), share groups (KIP-932) and streams groups
(KIP-1071), by requests to their coordinators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from logbus.client.admin.group_results import GroupDescription, GroupMember
from logbus.client.cluster.cluster import Node
from logbus.client.cluster.coordinators import group_error
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.net.channel import Channel
from logbus.wire.member_metadata import read_assignment, read_subscription
from logbus.wire.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from logbus.wire.messages.consumer_protocol import PROTOCOL_TYPE
from logbus.wire.messages.groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from logbus.wire.messages.share_groups import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from logbus.wire.messages.streams_groups import (
    DescribedStreamsGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    TaskIds,
)

_CONSUMER_GROUP_DESCRIBE = 69
_SHARE_GROUP_DESCRIBE = 77
_STREAMS_GROUP_DESCRIBE = 89


async def describe_at(channel: Channel, node: Node, group_ids: Sequence[str]) -> dict[str, GroupDescription | ApiError]:
    """
    Describe groups at one coordinator.

    Only the coordinator knows the protocol of a group. So it is asked by the newer protocol first, and by the classic
    one for the groups that are not of the newer; those that are of neither may be share groups or
    streams groups.
    """
    answers: dict[str, GroupDescription | ApiError] = {}
    classic: Sequence[str] = group_ids
    if _CONSUMER_GROUP_DESCRIBE in channel.versions:
        answers = await _describe_consumer_groups(channel, node, group_ids)
        classic = [each for each, answer in answers.items() if _is_of_another_type(answer)]
    if classic:
        response: DescribeGroupsResponse = await channel.request(DescribeGroupsRequest(groups=list(classic)))
        answers.update((each.group_id, _classic(each, node)) for each in response.groups)
    others = [each for each, answer in answers.items() if _is_of_another_type(answer)]
    if others and _SHARE_GROUP_DESCRIBE in channel.versions:
        answers.update(await _describe_share_groups(channel, node, others))
        others = [each for each in others if _is_of_another_type(answers[each])]
    if others and _STREAMS_GROUP_DESCRIBE in channel.versions:
        answers.update(await _describe_streams_groups(channel, node, others))
    return answers


async def _describe_share_groups(
    channel: Channel, node: Node, group_ids: Sequence[str]
) -> dict[str, GroupDescription | ApiError]:
    """Describe those that are share groups."""
    response: ShareGroupDescribeResponse = await channel.request(ShareGroupDescribeRequest(group_ids=list(group_ids)))
    return {
        each.group_id: GroupDescription(
            group_id=each.group_id,
            state=each.group_state,
            type="share",
            protocol_type="share",
            assignor=each.assignor_name,
            coordinator=node,
            members=tuple(
                GroupMember(
                    member_id=member.member_id,
                    instance_id=None,
                    client_id=member.client_id,
                    host=_address(member.client_host),
                    assignment=_partitions(member.assignment.topic_partitions),
                    subscription=tuple(sorted(member.subscribed_topic_names)),
                    epoch=member.member_epoch,
                )
                for member in sorted(each.members, key=lambda member: member.member_id)
            ),
            epoch=each.group_epoch,
            assignment_epoch=each.assignment_epoch,
        )
        for each in response.groups
        if not each.error_code
    }


async def _describe_streams_groups(
    channel: Channel, node: Node, group_ids: Sequence[str]
) -> dict[str, GroupDescription | ApiError]:
    """Describe those that are streams groups."""
    response: StreamsGroupDescribeResponse = await channel.request(
        StreamsGroupDescribeRequest(group_ids=list(group_ids))
    )
    return {each.group_id: _streams(each, node) for each in response.groups if not each.error_code}


def _streams(group: DescribedStreamsGroup, node: Node) -> GroupDescription:
    """A task reads the partition of its number of each topic that its subtopology reads."""
    subtopologies = group.topology and group.topology.subtopologies
    read = {
        each.subtopology_id: (*each.source_topics, *(topic.name for topic in each.repartition_source_topics))
        for each in subtopologies or ()
    }

    def partitions(tasks: Iterable[TaskIds]) -> tuple[TopicPartition, ...]:
        return tuple(
            sorted(
                TopicPartition(topic, number)
                for each in tasks
                for topic in read.get(each.subtopology_id, ())
                for number in each.partitions
            )
        )

    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        type="streams",
        protocol_type="streams",
        assignor="sticky" if group.members else "",
        coordinator=node,
        members=tuple(
            GroupMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=_address(member.client_host),
                assignment=partitions(member.assignment.active_tasks),
                subscription=tuple(sorted({topic for topics in read.values() for topic in topics})),
                target=partitions(member.target_assignment.active_tasks),
                epoch=member.member_epoch,
            )
            for member in sorted(group.members, key=lambda member: member.member_id)
        ),
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
    )


async def _describe_consumer_groups(
    channel: Channel, node: Node, group_ids: Sequence[str]
) -> dict[str, GroupDescription | ApiError]:
    response: ConsumerGroupDescribeResponse = await channel.request(
        ConsumerGroupDescribeRequest(group_ids=list(group_ids))
    )
    return {
        each.group_id: group_error(each.error_code, each.group_id, each.error_message)
        or GroupDescription(
            group_id=each.group_id,
            state=each.group_state,
            type="consumer",
            protocol_type=PROTOCOL_TYPE,
            assignor=each.assignor_name,
            coordinator=node,
            members=tuple(
                GroupMember(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    host=_address(member.client_host),
                    assignment=_partitions(member.assignment.topic_partitions),
                    subscription=tuple(sorted(member.subscribed_topic_names)),
                    pattern=member.subscribed_topic_regex or None,
                    target=_partitions(member.target_assignment.topic_partitions),
                    epoch=member.member_epoch,
                )
                for member in sorted(each.members, key=lambda member: member.member_id)
            ),
            epoch=each.group_epoch,
            assignment_epoch=each.assignment_epoch,
        )
        for each in response.groups
    }


def _is_of_another_type(answer: GroupDescription | ApiError) -> bool:
    return isinstance(answer, ApiError) and answer.code in (
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNSUPPORTED_VERSION,
    )


def _classic(group: DescribedGroup, node: Node) -> GroupDescription | ApiError:
    error = group_error(group.error_code, group.group_id, group.error_message)
    if error is not None:
        return error
    if group.group_state == "Dead":
        # Brokers before Kafka 4.0 describe a group that does not exist so.
        return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group.group_id!r}")
    members = []
    for each in sorted(group.members, key=lambda each: each.member_id):
        of_consumer = group.protocol_type == PROTOCOL_TYPE
        members.append(
            GroupMember(
                member_id=each.member_id,
                instance_id=each.group_instance_id,
                client_id=each.client_id,
                host=_address(each.client_host),
                assignment=read_assignment(each.member_assignment) if of_consumer else (),
                subscription=read_subscription(each.member_metadata) if of_consumer else (),
                metadata_bytes=bytes(each.member_metadata),
                assignment_bytes=bytes(each.member_assignment),
            )
        )
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        type="classic",
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=node,
        members=tuple(members),
    )


def _partitions(topics: Iterable[Any]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(each.topic_name, number) for each in topics for number in each.partitions))


def _address(host: str) -> str:
    """Remove the slash of an address in Java's format."""
    return host.rpartition("/")[2]
