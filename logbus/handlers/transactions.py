"""
AddPartitionsToTxn, AddOffsetsToTxn, EndTxn: transactions of producers, for clients and other brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Self

from attrs import define, frozen
from twisted.internet.defer import Deferred, gatherResults

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.transactions.transaction_coordinator import TransactionCoordinator
from logbus.coordination.transactions.transaction_metadata import V1, V2, ProducerIdAndEpoch
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.named_partitions import named_partitions
from logbus.handlers.request_router import serves, task
from logbus.model import INTERNAL_TOPICS, OFFSETS_TOPIC, TopicPartition
from logbus.net.cancellation import shield_from_cancellation
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import TimeSlice
from logbus.wire.connection import Request
from logbus.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    EndTxnRequest,
    EndTxnResponse,
)

FENCED_VERSION = 2
"""The first version of these requests with PRODUCER_FENCED."""

BATCHED_VERSION = 4
"""The first version of AddPartitionsToTxn for several transactions, which brokers send."""

ABORTABLE_VERSION = 5
"""The first version of AddPartitionsToTxn with TRANSACTION_ABORTABLE."""

BUMPING_VERSION = 5
"""The first version of EndTxn whose response has the epoch of the next transaction (KIP-890)."""

UNITS_TO_ADD = 5
"""Cost of beginning with one transaction of several, in units of a time slice."""

Outcomes = Mapping[TopicPartition, ErrorCode]


def error_for_version(code: ErrorCode, version: int, first: int = FENCED_VERSION) -> ErrorCode:
    """The error code for a client of this version; ``first`` is the first with PRODUCER_FENCED."""
    if code is ErrorCode.PRODUCER_FENCED and version < first:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


@frozen
class _Addition:
    """Partitions to add to one transaction, or to verify."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: Collection[TopicPartition]
    verify_only: bool


@define(eq=False)
class TransactionHandlers:
    """
    Changes transactions.

    :param internal_topics: topics that only brokers write to.
    """

    _coordinator: TransactionCoordinator
    _groups: GroupCoordinator
    _metadata: ClusterMetadata
    _internal_topics: frozenset[str]

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.transactions, broker.group_coordinator, broker.metadata, INTERNAL_TOPICS)

    @serves(24, 0, 5, waits_for_metadata=True)
    @task
    async def add_partitions_to_txn(self, context: RequestContext, request: Request) -> AddPartitionsToTxnResponse:
        message: AddPartitionsToTxnRequest = request.message
        version = request.api_version
        time_slice = context.time_slice(request)
        if version < BATCHED_VERSION:
            producer = ProducerIdAndEpoch(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
            partitions = await named_partitions(
                ((topic.name, topic.partitions) for topic in message.v3_and_below_topics), time_slice
            )
            addition = _Addition(message.v3_and_below_transactional_id, producer, partitions, verify_only=False)
            outcomes = await self._add(addition, version, time_slice, by_client=True)
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _results(outcomes, time_slice))
        additions = [
            _Addition(
                one.transactional_id,
                ProducerIdAndEpoch(one.producer_id, one.producer_epoch),
                await named_partitions(((topic.name, topic.partitions) for topic in one.topics), time_slice),
                one.verify_only,
            )
            async for one in time_slice.over(message.transactions)
        ]
        by_client = context.broker is None
        adding = []
        async for addition in time_slice.over(additions, UNITS_TO_ADD):
            # Each has a time slice of its own, since they run concurrently.
            added = self._add(addition, version, TimeSlice(context.scheduler), by_client)
            adding.append(Deferred.fromCoroutine(added))
        all_outcomes = await shield_from_cancellation(gatherResults(adding, consumeErrors=True))
        results = []
        async for addition, outcomes in time_slice.over(zip(additions, all_outcomes, strict=True)):
            topics = await _results(outcomes, time_slice)
            results.append(AddPartitionsToTxnResult(transactional_id=addition.transactional_id, topic_results=topics))
        return AddPartitionsToTxnResponse(results_by_transaction=results)

    async def _add(self, addition: _Addition, version: int, time_slice: TimeSlice, by_client: bool) -> Outcomes:
        """The outcome for each partition: all are added, or none."""
        impossible = await self._impossible(addition.partitions, time_slice, by_client=by_client)
        if impossible:
            rest = ErrorCode.OPERATION_NOT_ATTEMPTED
            return {name: impossible.get(name, rest) async for name in time_slice.over(addition.partitions)}
        try:
            if addition.verify_only:
                found = self._coordinator.verify(addition.transactional_id, addition.producer, addition.partitions)
                if version >= ABORTABLE_VERSION:
                    return found
                return {name: code and ErrorCode.INVALID_TXN_STATE for name, code in found.items()}
            client_version = V1 if version < BATCHED_VERSION else V2
            await self._coordinator.add_partitions(
                addition.transactional_id, addition.producer, addition.partitions, client_version
            )
        except ApiError as e:
            return dict.fromkeys(addition.partitions, error_for_version(e.code, version))
        return dict.fromkeys(addition.partitions, ErrorCode.NONE)

    async def _impossible(
        self, partitions: Collection[TopicPartition], time_slice: TimeSlice, *, by_client: bool
    ) -> dict[TopicPartition, ErrorCode]:
        """The errors of partitions that cannot be in a transaction."""
        found: dict[TopicPartition, ErrorCode] = {}
        async for name in time_slice.over(partitions):
            if by_client and name.topic in self._internal_topics:
                # Clients add groups by AddOffsetsToTxn instead.
                found[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif self._metadata.partition(name) is None:
                found[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return found

    @serves(25, 0, 4)
    @task
    async def add_offsets_to_txn(self, context: RequestContext, request: Request) -> AddOffsetsToTxnResponse:
        message: AddOffsetsToTxnRequest = request.message
        partition = TopicPartition(OFFSETS_TOPIC, self._groups.partition_of(message.group_id))
        producer = ProducerIdAndEpoch(message.producer_id, message.producer_epoch)
        try:
            await self._coordinator.add_partitions(message.transactional_id, producer, [partition])
        except ApiError as e:
            return AddOffsetsToTxnResponse(error_code=error_for_version(e.code, request.api_version))
        return AddOffsetsToTxnResponse()

    @serves(26, 0, 5)
    @task
    async def end_txn(self, context: RequestContext, request: Request) -> EndTxnResponse:
        message: EndTxnRequest = request.message
        producer = ProducerIdAndEpoch(message.producer_id, message.producer_epoch)
        client_version = V1 if request.api_version < BUMPING_VERSION else V2
        try:
            after = await self._coordinator.end(message.transactional_id, producer, message.committed, client_version)
        except ApiError as e:
            return EndTxnResponse(error_code=error_for_version(e.code, request.api_version))
        return EndTxnResponse(producer_id=after.producer_id, producer_epoch=after.epoch)


async def _results(outcomes: Outcomes, time_slice: TimeSlice) -> list[AddPartitionsToTxnTopicResult]:
    found: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    async for name, code in time_slice.over(outcomes.items()):
        result = AddPartitionsToTxnPartitionResult(partition_index=name.partition, partition_error_code=code)
        found.setdefault(name.topic, []).append(result)
    return [AddPartitionsToTxnTopicResult(name=topic, results_by_partition=results) for topic, results in found.items()]
