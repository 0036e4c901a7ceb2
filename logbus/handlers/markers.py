"""
WriteTxnMarkers: the coordinator of a transaction has partitions here take note of its end.

Coordinators on other brokers ask, and tools that end a transaction which nobody coordinates any more (KIP-664).  Who
has not proved to be a broker may only do the latter: see :mod:`logbus.coordination.transactions.hanging`.
"""

from __future__ import annotations

from collections.abc import Collection

from attrs import define
from twisted.internet.defer import gatherResults

from logbus.coordination.transactions.ending import Ending
from logbus.coordination.transactions.hanging import HangingTransactions
from logbus.coordination.transactions.writer import MarkerWriter, Outcomes
from logbus.errors import ErrorCode
from logbus.handlers.cluster import shielded
from logbus.handlers.routing import serves, task
from logbus.model import TopicPartition
from logbus.net.context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


@define(eq=False)
class MarkerHandlers:
    """
    Serves WriteTxnMarkers.

    :param hanging: says what clients may have written.
    """

    _writer: MarkerWriter
    _hanging: HangingTransactions

    @serves(27, 0, 2)
    @task
    async def write_txn_markers(self, context: RequestContext, request: Request) -> WriteTxnMarkersResponse:
        message: WriteTxnMarkersRequest = request.message
        asked = [(_ending(marker), _partitions(marker)) for marker in message.markers]
        settled = [_of_no_producer(ending, partitions) for ending, partitions in asked]
        if context.broker is None:
            left = [
                (ending, [each for each in partitions if each not in some])
                for (ending, partitions), some in zip(asked, settled, strict=True)
            ]
            verdicts = await self._hanging.verdicts(left)
            settled = [{**some, **found} for some, found in zip(settled, verdicts, strict=True)]
        writing = [
            self._writer.write(ending, [each for each in partitions if each not in some])
            for (ending, partitions), some in zip(asked, settled, strict=True)
        ]
        # Whoever asks may go away: what was appended is looked after all the same.
        outcomes = await shielded(gatherResults(writing, consumeErrors=True))
        return WriteTxnMarkersResponse(
            markers=[
                _result(marker, {**found, **some})
                for marker, found, some in zip(message.markers, outcomes, settled, strict=True)
            ]
        )


def _of_no_producer(ending: Ending, partitions: Collection[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    """Refuse a producer that cannot be, whoever asks."""
    if ending.producer_id < 0:
        return dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if ending.producer_epoch < 0:
        return dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_EPOCH)
    return {}


def _ending(marker: WritableTxnMarker) -> Ending:
    return Ending(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
    )


def _partitions(marker: WritableTxnMarker) -> list[TopicPartition]:
    names = [TopicPartition(topic.name, number) for topic in marker.topics for number in topic.partition_indexes]
    return list(dict.fromkeys(names))


def _result(marker: WritableTxnMarker, outcomes: Outcomes) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=number, error_code=outcomes[TopicPartition(topic.name, number)]
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )
