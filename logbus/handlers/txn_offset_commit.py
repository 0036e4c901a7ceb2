"""
TxnOffsetCommit: commits a group's offsets in a producer's transaction.
"""

from __future__ import annotations

from typing import Self

from attrs import define

from logbus.config import keys
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.group_offsets import CommittedOffset
from logbus.coordination.transactions.add_partitions_to_txn_manager import RetryBackoff
from logbus.coordination.transactions.transaction_metadata import ProducerIdAndEpoch
from logbus.coordination.txn_offset_commits import TxnOffsetCommits, TxnOffsetCommitter
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.offset_commit_validator import OffsetCommitValidator
from logbus.handlers.request_router import serves, task
from logbus.model import TopicPartition
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.partitions import PartitionErrorCode, TopicErrorCodes
from logbus.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

#: Older producers take COORDINATOR_LOAD_IN_PROGRESS for a fatal error (KAFKA-7296).
LOADING_VERSION = 2
#: The first version with TRANSACTION_ABORTABLE (KIP-890).
ABORTABLE_VERSION = 4


@define(eq=False)
class TxnOffsetCommitHandlers:
    """Serves TxnOffsetCommit."""

    _coordinator: GroupCoordinator
    _commits: TxnOffsetCommits
    _rules: OffsetCommitValidator

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        config, groups = broker.config, broker.group_coordinator
        commits = TxnOffsetCommits(
            groups,
            broker.add_partitions_manager,
            lambda: config.get(keys.TRANSACTION_PARTITION_VERIFICATION_ENABLE),
            RetryBackoff.of(config),
        )
        return cls(groups, commits, OffsetCommitValidator(broker.metadata, config))

    @serves(28, 0, 5, waits_for_metadata=True)
    @task
    async def txn_offset_commit(self, context: RequestContext, request: Request) -> TxnOffsetCommitResponse:
        message: TxnOffsetCommitRequest = request.message
        now_ms = self._coordinator.wall_ms()
        wanted: dict[TopicPartition, CommittedOffset] = {}
        known: list[PartitionErrorCode] = []
        topics = []
        time_slice = context.time_slice(request)
        async for topic in time_slice.over(message.topics):
            answers = []
            async for asked in time_slice.over(topic.partitions, 2):
                partition = TopicPartition(topic.name, asked.partition_index)
                code = self._rules.problem(partition, asked.committed_metadata)
                answer = PartitionErrorCode(partition_index=asked.partition_index, error_code=code)
                answers.append(answer)
                if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    known.append(answer)
                if code == ErrorCode.NONE:
                    # If a partition is named twice, the last offset counts.
                    wanted[partition] = CommittedOffset(
                        asked.committed_offset, asked.committed_leader_epoch, asked.committed_metadata or "", now_ms
                    )
            topics.append(TopicErrorCodes(name=topic.name, partitions=answers))
        refused = ErrorCode.NONE
        try:
            if known:
                await self._commits.commit(committer(message, request.api_version, context), list(wanted.items()))
        except ApiError as e:
            refused = error_for_version(e.code, request.api_version)
        if refused:
            async for answer in time_slice.over(known):
                answer.error_code = refused
        return TxnOffsetCommitResponse(topics=topics)


def committer(
    message: TxnOffsetCommitRequest, version: int, client: RequestContext | None = None
) -> TxnOffsetCommitter:
    """
    The sender of a request.

    :raise ApiError: INVALID_GROUP_ID, INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH: a field is invalid.
    """
    if not message.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    if message.producer_id < 0:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{message.producer_id} is no producer id")
    if message.producer_epoch < 0:
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, f"{message.producer_epoch} is no producer's epoch")
    return TxnOffsetCommitter(
        message.transactional_id,
        ProducerIdAndEpoch(message.producer_id, message.producer_epoch),
        message.group_id,
        message.member_id,
        message.group_instance_id,
        message.generation_id,
        version,
        client,
    )


def error_for_version(code: ErrorCode, version: int) -> ErrorCode:
    """The error code for a version of TxnOffsetCommit."""
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_VERSION:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
