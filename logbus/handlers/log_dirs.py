"""
DescribeLogDirs, AlterReplicaLogDirs: this broker's log directories.

Kafka's tools send DescribeLogDirs to every broker; ``kafka-reassign-partitions`` does so before it moves replicas.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Self

from attrs import define

from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import serves, task
from logbus.model import TopicPartition
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import TimeSlice
from logbus.storage.log_directory import LogDirectory
from logbus.wire.connection import Request
from logbus.wire.messages.log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from logbus.wire.messages.partitions import PartitionErrorCode

PARTITIONS_AT_A_TIME = 100
"""Partitions of a request that are looked at between two looks at the time slice."""


@define(eq=False)
class LogDirHandlers:
    """Describes log directories, and moves logs between them."""

    _replicas: ReplicaManager

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.replicas)

    @serves(35, 0, 5)
    @task
    async def describe_log_dirs(self, context: RequestContext, request: Request) -> DescribeLogDirsResponse:
        message: DescribeLogDirsRequest = request.message
        time_slice = context.time_slice(request)
        wanted: set[TopicPartition] | None = None
        if message.topics is not None:
            wanted = set()
            async for each in time_slice.over(message.topics):
                async for numbers in time_slice.over_parts(each.partitions, PARTITIONS_AT_A_TIME):
                    wanted.update(TopicPartition(each.topic, number) for number in numbers)
        return DescribeLogDirsResponse(
            results=[
                await self._directory(directory, wanted, time_slice) for directory in self._replicas.logs.directories
            ]
        )

    async def _directory(
        self, directory: LogDirectory, wanted: Collection[TopicPartition] | None, time_slice: TimeSlice
    ) -> DescribeLogDirsResult:
        result = DescribeLogDirsResult(log_dir=directory.disk.root)
        if not directory.is_online:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return result
        space = self._replicas.logs.space.space_of(directory)
        if space is not None:
            result.total_bytes, result.usable_bytes = space.total_bytes, space.usable_bytes
        topics: dict[str, DescribeLogDirsTopic] = {}
        async for name, log in time_slice.over(list(directory.logs.items()), 2):
            if wanted is None or name in wanted:
                topic = topics.setdefault(name.topic, DescribeLogDirsTopic(name=name.topic))
                lag = max(0, self._replicas.high_watermark_of(log) - log.log_end_offset)
                topic.partitions.append(
                    DescribeLogDirsPartition(partition_index=name.partition, partition_size=log.size, offset_lag=lag)
                )
        for name, move in self._replicas.logs.mover.moves.items():
            if move.destination is directory and (wanted is None or name in wanted):
                topic = topics.setdefault(name.topic, DescribeLogDirsTopic(name=name.topic))
                topic.partitions.append(
                    DescribeLogDirsPartition(
                        partition_index=name.partition,
                        partition_size=0 if move.future is None else move.future.size,
                        offset_lag=move.offset_lag,
                        is_future_key=True,
                    )
                )
        result.topics = list(topics.values())
        return result

    @serves(34, 1, 2)
    @task
    async def alter_replica_log_dirs(self, context: RequestContext, request: Request) -> AlterReplicaLogDirsResponse:
        message: AlterReplicaLogDirsRequest = request.message
        time_slice = context.time_slice(request)
        topics: dict[str, AlterReplicaLogDirTopicResult] = {}
        for wanted in message.dirs:
            for topic in wanted.topics:
                result = topics.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name))
                for number in topic.partitions:
                    answer = PartitionErrorCode(partition_index=number)
                    result.partitions.append(answer)
                    try:
                        self._move(TopicPartition(topic.name, number), wanted.path)
                    except (ApiError, StorageError) as error:
                        answer.error_code = error.code if isinstance(error, ApiError) else ErrorCode.KAFKA_STORAGE_ERROR
                    if time_slice.used():
                        await time_slice.next()
        return AlterReplicaLogDirsResponse(results=list(topics.values()))

    def _move(self, partition: TopicPartition, path: str) -> None:
        mover = self._replicas.logs.mover
        directory = mover.directory_at(path)
        try:
            self._replicas.get(*partition)
        except ApiError as error:
            if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise
            # It may be assigned to this broker later, by the same tool.
            mover.prefer(partition, directory)
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{partition} is not on this broker yet") from None
        mover.move(partition, directory)
