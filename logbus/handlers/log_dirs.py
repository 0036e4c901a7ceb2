"""
Where this broker's logs are, and how large: DescribeLogDirs.

Kafka's tools ask it of every broker, ``kafka-reassign-partitions`` before it moves anything.
"""

from __future__ import annotations

from collections.abc import Collection

from attrs import define

from logbus.cluster.replicas import Replicas
from logbus.errors import ErrorCode
from logbus.handlers.routing import serves
from logbus.model import TopicPartition
from logbus.net.context import RequestContext
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
    def describe_log_dirs(self, context: RequestContext, request: Request) -> DescribeLogDirsResponse:
        message: DescribeLogDirsRequest = request.message
        wanted = None
        if message.topics is not None:
            wanted = {TopicPartition(each.topic, number) for each in message.topics for number in each.partitions}
        return DescribeLogDirsResponse(
            results=[self._directory(directory, wanted) for directory in self._replicas.logs.directories]
        )

    def _directory(self, directory: LogDirectory, wanted: Collection[TopicPartition] | None) -> DescribeLogDirsResult:
        result = DescribeLogDirsResult(log_dir=directory.disk.root)
        if not directory.is_online:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return result
        space = self._replicas.logs.space.space_of(directory)
        if space is not None:
            result.total_bytes, result.usable_bytes = space.total_bytes, space.usable_bytes
        topics: dict[str, DescribeLogDirsTopic] = {}
        for name, log in directory.logs.items():
            if wanted is None or name in wanted:
                topic = topics.setdefault(name.topic, DescribeLogDirsTopic(name=name.topic))
                lag = max(0, self._replicas.high_watermark_of(log) - log.log_end_offset)
                topic.partitions.append(
                    DescribeLogDirsPartition(partition_index=name.partition, partition_size=log.size, offset_lag=lag)
                )
        result.topics = list(topics.values())
        return result
