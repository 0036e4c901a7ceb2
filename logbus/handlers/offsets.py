"""
Where things are in a log: ListOffsets, OffsetForLeaderEpoch, DeleteRecords.
"""

from __future__ import annotations

from collections import Counter

from attrs import define

from logbus.cluster.replicas import Replica, Replicas
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.handlers.routing import Answer, serves, task
from logbus.model import NO_EPOCH, TimestampOffset
from logbus.net.context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.records import (
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from logbus.wire.messages.topics import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

READ_COMMITTED = 1
NOT_FOUND = TimestampOffset(timestamp=-1, offset=-1, epoch=NO_EPOCH)


@define(eq=False)
class OffsetHandlers:
    """Serves the questions about offsets."""

    _replicas: Replicas

    @serves(2, 0, 9)
    def list_offsets(self, context: RequestContext, request: Request) -> Answer:
        message: ListOffsetsRequest = request.message
        if message.replica_id >= 0:
            # Followers ask on the inter-broker listener, not here (CVE-2018-1288).
            refused = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "clients may not send a replica id")
        else:
            refused = None
        committed = message.isolation_level == READ_COMMITTED
        times = Counter((topic.name, asked.partition_index) for topic in message.topics for asked in topic.partitions)
        topics = []
        for topic in message.topics:
            partitions = []
            for asked in topic.partitions:
                answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=0)
                try:
                    if refused is not None:
                        raise refused
                    if times[topic.name, asked.partition_index] > 1:
                        raise ApiError(ErrorCode.INVALID_REQUEST, "the request names the partition twice")
                    replica = self._replicas.leader(topic.name, asked.partition_index, asked.current_leader_epoch)
                    if request.api_version == 0:
                        answer.old_style_offsets = self._offsets_before(replica, asked)
                    else:
                        found = self._find(replica, asked.timestamp, committed=committed)
                        answer.timestamp, answer.offset, answer.leader_epoch = found
                except (ApiError, StorageError) as e:
                    answer.error_code = e.code if isinstance(e, ApiError) else ErrorCode.KAFKA_STORAGE_ERROR
                partitions.append(answer)
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(topics=topics)

    def _offsets_before(self, replica: Replica, asked: ListOffsetsPartition) -> list[int]:
        """Version 0 (getOffsetsBefore): starts of segments older than a time, newest first."""
        return replica.log.offsets_before(asked.timestamp, max(0, asked.max_num_offsets), replica.high_watermark)

    def _find(self, replica: Replica, timestamp: int, *, committed: bool) -> TimestampOffset:
        log = replica.log
        end = replica.last_stable_offset if committed else replica.high_watermark
        if timestamp == LATEST:
            return TimestampOffset(-1, end, replica.partition.leader_epoch)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            start = log.log_start_offset
            return TimestampOffset(-1, start, log.epoch_at(start))
        if timestamp == MAX_TIMESTAMP:
            found = log.max_timestamp_offset()
        elif timestamp == LATEST_TIERED:
            found = None
        elif timestamp < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no special timestamp {timestamp}")
        else:
            found = log.offset_for_timestamp(timestamp)
        return found if found is not None and found.offset < end else NOT_FOUND

    @serves(23, 2, 4)
    def offset_for_leader_epoch(self, context: RequestContext, request: Request) -> Answer:
        message: OffsetForLeaderEpochRequest = request.message
        topics = []
        for topic in message.topics:
            partitions = []
            for asked in topic.partitions:
                answer = EpochEndOffset(partition=asked.partition, error_code=0, leader_epoch=NO_EPOCH, end_offset=-1)
                try:
                    replica = self._replicas.leader(topic.topic, asked.partition, asked.current_leader_epoch)
                    answer.end_offset, answer.leader_epoch = replica.log.end_offset_for_epoch(asked.leader_epoch)
                except ApiError as e:
                    answer.error_code = e.code
                partitions.append(answer)
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
        return OffsetForLeaderEpochResponse(topics=topics)

    @serves(21, 0, 2)
    @task
    async def delete_records(self, context: RequestContext, request: Request) -> DeleteRecordsResponse:
        message: DeleteRecordsRequest = request.message
        topics = []
        for topic in message.topics:
            partitions = []
            for asked in topic.partitions:
                answer = DeleteRecordsPartitionResult(
                    partition_index=asked.partition_index, low_watermark=-1, error_code=0
                )
                try:
                    answer.low_watermark = await self._replicas.delete_records(
                        topic.name, asked.partition_index, asked.offset
                    )
                except (ApiError, StorageError) as e:
                    answer.error_code = e.code if isinstance(e, ApiError) else ErrorCode.KAFKA_STORAGE_ERROR
                partitions.append(answer)
            topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
        return DeleteRecordsResponse(topics=topics)
