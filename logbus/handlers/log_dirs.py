"""
Where this broker's logs are, and how large: DescribeLogDirs.

Kafka's tools ask it of every broker, ``kafka-reassign-partitions`` before it moves anything.
"""

from __future__ import annotations

from collections.abc import Collection

from attrs import define

from logbus.cluster.replicas import Replicas
from logbus.errors import ErrorCode
from logbus.handlers.routing import serves, task
from logbus.model import TopicPartition
from logbus.net.context import RequestContext
from logbus.net.time_slices import TimeSlice
from logbus.storage.directory import LogDirectory
from logbus.wire.connection import Request
from logbus.wire.messages.log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


@define(eq=False)
class LogDirHandlers:
    """Serves what operators want to know of log directories."""

    _replicas: Replicas

    @serves(35, 0, 5)
    @task
    async def describe_log_dirs(self, context: RequestContext, request: Request) -> DescribeLogDirsResponse:
        message: DescribeLogDirsRequest = request.message
        time_slice = context.time_slice(request)
        wanted: set[TopicPartition] | None = None
        if message.topics is not None:
            wanted = set()
            async for each in time_slice.over(message.topics):
                wanted.update(TopicPartition(each.topic, number) for number in each.partitions)
                if time_slice.used(len(each.partitions)):
                    await time_slice.next()
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
        result.topics = list(topics.values())
        return result
