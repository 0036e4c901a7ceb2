"""
The admin client's part for log directories (KIP-113; Kafka: ``Admin.describeLogDirs`` and
``Admin.alterReplicaLogDirs``).
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from logbus.client.admin.config_admin import response_error
from logbus.client.cluster.cluster import Cluster
from logbus.client.retry import api_error
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError
from logbus.model import TopicPartition, numbers_by_topic
from logbus.wire.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from logbus.wire.messages.partitions import NamedTopicPartitions


@frozen
class ReplicaInfo:
    """
    One replica's log in a log directory.

    :ivar size: bytes.
    :ivar offset_lag: the number of offsets that it is behind: a replica the high watermark, a future log the current
        log.
    :ivar is_future: it is being copied from another directory of the broker, and will replace that log.
    """

    size: int
    offset_lag: int
    is_future: bool = False


@frozen
class LogDir:
    """
    A broker's log directory.

    :ivar error: the reason why it is offline; None: it is online.
    :ivar total_bytes: of its file system, like ``usable_bytes``; −1: not reported.
    """

    path: str
    error: ApiError | None = None
    total_bytes: int = -1
    usable_bytes: int = -1
    replicas: Mapping[TopicPartition, ReplicaInfo] = field(factory=dict)


class LogDirAdmin:
    """The part of :class:`~logbus.client.admin.admin_client.AdminClient` for log directories."""

    _cluster: Cluster

    @returns_deferred
    async def describe_log_dirs(self, broker_id: int) -> list[LogDir]:
        """
        The log directories of a broker.

        :raise ApiError: (as a failure) the broker refuses.
        """
        channel = await self._cluster.channel(broker_id)
        response: DescribeLogDirsResponse = await channel.request(DescribeLogDirsRequest(topics=None))
        if response.error_code:
            raise api_error(response.error_code, f"the log directories of broker {broker_id}", None)
        return [_log_dir(each) for each in response.results]

    @returns_deferred
    async def alter_replica_log_dirs(
        self, broker_id: int, moves: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, ApiError | None]:
        """
        Move replicas to other log directories of their broker. The result comes when the copying has started;
        :meth:`describe_log_dirs` shows its progress.

        :param moves: paths of directories on the broker.
        """
        channel = await self._cluster.channel(broker_id)
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[
                        NamedTopicPartitions(name=topic, partitions=numbers)
                        for topic, numbers in numbers_by_topic(name for name in moves if moves[name] == path).items()
                    ],
                )
                for path in dict.fromkeys(moves.values())
            ]
        )
        response: AlterReplicaLogDirsResponse = await channel.request(request)
        return {
            (name := TopicPartition(topic.topic_name, each.partition_index)): response_error(
                each.error_code, f"{name} on broker {broker_id}, {moves.get(name)}", None
            )
            for topic in response.results
            for each in topic.partitions
        }


def _log_dir(result: DescribeLogDirsResult) -> LogDir:
    return LogDir(
        result.log_dir,
        response_error(result.error_code, result.log_dir, None),
        result.total_bytes,
        result.usable_bytes,
        {
            TopicPartition(topic.name, each.partition_index): ReplicaInfo(
                each.partition_size, each.offset_lag, each.is_future_key
            )
            for topic in result.topics
            for each in topic.partitions
        },
    )
