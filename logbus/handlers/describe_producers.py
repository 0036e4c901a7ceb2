"""
DescribeProducers: the active producers of partitions, with the start of their open transactions (KIP-664).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Self

from attrs import define

from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import serves, task
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import TimeSlice
from logbus.storage.producers.producer_state_manager import ProducerStateEntry
from logbus.wire.connection import Request
from logbus.wire.messages.transaction_admin import (
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
    ProducerState,
)

SOME = 100
"""Producers that are described between two looks at the time slice."""
UNITS_PER_PARTITION = 4
"""Cost of finding a partition, or that it is not here, in units of a time slice."""
MAX_PRODUCERS = 200_000
"""Limit of producers in one response; the API has no paging."""


@define(eq=False)
class DescribeProducersHandlers:
    """Serves DescribeProducers from any replica, as in Kafka; clients send it to leaders by default."""

    _replicas: ReplicaManager

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.replicas)

    @serves(61, 0, 0)
    @task
    async def describe_producers(self, context: RequestContext, request: Request) -> DescribeProducersResponse:
        message: DescribeProducersRequest = request.message
        time_slice = context.time_slice(request)
        topics: dict[str, list[int]] = {}
        for topic in message.topics:
            topics.setdefault(topic.name, []).extend(topic.partition_indexes)
        described, left = [], MAX_PRODUCERS
        for name, indexes in topics.items():
            answers = []
            # Each partition is described once, since a request can repeat numbers at little cost.
            async for index in time_slice.over(await time_slice.distinct(indexes), UNITS_PER_PARTITION):
                answer = await self._describe(name, index, left, time_slice)
                left -= len(answer.active_producers)
                answers.append(answer)
            described.append(DescribeProducersTopicResponse(name=name, partitions=answers))
        return DescribeProducersResponse(topics=described)

    async def _describe(
        self, topic: str, index: int, most: int, time_slice: TimeSlice
    ) -> DescribeProducersPartitionResponse:
        answer = DescribeProducersPartitionResponse(partition_index=index, active_producers=[])
        try:
            producers = self._replicas.get(topic, index).log.producers
            if len(producers) > most:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"{topic}-{index} has {len(producers)} producers, and there is room for {most} in the answer; ask "
                    "for fewer partitions at a time",
                )
        except (ApiError, StorageError) as e:
            answer.error_code = e.code if isinstance(e, ApiError) else ErrorCode.KAFKA_STORAGE_ERROR
            answer.error_message = str(e)
            return answer
        entries = iter(list(producers))
        while some := list(islice(entries, SOME)):
            answer.active_producers += described(some)
            if time_slice.used(len(some)):
                await time_slice.next()
        return answer


def described(entries: Sequence[ProducerStateEntry]) -> list[ProducerState]:
    """A log's producer states in the format of the response."""
    return [
        ProducerState(
            producer_id=entry.producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=-1 if entry.open_since is None else entry.open_since,
        )
        for entry in entries
    ]
