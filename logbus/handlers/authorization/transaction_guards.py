"""Guards of producers and transactions (Kafka: KafkaApis)."""

from __future__ import annotations

from typing import Any

from logbus.errors import ErrorCode
from logbus.handlers.authorization.access import Access
from logbus.handlers.authorization.guard import Serve, divided, guards, needs, on
from logbus.handlers.authorization.named_topics import FORBIDDEN as TOPIC_FORBIDDEN
from logbus.handlers.authorization.named_topics import topics_need
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.wire.connection import Request
from logbus.wire.messages.partitions import PartitionErrorCode, TopicErrorCodes
from logbus.wire.messages.transaction_admin import (
    DescribedTransactionState,
    DescribeProducersPartitionResponse,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsResponse,
)
from logbus.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WritableTxnMarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
FORBIDDEN = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

_FIRST_OF_BROKERS = 4
"""The first version of AddPartitionsToTxn that brokers send to one another (KIP-890)."""


@guards(22)
async def init_producer_id(access: Access, request: Request, serve: Serve) -> Any:
    """
    InitProducerId: Write on the transactional id; without one IdempotentWrite on the cluster, or Write on some topic
    (KIP-679).
    """
    message: InitProducerIdRequest = request.message
    if message.transactional_id is not None:
        if access.allows(WRITE, TRANSACTIONAL_ID, message.transactional_id):
            return await serve()
        return InitProducerIdResponse(error_code=FORBIDDEN)
    if access.may_on_some(WRITE, TOPIC) or access.allows_on_cluster(AclOperation.IDEMPOTENT_WRITE):
        return await serve()
    return InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


@guards(24)
async def add_partitions_to_txn(access: Access, request: Request, serve: Serve) -> Any:
    """AddPartitionsToTxn: Write on the transactional id and on each topic, else none is added; or ClusterAction."""
    message: AddPartitionsToTxnRequest = request.message
    if request.api_version >= _FIRST_OF_BROKERS:
        if access.context.broker is not None or access.allows_on_cluster(AclOperation.CLUSTER_ACTION):
            return await serve()
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = message.v3_and_below_topics
    if access.allows(WRITE, TRANSACTIONAL_ID, message.v3_and_below_transactional_id):
        _, gone = await divided(access, request, topics, lambda topic: access.allows(WRITE, TOPIC, topic.name))
        if not gone:
            return await serve()
        refused = {topic.name for topic in gone}
        codes = [TOPIC_FORBIDDEN if topic.name in refused else ErrorCode.OPERATION_NOT_ATTEMPTED for topic in topics]
    else:
        codes = [FORBIDDEN] * len(topics)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
                    for number in topic.partitions
                ],
            )
            for topic, code in zip(topics, codes, strict=True)
        ]
    )


@guards(25)
async def add_offsets_to_txn(access: Access, request: Request, serve: Serve) -> Any:
    """AddOffsetsToTxn: Write on the transactional id, and Read on the group."""
    message: AddOffsetsToTxnRequest = request.message
    if not access.allows(WRITE, TRANSACTIONAL_ID, message.transactional_id):
        return AddOffsetsToTxnResponse(error_code=FORBIDDEN)
    if not access.allows(READ, ResourceType.GROUP, message.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return await serve()


end_txn = guards(26)(
    needs(
        WRITE,
        TRANSACTIONAL_ID,
        lambda message, code: EndTxnResponse(error_code=code),
        lambda message: str(message.transactional_id),
        FORBIDDEN,
    )
)


@guards(28)
async def txn_offset_commit(access: Access, request: Request, serve: Serve) -> Any:
    """TxnOffsetCommit: Write on the transactional id, and Read on the group and on each topic."""
    message: TxnOffsetCommitRequest = request.message
    if not access.allows(WRITE, TRANSACTIONAL_ID, message.transactional_id):
        return TxnOffsetCommitResponse(topics=[_codes(topic, FORBIDDEN) for topic in message.topics])
    if not access.allows(READ, ResourceType.GROUP, message.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return TxnOffsetCommitResponse(topics=[_codes(topic, code) for topic in message.topics])
    message.topics, gone = await divided(
        access, request, message.topics, lambda topic: access.allows(READ, TOPIC, topic.name)
    )
    answer = await serve() if message.topics or not gone else TxnOffsetCommitResponse(topics=[])
    answer.topics += [_codes(topic, TOPIC_FORBIDDEN) for topic in gone]
    return answer


def _codes(topic: Any, code: ErrorCode) -> TopicErrorCodes:
    return TopicErrorCodes(
        name=topic.name,
        partitions=[
            PartitionErrorCode(partition_index=each.partition_index, error_code=code) for each in topic.partitions
        ],
    )


@guards(27)
async def write_txn_markers(access: Access, request: Request, serve: Serve) -> Any:
    """WriteTxnMarkers: for brokers; a client needs ClusterAction, or Alter on the cluster to end what hangs."""
    message: WriteTxnMarkersRequest = request.message
    if (
        access.context.broker is not None
        or access.may(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster")
        or access.allows_on_cluster(AclOperation.ALTER)
    ):
        return await serve()
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    TopicErrorCodes(
                        name=topic.name,
                        partitions=[
                            PartitionErrorCode(
                                partition_index=number, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                            )
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            async for marker in access.context.time_slice(request).over(message.markers)
        ]
    )


describe_producers = guards(61)(
    topics_need(
        READ,
        DescribeProducersResponse,
        lambda topic: DescribeProducersTopicResponse(
            name=topic.name,
            partitions=[
                DescribeProducersPartitionResponse(
                    partition_index=number,
                    error_code=TOPIC_FORBIDDEN,
                    error_message=TOPIC_FORBIDDEN.sentence,
                    active_producers=[],
                )
                for number in topic.partition_indexes
            ],
        ),
    )
)


@guards(65)
async def describe_transactions(access: Access, request: Request, serve: Serve) -> Any:
    """DescribeTransactions: Describe on each transactional id; topics that it may not describe are left out."""
    message: DescribeTransactionsRequest = request.message
    if access.context.broker is not None:
        return await serve()
    message.transactional_ids, gone = await divided(
        access, request, message.transactional_ids, on(access, DESCRIBE, TRANSACTIONAL_ID)
    )
    answer: DescribeTransactionsResponse = await serve()
    for state in answer.transaction_states:
        state.topics = [topic for topic in state.topics if access.may(DESCRIBE, TOPIC, topic.topic)]
    answer.transaction_states += [
        DescribedTransactionState(
            error_code=FORBIDDEN,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=-1,
            producer_id=-1,
            producer_epoch=-1,
            topics=[],
        )
        for transactional_id in gone
    ]
    return answer


@guards(66)
async def list_transactions(access: Access, request: Request, serve: Serve) -> Any:
    """ListTransactions: only those with Describe on the transactional id are listed."""
    answer: ListTransactionsResponse = await serve()
    if access.context.broker is None:
        listed = access.context.time_slice(request).over(answer.transaction_states)
        answer.transaction_states = [
            each async for each in listed if access.may(DESCRIBE, TRANSACTIONAL_ID, each.transactional_id)
        ]
    return answer
