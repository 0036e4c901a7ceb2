"""
WriteTxnMarkers: writes the markers of ended transactions to partitions led by this broker.

It is sent by coordinators on other brokers, and by tools that abort a hanging transaction (KIP-664). A client that has
not proved to be a broker may only do the latter: see :mod:`logbus.coordination.transactions.hanging_transactions`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Self

from attrs import define
from twisted.internet.defer import gatherResults

from logbus.coordination.transactions.end_transaction_marker import EndTransactionMarker
from logbus.coordination.transactions.hanging_transactions import MAX_PARTITIONS, HangingTransactions, Verdicts
from logbus.coordination.transactions.marker_writer import MarkerWriter, Outcomes
from logbus.errors import ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import serves, task
from logbus.model import TopicPartition
from logbus.net.cancellation import shield_from_cancellation
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import TimeSlice
from logbus.wire.connection import Request
from logbus.wire.messages.partitions import PartitionErrorCode, TopicErrorCodes
from logbus.wire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

UNITS_TO_APPEND = 10
"""Cost of appending a marker, in units of a time slice."""

PARTITIONS_AT_A_TIME = 100
"""Number of partitions whose markers are written in one turn of the reactor."""

Job = tuple[int, EndTransactionMarker, list[TopicPartition]]
"""A marker for some partitions, with the number of the marker in the request."""


@define(eq=False)
class WriteTxnMarkersHandlers:
    """
    Serves WriteTxnMarkers.

    :param hanging: decides which markers clients may write.
    """

    _writer: MarkerWriter
    _hanging: HangingTransactions

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.marker_writer, broker.hanging_transactions)

    @serves(27, 0, 2)
    @task
    async def write_txn_markers(self, context: RequestContext, request: Request) -> WriteTxnMarkersResponse:
        message: WriteTxnMarkersRequest = request.message
        time_slice = context.time_slice(request)
        outcomes: list[dict[TopicPartition, ErrorCode]] = []
        jobs: list[Job] = []
        async for marker in time_slice.over(message.markers, 3):
            end_marker, partitions = _end_marker(marker), await _partitions(marker, time_slice)
            refused = _of_no_producer(end_marker, partitions)
            if not refused:
                jobs += [(len(outcomes), end_marker, some) for some in _chunks(partitions)]
            outcomes.append(refused)
        by_client = context.broker is None
        if by_client and sum(len(partitions) for _, _, partitions in jobs) > MAX_PARTITIONS:
            for number, _, partitions in jobs:
                outcomes[number].update(dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST))
            jobs = []
        for some in _together(jobs):
            await self._write(some, outcomes, by_client=by_client)
            if time_slice.used(UNITS_TO_APPEND * PARTITIONS_AT_A_TIME):
                await time_slice.next()
        results = []
        async for marker, found in time_slice.over(zip(message.markers, outcomes, strict=True), 2):
            results.append(await _result(marker, found, time_slice))
        return WriteTxnMarkersResponse(markers=results)

    async def _write(
        self, jobs: Sequence[Job], outcomes: Sequence[dict[TopicPartition, ErrorCode]], *, by_client: bool
    ) -> None:
        """
        Write some markers, and wait until they are durable.

        :param outcomes: receives the outcomes, by the number of the marker.
        :param by_client: the sender has not proved to be a broker.
        """
        refused: Sequence[Verdicts] = [{}] * len(jobs)
        if by_client:
            refused = await self._hanging.verdicts([(end_marker, partitions) for _, end_marker, partitions in jobs])
        # The verdicts about hanging transactions are valid in this turn of the reactor only.
        writing = [
            self._writer.write(end_marker, [each for each in partitions if each not in some])
            for (_, end_marker, partitions), some in zip(jobs, refused, strict=True)
        ]
        # The client may disconnect, but appended markers must be completed all the same.
        written = await shield_from_cancellation(gatherResults(writing, consumeErrors=True))
        for (number, _, _), some, found in zip(jobs, refused, written, strict=True):
            outcomes[number].update({**found, **some})


def _chunks(partitions: Sequence[TopicPartition]) -> list[list[TopicPartition]]:
    """Partitions of one marker, in parts of limited size."""
    starts = range(0, len(partitions), PARTITIONS_AT_A_TIME)
    return [list(partitions[start : start + PARTITIONS_AT_A_TIME]) for start in starts]


def _together(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """Markers in order, in parts with a limited number of partitions."""
    some: list[Job] = []
    room = PARTITIONS_AT_A_TIME
    for job in jobs:
        if some and len(job[2]) > room:
            yield some
            some, room = [], PARTITIONS_AT_A_TIME
        some.append(job)
        room -= len(job[2])
    if some:
        yield some


def _of_no_producer(
    end_marker: EndTransactionMarker, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Errors for an invalid producer id or epoch."""
    if end_marker.producer_id < 0:
        return dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if end_marker.producer_epoch < 0:
        return dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_EPOCH)
    return {}


def _end_marker(marker: WritableTxnMarker) -> EndTransactionMarker:
    return EndTransactionMarker(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
    )


async def _partitions(marker: WritableTxnMarker, time_slice: TimeSlice) -> list[TopicPartition]:
    found: dict[TopicPartition, None] = {}
    pairs = ((topic.name, number) for topic in marker.topics for number in topic.partition_indexes)
    async for name, number in time_slice.over(pairs):
        found[TopicPartition(name, number)] = None
    return list(found)


async def _result(marker: WritableTxnMarker, outcomes: Outcomes, time_slice: TimeSlice) -> WritableTxnMarkerResult:
    topics = []
    for topic in marker.topics:
        codes: list[PartitionErrorCode] = []
        async for number in time_slice.over(topic.partition_indexes):
            error = outcomes[TopicPartition(topic.name, number)]
            codes.append(PartitionErrorCode(partition_index=number, error_code=error))
        topics.append(TopicErrorCodes(name=topic.name, partitions=codes))
    return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)
