"""
DescribeTopicPartitions: topics with their partitions, page by page (KIP-966).

Kafka's admin clients use it to limit the number of partitions in a response. Each page shows the present state, so
topics that are created or deleted between two pages may be missing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Self

from attrs import define, field

from logbus.cluster.cluster_metadata import ClusterMetadata, TopicImage
from logbus.config import keys
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.metadata import TOPIC_OPERATIONS
from logbus.handlers.request_router import serves, task
from logbus.model import INTERNAL_TOPICS, topic_name_problem
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import TimeSlice
from logbus.wire.connection import Request
from logbus.wire.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


@define(eq=False)
class DescribeTopicPartitionsHandlers:
    """
    Serves DescribeTopicPartitions.

    :param limit: maximum number of partitions on a page (``max.request.partition.size.limit``).
    """

    _metadata: ClusterMetadata
    _internal_topics: frozenset[str]
    _limit: Callable[[], int]
    _names: Sequence[str] = field(default=(), init=False)
    _names_version: int = field(default=-1, init=False)

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        config = broker.config
        return cls(broker.metadata, INTERNAL_TOPICS, lambda: config.get(keys.MAX_REQUEST_PARTITION_SIZE_LIMIT))

    @serves(75, 0, 0, waits_for_metadata=True)
    @task
    async def describe_topic_partitions(
        self, context: RequestContext, request: Request
    ) -> DescribeTopicPartitionsResponse:
        message: DescribeTopicPartitionsRequest = request.message
        time_slice = context.time_slice(request)
        cursor = message.cursor
        named = dict.fromkeys([topic.name async for topic in time_slice.over(message.topics)])
        if time_slice.used(len(named) // 4):
            await time_slice.next()
        asked = sorted(named)
        if time_slice.used(len(named) // 4):
            await time_slice.next()
        try:
            if cursor is not None:
                _check(cursor, asked)
        except ApiError as e:
            # The response has no error field of its own.
            return DescribeTopicPartitionsResponse(
                topics=[_failed(name, e.code) async for name in time_slice.over(asked, 2)]
            )
        names = asked or self._all()
        first = begins = 0
        if cursor is not None:
            first = bisect_left(names, cursor.topic_name)
            # The topic may have been deleted since the page before.
            if names[first : first + 1] == [cursor.topic_name]:
                begins = cursor.partition_index
        limit = max(1, min(self._limit(), message.response_partition_limit))
        return await self._page(context.listener, names, first, begins, limit, time_slice)

    async def _page(
        self, listener: str, names: Sequence[str], first: int, begins: int, limit: int, time_slice: TimeSlice
    ) -> DescribeTopicPartitionsResponse:
        """``limit`` partitions of the topics from number ``first`` on, of that one from partition ``begins`` on."""
        answer = DescribeTopicPartitionsResponse(topics=[])
        async for at in time_slice.over(range(first, len(names)), 3):
            name = names[at]
            if not limit:
                answer.next_cursor = Cursor(topic_name=name, partition_index=0)
                break
            topic = self._metadata.topic(name)
            if topic is None:
                illegal = topic_name_problem(name) is not None
                code = ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answer.topics.append(_failed(name, code))
                continue
            start = begins if at == first else 0
            end = min(start + limit, len(topic.partitions))
            answer.topics.append(self._described(topic, range(start, end), listener))
            if time_slice.used(end - start):
                await time_slice.next()
            if end < len(topic.partitions):
                answer.next_cursor = Cursor(topic_name=name, partition_index=end)
                break
            limit -= max(0, end - start)
        return answer

    def _described(self, topic: TopicImage, numbers: range, listener: str) -> DescribeTopicPartitionsResponseTopic:
        reachable = {number for number, broker in self._metadata.brokers.items() if listener in broker.endpoints}
        partitions = []
        for number in numbers:
            partition = topic.partitions[number]
            partitions.append(
                DescribeTopicPartitionsResponsePartition(
                    partition_index=number,
                    leader_id=partition.leader if partition.leader in reachable else -1,
                    leader_epoch=partition.leader_epoch,
                    replica_nodes=list(partition.replicas),
                    isr_nodes=list(partition.isr),
                    # There are none; Java's client cannot read null here.
                    eligible_leader_replicas=[],
                    last_known_elr=[],
                    offline_replicas=[replica for replica in partition.replicas if replica not in reachable],
                )
            )
        return DescribeTopicPartitionsResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id.bytes,
            is_internal=topic.name in self._internal_topics,
            partitions=partitions,
            topic_authorized_operations=TOPIC_OPERATIONS,
        )

    def _all(self) -> Sequence[str]:
        """The sorted names of all topics, cached until the metadata changes."""
        if self._names_version != self._metadata.version:
            self._names, self._names_version = sorted(self._metadata.topics), self._metadata.version
        return self._names


def _check(cursor: Cursor, asked: Sequence[str]) -> None:
    if cursor.partition_index < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the cursor is at partition {cursor.partition_index}")
    if asked and cursor.topic_name not in asked:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the cursor is at {cursor.topic_name!r}, which is not asked for")


def _failed(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, partitions=[])
