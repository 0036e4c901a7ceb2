"""Guards of share groups (KIP-932; Kafka: KafkaApis)."""

from __future__ import annotations

from typing import Any

from logbus.handlers.authorization.access import Access
from logbus.handlers.authorization.group_guards import DELETE, DESCRIBE, READ
from logbus.handlers.authorization.guard import Serve, divided, guards, on
from logbus.handlers.authorization.modern_group_guards import (
    FORBIDDEN,
    GROUP,
    TOPIC,
    guard_description,
    guard_heartbeat,
)
from logbus.handlers.authorization.named_topics import FORBIDDEN as TOPIC_FORBIDDEN
from logbus.model import NO_OFFSET
from logbus.wire.connection import Request
from logbus.wire.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
    DescribedShareGroup,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
    ShareGroupHeartbeatResponse,
)
from logbus.wire.schema import ZERO_UUID


@guards(76)
async def share_group_heartbeat(access: Access, request: Request, serve: Serve) -> Any:
    """ShareGroupHeartbeat: Read on the group, and Describe on the topics it subscribes to."""
    topics = request.message.subscribed_topic_names or ()
    return await guard_heartbeat(access, request, serve, topics, ShareGroupHeartbeatResponse)


@guards(77)
async def share_group_describe(access: Access, request: Request, serve: Serve) -> Any:
    """ShareGroupDescribe: Describe on each group, and on the topics that its members have."""
    return await guard_description(access, request, serve, _topics_of, DescribedShareGroup)


def _topics_of(group: DescribedShareGroup) -> set[str]:
    return {topic.topic_name for member in group.members for topic in member.assignment.topic_partitions}


@guards(90)
async def describe_share_group_offsets(access: Access, request: Request, serve: Serve) -> Any:
    """DescribeShareGroupOffsets: Describe on each group and topic; where all are asked for, others are left out."""
    message: DescribeShareGroupOffsetsRequest = request.message
    described = on(access, DESCRIBE, GROUP)
    message.groups, refused = await divided(access, request, message.groups, lambda each: described(each.group_id))
    gone_of: dict[str, list[DescribeShareGroupOffsetsResponseTopic]] = {}
    time_slice = access.context.time_slice(request)
    async for group in time_slice.over(message.groups):
        if group.topics is not None:
            group.topics, gone = await divided(
                access, request, group.topics, lambda topic: access.allows(DESCRIBE, TOPIC, topic.topic_name)
            )
            gone_of[group.group_id] = [_undescribed(topic) for topic in gone]
    answer: DescribeShareGroupOffsetsResponse = await serve()
    async for found in time_slice.over(answer.groups):
        if found.error_code:
            continue
        if found.group_id in gone_of:
            found.topics += gone_of[found.group_id]
        else:
            found.topics = [each for each in found.topics if access.may(DESCRIBE, TOPIC, each.topic_name)]
    answer.groups += [
        DescribeShareGroupOffsetsResponseGroup(
            group_id=each.group_id, error_code=FORBIDDEN, error_message=FORBIDDEN.sentence
        )
        for each in refused
    ]
    return answer


def _undescribed(topic: DescribeShareGroupOffsetsRequestTopic) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=ZERO_UUID,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=number,
                start_offset=NO_OFFSET,
                leader_epoch=0,
                error_code=TOPIC_FORBIDDEN,
                error_message=TOPIC_FORBIDDEN.sentence,
            )
            for number in topic.partitions
        ],
    )


@guards(91)
async def alter_share_group_offsets(access: Access, request: Request, serve: Serve) -> Any:
    """AlterShareGroupOffsets: Read on the group, and on each topic."""
    message: AlterShareGroupOffsetsRequest = request.message
    if not access.allows(READ, GROUP, message.group_id):
        return AlterShareGroupOffsetsResponse(error_code=FORBIDDEN, error_message=FORBIDDEN.sentence)
    message.topics, gone = await divided(
        access, request, message.topics, lambda topic: access.allows(READ, TOPIC, topic.topic_name)
    )
    answer = await serve() if message.topics or not gone else AlterShareGroupOffsetsResponse()
    if not answer.error_code:
        answer.responses += [
            AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                topic_id=ZERO_UUID,
                partitions=[
                    AlterShareGroupOffsetsResponsePartition(
                        partition_index=each.partition_index,
                        error_code=TOPIC_FORBIDDEN,
                        error_message=TOPIC_FORBIDDEN.sentence,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in gone
        ]
    return answer


@guards(92)
async def delete_share_group_offsets(access: Access, request: Request, serve: Serve) -> Any:
    """DeleteShareGroupOffsets: Delete on the group, and Read on each topic."""
    message: DeleteShareGroupOffsetsRequest = request.message
    if not access.allows(DELETE, GROUP, message.group_id):
        return DeleteShareGroupOffsetsResponse(error_code=FORBIDDEN, error_message=FORBIDDEN.sentence)
    message.topics, gone = await divided(
        access, request, message.topics, lambda topic: access.allows(READ, TOPIC, topic.topic_name)
    )
    answer = await serve() if message.topics or not gone else DeleteShareGroupOffsetsResponse()
    if not answer.error_code:
        answer.responses += [
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                topic_id=ZERO_UUID,
                error_code=TOPIC_FORBIDDEN,
                error_message=TOPIC_FORBIDDEN.sentence,
            )
            for topic in gone
        ]
    return answer
