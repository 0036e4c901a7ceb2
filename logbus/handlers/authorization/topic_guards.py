"""Guards of topics, their metadata and their records (Kafka: KafkaApis, DescribeTopicPartitionsRequestHandler)."""

from __future__ import annotations

from typing import Any

from logbus.errors import ErrorCode
from logbus.handlers.authorization.access import Access
from logbus.handlers.authorization.guard import Serve, divided, guards, on
from logbus.handlers.authorization.named_topics import FORBIDDEN, topics_need
from logbus.security.acl.acls import CLUSTER_NAME, AclOperation, ResourceType
from logbus.wire.codegen import ELEMENTS_PER_STEP
from logbus.wire.connection import Request
from logbus.wire.element_budget import RESPONSE_ELEMENTS, element_budget
from logbus.wire.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
    TopicRequest,
)
from logbus.wire.messages.records import (
    EpochEndOffset,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from logbus.wire.messages.topics import (
    CreatableTopicResult,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from logbus.wire.schema import incremental_decoder
from logbus.wire.wire_types import ZERO_UUID

TOPIC = ResourceType.TOPIC

UNITS_FOR_OPERATIONS = 4
"""Cost of asking for all operations on a topic, in units of a time slice."""

list_offsets = guards(2)(
    topics_need(
        AclOperation.DESCRIBE,
        ListOffsetsResponse,
        lambda topic: ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=FORBIDDEN)
                for each in topic.partitions
            ],
        ),
    )
)

_offset_for_leader_epoch = topics_need(
    AclOperation.DESCRIBE,
    OffsetForLeaderEpochResponse,
    lambda topic: OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[EpochEndOffset(partition=each.partition, error_code=FORBIDDEN) for each in topic.partitions],
    ),
    name="topic",
)


@guards(23)
async def offset_for_leader_epoch(access: Access, request: Request, serve: Serve) -> Any:
    """OffsetForLeaderEpoch: brokers for all topics, clients for those that they may describe."""
    if access.context.broker is not None:
        return await serve()
    return await _offset_for_leader_epoch(access, request, serve)


delete_records = guards(21)(
    topics_need(
        AclOperation.DELETE,
        DeleteRecordsResponse,
        lambda topic: DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                DeleteRecordsPartitionResult(
                    partition_index=each.partition_index, low_watermark=-1, error_code=FORBIDDEN
                )
                for each in topic.partitions
            ],
        ),
    )
)

create_partitions = guards(37)(
    topics_need(
        AclOperation.ALTER,
        CreatePartitionsResponse,
        lambda topic: CreatePartitionsTopicResult(
            name=topic.name, error_code=FORBIDDEN, error_message=FORBIDDEN.sentence
        ),
        results="results",
    )
)

_create_topics = topics_need(
    AclOperation.CREATE,
    CreateTopicsResponse,
    lambda topic: CreatableTopicResult(name=topic.name, error_code=FORBIDDEN, error_message=FORBIDDEN.sentence),
)


@guards(19)
async def create_topics(access: Access, request: Request, serve: Serve) -> Any:
    """
    CreateTopics: Create on the cluster, or on each topic. Who may not describe a topic's settings does not get them
    (KIP-525).
    """
    if access.may(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
        for topic in request.message.topics:
            access.note_allowed(AclOperation.CREATE, TOPIC, topic.name)
        answer = await serve()
    else:
        answer = await _create_topics(access, request, serve)
    for topic in answer.topics:
        if not topic.error_code and not access.may(AclOperation.DESCRIBE_CONFIGS, TOPIC, topic.name):
            topic.topic_config_error_code = FORBIDDEN
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = None
    return answer


@guards(20)
async def delete_topics(access: Access, request: Request, serve: Serve) -> Any:
    """DeleteTopics: Delete on each topic. The name of a topic given by id is told to who may describe it."""
    message: DeleteTopicsRequest = request.message
    refused: list[DeletableTopicResult] = []
    allowed = on(access, AclOperation.DELETE, TOPIC)

    def may_go(state: DeleteTopicState) -> bool:
        name = access.topic_name(state.name, state.topic_id)
        if name is None or allowed(name):
            return True
        told = state.name if state.topic_id == ZERO_UUID or not access.may(AclOperation.DESCRIBE, TOPIC, name) else name
        refused.append(
            DeletableTopicResult(
                name=told, topic_id=state.topic_id, error_code=FORBIDDEN, error_message=FORBIDDEN.sentence
            )
        )
        return False

    message.topics, _ = await divided(access, request, message.topics, may_go)
    named = [DeleteTopicState(name=name) for name in message.topic_names]
    message.topic_names = [each.name or "" for each in (await divided(access, request, named, may_go))[0]]
    if refused and not (message.topics or message.topic_names):
        return DeleteTopicsResponse(responses=refused)
    answer: DeleteTopicsResponse = await serve()
    answer.responses += refused
    return answer


@guards(3)
async def metadata(access: Access, request: Request, serve: Serve) -> Any:
    """
    Metadata: Describe on each topic; those that it may not describe are not listed, and what it names looks the same
    whether it exists or not. A topic is created for who may create it (Create on the topic or the cluster).
    """
    message: MetadataRequest = request.message
    wanted, version = message.topics, request.api_version
    described = on(access, AclOperation.DESCRIBE, TOPIC)
    refused: list[MetadataResponseTopic] = []
    if wanted is None or (version == 0 and not wanted):
        known = list(access.authorization.metadata.topics)
        visible = [name async for name in access.context.time_slice(request).over(known) if _is_visible(access, name)]
        nothing = not visible
        if len(visible) < len(known):
            message.topics = [MetadataRequestTopic(name=name) for name in visible]
            message.allow_auto_topic_creation = False
    else:

        def allowed(topic: MetadataRequestTopic) -> bool:
            name = access.topic_name(topic.name, topic.topic_id)
            if name is None:
                return True
            if described(name) and not (message.allow_auto_topic_creation and _may_not_create(access, name)):
                return True
            by_name = topic.topic_id == ZERO_UUID
            refused.append(
                MetadataResponseTopic(
                    error_code=FORBIDDEN if by_name else ErrorCode.UNKNOWN_TOPIC_ID,
                    name=name if by_name else None if version >= 12 else "",
                    topic_id=topic.topic_id,
                    partitions=[],
                )
            )
            return False

        message.topics, _ = await divided(access, request, wanted, allowed)
        nothing = not message.topics
    answer = await serve()
    operations = message.include_topic_authorized_operations, message.include_cluster_authorized_operations
    if not (refused or nothing or any(operations)):
        return answer
    time_slice = access.context.time_slice(request)
    if isinstance(answer, bytes):
        steps = incremental_decoder(MetadataResponse, version)(
            answer, 0, element_budget(len(answer), RESPONSE_ELEMENTS)
        )
        answer = (await time_slice.finish(steps, ELEMENTS_PER_STEP))[0]
    if nothing:
        answer.topics = []
    if operations[0]:
        async for topic in time_slice.over(answer.topics, UNITS_FOR_OPERATIONS):
            if not topic.error_code:
                topic.topic_authorized_operations = access.operations(TOPIC, topic.name or "")
    if operations[1]:
        answer.cluster_authorized_operations = access.operations(ResourceType.CLUSTER, CLUSTER_NAME)
    answer.topics += refused
    return answer


def _is_visible(access: Access, name: str) -> bool:
    return access.may(AclOperation.DESCRIBE, TOPIC, name)


def _may_not_create(access: Access, name: str) -> bool:
    """Whether a topic would be created for a request that may not do so."""
    authorization = access.authorization
    return (
        authorization.auto_create()
        and authorization.metadata.topic(name) is None
        and not access.may(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
        and not access.allows(AclOperation.CREATE, TOPIC, name)
    )


@guards(75)
async def describe_topic_partitions(access: Access, request: Request, serve: Serve) -> Any:
    """DescribeTopicPartitions: Describe on each topic; those that it may not describe are not listed."""
    message: DescribeTopicPartitionsRequest = request.message
    gone: list[TopicRequest] = []
    if message.topics:
        described = on(access, AclOperation.DESCRIBE, TOPIC)
        message.topics, gone = await divided(access, request, message.topics, lambda topic: described(topic.name))
    else:
        known = sorted(access.authorization.metadata.topics)
        visible = [name async for name in access.context.time_slice(request).over(known) if _is_visible(access, name)]
        message.topics = [TopicRequest(name=name) for name in visible]
        cursor = message.cursor
        if cursor is not None and cursor.topic_name not in visible:
            # The topic of the page before is gone, or may not be seen any more: the next one follows.
            following = next((name for name in visible if name > cursor.topic_name), None)
            message.cursor = None if following is None else Cursor(topic_name=following, partition_index=0)
            if following is None:
                message.topics = []
    answer = DescribeTopicPartitionsResponse(topics=[]) if not message.topics else await serve()
    async for topic in access.context.time_slice(request).over(answer.topics, UNITS_FOR_OPERATIONS):
        if not topic.error_code:
            topic.topic_authorized_operations = access.operations(TOPIC, topic.name or "")
    answer.topics += [
        DescribeTopicPartitionsResponseTopic(error_code=FORBIDDEN, name=topic.name, partitions=[]) for topic in gone
    ]
    return answer
