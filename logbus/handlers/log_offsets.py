"""
ListOffsets, OffsetForLeaderEpoch, DeleteRecords: offsets of logs by time and epoch, and the log start offset.
"""

from __future__ import annotations

from typing import Any, Self

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from logbus.cluster.controller.topic_plan import internal
from logbus.cluster.replication.record_deletion import deletion_offset
from logbus.cluster.replication.replica_manager import Replica, ReplicaManager
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import serves, task
from logbus.model import INTERNAL_TOPICS, NO_EPOCH, TimestampOffset
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import TimeSlice
from logbus.storage.log import Log
from logbus.storage.offset_lookup import UNITS_PER_STEP, max_timestamp_offset, offset_for_timestamp, offsets_before
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
EARLIEST_PENDING_UPLOAD = -6

SPECIAL = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version of each special timestamp (KIP-734, KIP-405, KIP-1005, KIP-1023)."""

READ_COMMITTED = 1
#: The first version with OFFSET_NOT_AVAILABLE (KIP-207).
NOT_AVAILABLE_VERSION = 5
NOT_FOUND = TimestampOffset(timestamp=-1, offset=-1, epoch=NO_EPOCH)


@define(eq=False)
class LogOffsetHandlers:
    """Looks up offsets, and deletes records."""

    _replicas: ReplicaManager
    _clock: IReactorTime

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.replicas, broker.reactor)

    @serves(2, 0, 11)
    @task
    async def list_offsets(self, context: RequestContext, request: Request) -> ListOffsetsResponse:
        message: ListOffsetsRequest = request.message
        time_slice = context.time_slice(request)
        follows = message.replica_id >= 0
        refused = None
        if follows and context.broker != message.replica_id:
            # A replica id is accepted only on a connection that has proved to be from that broker (CVE-2018-1288).
            refused = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "clients may not send a replica id")
        committed = message.isolation_level == READ_COMMITTED
        duplicates = await time_slice.duplicates(
            (topic.name, asked.partition_index) for topic in message.topics for asked in topic.partitions
        )
        topics = []
        for topic in message.topics:
            partitions = []
            for asked in topic.partitions:
                answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=0)
                try:
                    if refused is not None:
                        raise refused
                    if (topic.name, asked.partition_index) in duplicates:
                        raise ApiError(ErrorCode.INVALID_REQUEST, "the request names the partition twice")
                    replica = self._replicas.leader(topic.name, asked.partition_index, asked.current_leader_epoch)
                    if request.api_version == 0:
                        answer.old_style_offsets = self._offsets_before(replica, asked)
                    else:
                        self._check_timestamp(asked.timestamp, request.api_version)
                        found = await self._find(
                            replica, asked.timestamp, time_slice, committed=committed, follows=follows
                        )
                        answer.timestamp, answer.offset, answer.leader_epoch = found
                except (ApiError, StorageError) as e:
                    code = e.code if isinstance(e, ApiError) else ErrorCode.KAFKA_STORAGE_ERROR
                    if code is ErrorCode.OFFSET_NOT_AVAILABLE and request.api_version < NOT_AVAILABLE_VERSION:
                        code = ErrorCode.LEADER_NOT_AVAILABLE
                    answer.error_code = code
                partitions.append(answer)
                if time_slice.used(2):
                    await time_slice.next()
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(topics=topics)

    def _offsets_before(self, replica: Replica, asked: ListOffsetsPartition) -> list[int]:
        """Version 0 (getOffsetsBefore): base offsets of segments older than a time, newest first."""
        return offsets_before(replica.log, asked.timestamp, max(0, asked.max_num_offsets), replica.high_watermark)

    def _check_timestamp(self, timestamp: int, version: int) -> None:
        """
        :raise ApiError: UNSUPPORTED_VERSION: it is not a special timestamp of this version.
        """
        if timestamp < 0 and version < SPECIAL.get(timestamp, version + 1):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"version {version} has no special timestamp {timestamp}")

    async def _find(
        self, replica: Replica, timestamp: int, time_slice: TimeSlice, *, committed: bool, follows: bool
    ) -> TimestampOffset:
        """
        :param time_slice: the request's; a search among records may take several.
        :param follows: the request is a follower's: uncommitted records count, too.
        :raise ApiError: OFFSET_NOT_AVAILABLE: a new leader does not know yet how far former ones had committed.
        """
        log, partition = replica.log, replica.partition
        end = replica.last_stable_offset if committed else replica.high_watermark
        if follows:
            end = log.log_end_offset
        if timestamp == LATEST:
            if not follows:
                partition.check_caught_up()
            return TimestampOffset(-1, end, partition.leader_epoch)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            start = log.log_start_offset if timestamp == EARLIEST else log.local_start_offset
            # Of an empty log it is the epoch of the record to come, as Kafka has it.
            epoch = partition.leader_epoch if start == log.log_end_offset else log.epoch_at(start)
            return TimestampOffset(-1, start, epoch)
        if timestamp == MAX_TIMESTAMP:
            found = await time_slice.finish(max_timestamp_offset(log), UNITS_PER_STEP)
        elif timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return _tiered_offset(log, timestamp)
        else:
            found = await time_slice.finish(offset_for_timestamp(log, timestamp), UNITS_PER_STEP)
        if found is not None and found.offset < end:
            return found
        if found is not None:
            partition.check_caught_up()
        return NOT_FOUND

    @serves(23, 2, 4)
    @task
    async def offset_for_leader_epoch(self, context: RequestContext, request: Request) -> OffsetForLeaderEpochResponse:
        message: OffsetForLeaderEpochRequest = request.message
        time_slice = context.time_slice(request)
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
                if time_slice.used(2):
                    await time_slice.next()
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
        return OffsetForLeaderEpochResponse(topics=topics)

    @serves(21, 0, 2)
    @task
    async def delete_records(self, context: RequestContext, request: Request) -> DeleteRecordsResponse:
        message: DeleteRecordsRequest = request.message
        time_slice = context.time_slice(request)
        deadline = self._clock.seconds() + max(message.timeout_ms, 0) / 1000
        topics = []
        deleting: list[tuple[DeleteRecordsPartitionResult, Replica, Deferred[None]]] = []
        for topic in message.topics:
            partitions = []
            for asked in topic.partitions:
                answer = DeleteRecordsPartitionResult(
                    partition_index=asked.partition_index, low_watermark=-1, error_code=0
                )
                try:
                    if topic.name in INTERNAL_TOPICS:
                        raise internal(topic.name, "loses no records on request")
                    replica = self._replicas.leader(topic.name, asked.partition_index)
                    if context.terms.validate_only:
                        offset = deletion_offset(replica.partition, asked.offset, replica.log.config)
                        answer.low_watermark = max(replica.low_watermark, offset)
                    else:
                        # All of them share the writes of the start offsets.
                        asking = self._replicas.delete_records(topic.name, asked.partition_index, asked.offset)
                        over = Deferred.fromCoroutine(asking).addCallbacks(
                            lambda _: None, _refused, errbackArgs=(answer,)
                        )
                        deleting.append((answer, replica, over))
                except (ApiError, StorageError) as e:
                    answer.error_code = _error_code(e)
                partitions.append(answer)
                if time_slice.used(4):
                    await time_slice.next()
            topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
        waiting: list[tuple[DeleteRecordsPartitionResult, Replica, Deferred[None]]] = []
        for answer, replica, over in deleting:
            if time_slice.used(1):
                await time_slice.next()
            await over
            if answer.error_code:
                continue
            if (deleted := replica.deleted()) is not None:
                waiting.append((answer, replica, deleted))
            else:
                answer.low_watermark = replica.low_watermark
        for answer, replica, deleted in waiting:
            if time_slice.used(4):
                await time_slice.next()
            # The live followers must delete the records, too, so that none can bring them back as a leader.
            deleted.addTimeout(max(0.0, deadline - self._clock.seconds()), self._clock, onTimeoutCancel=_timed_out)
            try:
                await deleted
                answer.low_watermark = replica.low_watermark
            except ApiError as e:
                answer.error_code = e.code
        return DeleteRecordsResponse(topics=topics)


def _error_code(error: BaseException | None) -> int:
    return error.code if isinstance(error, ApiError) else ErrorCode.KAFKA_STORAGE_ERROR


def _refused(failure: Failure, answer: DeleteRecordsPartitionResult) -> None:
    failure.trap(ApiError, StorageError)
    answer.error_code = _error_code(failure.value)


def _tiered_offset(log: Log, timestamp: int) -> TimestampOffset:
    """The last offset that remote storage has, or the first that it lacks (KIP-1005, KIP-1023)."""
    if log.remote is None:
        return NOT_FOUND
    offset = max(log.remote.copied_end, log.log_start_offset)
    if timestamp == LATEST_TIERED:
        offset -= 1
        if offset < log.log_start_offset:
            return NOT_FOUND
    return TimestampOffset(-1, offset, log.epoch_at(offset))


def _timed_out(result: object, seconds: float) -> Any:
    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"not all followers had deleted the records after {seconds:g} s")
