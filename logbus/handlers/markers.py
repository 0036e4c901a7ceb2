"""
WriteTxnMarkers: the coordinator of a transaction has partitions here take note of its end.

Other brokers ask, and tools that end a transaction which nobody coordinates any more (KIP-664).

A partition refuses markers of coordinators that were replaced, by the newest epoch it has seen. So a client must not
name an epoch that no coordinator has had: the real one would be refused from then on, and its transaction never end.
"""

from __future__ import annotations

from collections.abc import Collection

from attrs import define
from twisted.internet.defer import gatherResults

from logbus.cluster.metadata import ClusterMetadata
from logbus.coordination.transactions.coordinator import TRANSACTIONS_TOPIC
from logbus.coordination.transactions.ending import Ending
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
    """Serves WriteTxnMarkers."""

    _writer: MarkerWriter
    _metadata: ClusterMetadata

    @serves(27, 0, 2)
    @task
    async def write_txn_markers(self, context: RequestContext, request: Request) -> WriteTxnMarkersResponse:
        message: WriteTxnMarkersRequest = request.message
        refused = [
            self._of_no_coordinator(marker) if context.broker is None else frozenset() for marker in message.markers
        ]
        writing = [
            self._writer.write(_ending(marker), [each for each in _partitions(marker) if each not in some])
            for marker, some in zip(message.markers, refused, strict=True)
        ]
        # Whoever asks may go away: what was appended is looked after all the same.
        outcomes = await shielded(gatherResults(writing, consumeErrors=True))
        return WriteTxnMarkersResponse(
            markers=[
                _result(marker, {**found, **dict.fromkeys(some, ErrorCode.INVALID_REQUEST)})
                for marker, found, some in zip(message.markers, outcomes, refused, strict=True)
            ]
        )

    def _of_no_coordinator(self, marker: WritableTxnMarker) -> Collection[TopicPartition]:
        """The partitions that have never heard of so new a coordinator, if there is none."""
        topic = self._metadata.topic(TRANSACTIONS_TOPIC)
        newest = max((partition.leader_epoch for partition in topic.partitions), default=0) if topic is not None else 0
        if marker.coordinator_epoch <= newest:
            return ()
        seen = self._writer.coordinator_epoch
        return {
            partition
            for partition in _partitions(marker)
            if seen(partition, marker.producer_id) < marker.coordinator_epoch
        }


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
