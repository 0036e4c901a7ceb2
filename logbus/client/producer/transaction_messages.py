"""Builds requests for transaction and group coordinators, and reads the error codes of responses. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from logbus.client.group_metadata import CommittedOffset, GroupMetadata
from logbus.client.producer.idempotence import NO_PRODUCER, ProducerId
from logbus.errors import ErrorCode
from logbus.model import TopicPartition, numbers_by_topic
from logbus.wire.messages.partitions import NamedTopicPartitions
from logbus.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)


def init_producer_id(transactional_id: str, timeout: float, known: ProducerId | None) -> InitProducerIdRequest:
    """
    InitProducerId: gets the next epoch.

    :param timeout: seconds a transaction may take.
    :param known: the producer id so far.
    """
    producer_id, epoch = known or NO_PRODUCER
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=int(timeout * 1000),
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def add_partitions(
    transactional_id: str, producer: ProducerId, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """Version 1: AddPartitionsToTxn."""
    topics = numbers_by_topic(partitions)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[NamedTopicPartitions(name=name, partitions=each) for name, each in topics.items()],
    )


def add_group(transactional_id: str, producer: ProducerId, group_id: str) -> AddOffsetsToTxnRequest:
    """Version 1: AddOffsetsToTxn."""
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=group_id,
    )


def commit_offsets(
    transactional_id: str,
    producer: ProducerId,
    offsets: Mapping[TopicPartition, int | CommittedOffset],
    group: GroupMetadata,
) -> TxnOffsetCommitRequest:
    """TxnOffsetCommit for a group's offsets."""
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (name, index), place in offsets.items():
        committed = CommittedOffset(place) if isinstance(place, int) else place
        topics.setdefault(name, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        generation_id=group.generation,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
    )


def end_transaction(transactional_id: str, producer: ProducerId, *, commit: bool) -> EndTxnRequest:
    """EndTxn."""
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=commit,
    )


def error_code_of(answer: Any) -> int:
    """The error code of a response that has one for the whole."""
    return int(answer.error_code)


def _worst(codes: list[int]) -> int:
    """The error code that decides: a lasting one before a retriable one."""
    errors = [code for code in codes if code]
    lasting = [code for code in errors if not any(each == code and each.retriable for each in ErrorCode)]
    return (lasting or errors or [0])[0]


def worst_of_partitions(answer: AddPartitionsToTxnResponse) -> int:
    """The error code that decides the outcome of AddPartitionsToTxn."""
    topics = answer.results_by_topic_v3_and_below
    codes = [each.partition_error_code for topic in topics for each in topic.results_by_partition]
    return _worst([code for code in codes if code != ErrorCode.OPERATION_NOT_ATTEMPTED] or codes)


def worst_of_offsets(answer: TxnOffsetCommitResponse) -> int:
    """The error code that decides the outcome of TxnOffsetCommit."""
    return _worst([each.error_code for topic in answer.topics for each in topic.partitions])
