"""Guards of groups and their offsets (Kafka: KafkaApis)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logbus.errors import ErrorCode
from logbus.handlers.authorization.access import Access
from logbus.handlers.authorization.guard import Serve, divided, guards, needs, on
from logbus.handlers.authorization.modern_group_guards import (
    FORBIDDEN,
    GROUP,
    TOPIC,
    guard_description,
    guard_heartbeat,
)
from logbus.handlers.authorization.named_topics import FORBIDDEN as TOPIC_FORBIDDEN
from logbus.handlers.group_offsets import failed, failed_partitions
from logbus.net.time_slices import TimeSlice
from logbus.security.acl.acls import CLUSTER_NAME, AclOperation, ResourceType
from logbus.wire.connection import Request
from logbus.wire.messages.consumer_groups import ConsumerGroupHeartbeatResponse, DescribedConsumerGroup
from logbus.wire.messages.groups import (
    Coordinator,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListGroupsResponse,
    SyncGroupResponse,
)
from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from logbus.wire.messages.partitions import PartitionErrorCode, TopicErrorCodes

READ, DELETE, DESCRIBE = AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE

TRANSACTION_KEYS = 1
"""The type of coordinator keys that are transactional ids."""

SHARE_KEYS = 2
"""The type of those that are share partitions."""

_FIRST_WITH_GROUPS = 8
"""The first version of OffsetFetch with several groups."""

_FIRST_WITH_ERROR = 2
"""The first version of OffsetFetch with an error of its own."""


def _reads_group(response: Callable[..., Any]) -> Any:
    """The guard of a request of a member, whose response has an error."""
    return needs(
        READ, GROUP, lambda message, code: response(error_code=code), lambda message: message.group_id, FORBIDDEN
    )


join_group = guards(11)(_reads_group(JoinGroupResponse))
heartbeat = guards(12)(_reads_group(HeartbeatResponse))
leave_group = guards(13)(_reads_group(LeaveGroupResponse))
sync_group = guards(14)(_reads_group(SyncGroupResponse))


@guards(68)
async def consumer_group_heartbeat(access: Access, request: Request, serve: Serve) -> Any:
    """ConsumerGroupHeartbeat: Read on the group, and Describe on the topics it subscribes to by name."""
    topics = request.message.subscribed_topic_names or ()
    return await guard_heartbeat(access, request, serve, topics, ConsumerGroupHeartbeatResponse)


@guards(10)
async def find_coordinator(access: Access, request: Request, serve: Serve) -> Any:
    """FindCoordinator: Describe on the group or the transactional id, ClusterAction for a share partition."""
    message: FindCoordinatorRequest = request.message
    transactional = message.key_type == TRANSACTION_KEYS
    kind = ResourceType.TRANSACTIONAL_ID if transactional else GROUP
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if transactional else FORBIDDEN
    described: Callable[[str], bool] = on(access, DESCRIBE, kind)
    if message.key_type == SHARE_KEYS:
        code, described = (
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            lambda key: access.allows_on_cluster(AclOperation.CLUSTER_ACTION),
        )
    if request.api_version < 4:
        if described(message.key):
            return await serve()
        return FindCoordinatorResponse(error_code=code, error_message=code.sentence, node_id=-1, port=-1)
    message.coordinator_keys, gone = await divided(access, request, message.coordinator_keys, described)
    answer = await serve() if message.coordinator_keys or not gone else FindCoordinatorResponse()
    answer.coordinators += [
        Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=code.sentence) for key in gone
    ]
    return answer


@guards(15)
async def describe_groups(access: Access, request: Request, serve: Serve) -> Any:
    """DescribeGroups: Describe on each group."""
    message: DescribeGroupsRequest = request.message
    message.groups, gone = await divided(access, request, message.groups, on(access, DESCRIBE, GROUP))
    answer: DescribeGroupsResponse = await serve()
    if message.include_authorized_operations:
        for group in answer.groups:
            if not group.error_code:
                group.authorized_operations = access.operations(GROUP, group.group_id)
    answer.groups += [
        DescribedGroup(group_id=group_id, error_code=FORBIDDEN, error_message=FORBIDDEN.sentence) for group_id in gone
    ]
    return answer


@guards(69)
async def consumer_group_describe(access: Access, request: Request, serve: Serve) -> Any:
    """ConsumerGroupDescribe: Describe on each group, and on the topics that its members have."""
    return await guard_description(access, request, serve, _topics_of, DescribedConsumerGroup)


def _topics_of(group: DescribedConsumerGroup) -> set[str]:
    return {
        topic.topic_name
        for member in group.members
        for assigned in (member.assignment, member.target_assignment)
        for topic in assigned.topic_partitions
    }


@guards(16)
async def list_groups(access: Access, request: Request, serve: Serve) -> Any:
    """ListGroups: Describe on the cluster, or only the groups with Describe on them are listed."""
    answer: ListGroupsResponse = await serve()
    if not access.may(DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        listed = access.context.time_slice(request).over(answer.groups)
        answer.groups = [each async for each in listed if access.may(DESCRIBE, GROUP, each.group_id)]
    return answer


@guards(42)
async def delete_groups(access: Access, request: Request, serve: Serve) -> Any:
    """DeleteGroups: Delete on each group."""
    message: DeleteGroupsRequest = request.message
    message.groups_names, gone = await divided(access, request, message.groups_names, on(access, DELETE, GROUP))
    answer: DeleteGroupsResponse = await serve()
    answer.results += [DeletableGroupResult(group_id=group_id, error_code=FORBIDDEN) for group_id in gone]
    return answer


@guards(8)
async def offset_commit(access: Access, request: Request, serve: Serve) -> Any:
    """OffsetCommit: Read on the group, and on each topic."""
    message: OffsetCommitRequest = request.message

    def refused(topic: Any, code: ErrorCode) -> OffsetCommitResponseTopic:
        return OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                PartitionErrorCode(partition_index=each.partition_index, error_code=code) for each in topic.partitions
            ],
        )

    if not access.allows(READ, GROUP, message.group_id):
        return OffsetCommitResponse(topics=[refused(topic, FORBIDDEN) for topic in message.topics])

    def allowed(topic: Any) -> bool:
        name = access.topic_name(topic.name, topic.topic_id)
        return name is None or access.allows(READ, TOPIC, name)

    message.topics, gone = await divided(access, request, message.topics, allowed)
    answer = await serve() if message.topics or not gone else OffsetCommitResponse(topics=[])
    answer.topics += [refused(topic, TOPIC_FORBIDDEN) for topic in gone]
    return answer


@guards(9)
async def offset_fetch(access: Access, request: Request, serve: Serve) -> Any:
    """OffsetFetch: Describe on each group and topic; where all offsets are asked for, the others are left out."""
    message: OffsetFetchRequest = request.message
    described = on(access, DESCRIBE, GROUP)
    if request.api_version < _FIRST_WITH_GROUPS:
        topics = message.topics
        if not described(message.group_id):
            if request.api_version >= _FIRST_WITH_ERROR:
                return OffsetFetchResponse(error_code=FORBIDDEN)
            time_slice = access.context.time_slice(request)
            return OffsetFetchResponse(
                topics=[await _unfetched(topic, FORBIDDEN, time_slice) for topic in topics or ()]
            )
        if topics is None:
            answer: OffsetFetchResponse = await serve()
            answer.topics = [each for each in answer.topics if access.may(DESCRIBE, TOPIC, each.name)]
            return answer
        kept, gone = await divided(access, request, topics, lambda topic: access.allows(DESCRIBE, TOPIC, topic.name))
        message.topics = kept
        answer = await serve()
        time_slice = access.context.time_slice(request)
        answer.topics += [await _unfetched(topic, TOPIC_FORBIDDEN, time_slice) for topic in gone]
        return answer
    message.groups, refused = await divided(access, request, message.groups, lambda each: described(each.group_id))
    gone_of: dict[str, list[OffsetFetchResponseTopics]] = {}
    whole: set[str] = set()
    time_slice = access.context.time_slice(request)
    async for group in time_slice.over(message.groups):
        if group.topics is None:
            whole.add(group.group_id)
        else:
            gone_of[group.group_id] = await _take_out(access, request, group)
    answer = await serve()
    async for found in time_slice.over(answer.groups):
        if found.group_id in whole:
            found.topics = [each for each in found.topics if access.may(DESCRIBE, TOPIC, each.name)]
        elif not found.error_code:
            found.topics += gone_of.get(found.group_id, ())
    answer.groups += [
        OffsetFetchResponseGroup(group_id=each.group_id, topics=[], error_code=FORBIDDEN) for each in refused
    ]
    return answer


async def _take_out(
    access: Access, request: Request, group: OffsetFetchRequestGroup
) -> list[OffsetFetchResponseTopics]:
    """Take the topics that it may not describe out of a request for a group; returns their results."""

    def allowed(topic: Any) -> bool:
        name = access.topic_name(topic.name, topic.topic_id)
        return name is None or access.allows(DESCRIBE, TOPIC, name)

    group.topics, gone = await divided(access, request, group.topics or [], allowed)
    time_slice = access.context.time_slice(request)
    return [await failed(topic, TOPIC_FORBIDDEN, time_slice) for topic in gone]


async def _unfetched(topic: Any, code: ErrorCode, time_slice: TimeSlice) -> OffsetFetchResponseTopic:
    partitions = await failed_partitions(topic.partition_indexes, code, time_slice)
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)


@guards(47)
async def offset_delete(access: Access, request: Request, serve: Serve) -> Any:
    """OffsetDelete: Delete on the group, and Read on each topic."""
    message: OffsetDeleteRequest = request.message
    if not access.allows(DELETE, GROUP, message.group_id):
        return OffsetDeleteResponse(error_code=FORBIDDEN)
    message.topics, gone = await divided(
        access, request, message.topics, lambda topic: access.allows(READ, TOPIC, topic.name)
    )
    answer: OffsetDeleteResponse = await serve()
    if not answer.error_code:
        answer.topics += [
            TopicErrorCodes(
                name=topic.name,
                partitions=[
                    PartitionErrorCode(partition_index=each.partition_index, error_code=TOPIC_FORBIDDEN)
                    for each in topic.partitions
                ],
            )
            for topic in gone
        ]
    return answer
