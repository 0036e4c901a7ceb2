"""Builds requests for transaction and group coordinators, and reads the error codes of responses. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from logbus.client.group_metadata import CommittedOffset, GroupMetadata
from logbus.client.producer.idempotence import ProducerId
from logbus.errors import ErrorCode
from logbus.model import TopicPartition
from logbus.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)


def add_partitions(
    transactional_id: str, producer: ProducerId, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """Version 1: AddPartitionsToTxn."""
    topics: dict[str, list[int]] = {}
    for name, index in partitions:
        topics.setdefault(name, []).append(index)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in topics.items()],
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
