"""
WriteTxnMarkers: the coordinator of a transaction has partitions here take note of its end.

Other brokers ask, and tools that end a transaction which nobody coordinates any more (KIP-664).
"""

from __future__ import annotations

from attrs import define
from twisted.internet.defer import gatherResults

from logbus.coordination.transactions.ending import Ending
from logbus.coordination.transactions.writer import MarkerWriter, Outcomes
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
    """Serves WriteTxnMarkers."""

    _writer: MarkerWriter

    @serves(27, 0, 2)
    @task
    async def write_txn_markers(self, context: RequestContext, request: Request) -> WriteTxnMarkersResponse:
        message: WriteTxnMarkersRequest = request.message
        writing = [self._writer.write(_ending(marker), _partitions(marker)) for marker in message.markers]
        # Whoever asks may go away: what was appended is looked after all the same.
        outcomes = await shielded(gatherResults(writing, consumeErrors=True))
        return WriteTxnMarkersResponse(
            markers=[_result(marker, found) for marker, found in zip(message.markers, outcomes, strict=True)]
        )


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
