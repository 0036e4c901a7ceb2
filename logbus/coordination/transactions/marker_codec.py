"""
Converts markers to requests, and responses to outcomes, of WriteTxnMarkers. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from logbus.coordination.transactions.end_transaction_marker import EndTransactionMarker
from logbus.model import TopicPartition
from logbus.wire.messages.partitions import TopicPartitionIndexes
from logbus.wire.messages.transactions import WritableTxnMarker, WriteTxnMarkersResponse


def partitions_by_topic(partitions: Collection[TopicPartition]) -> dict[str, Sequence[int]]:
    """Partitions by topic."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return dict(found)


def marker_request(end_marker: EndTransactionMarker, partitions: Collection[TopicPartition]) -> WritableTxnMarker:
    """The marker of one transaction for some partitions, as a part of a request."""
    return WritableTxnMarker(
        producer_id=end_marker.producer_id,
        producer_epoch=end_marker.producer_epoch,
        transaction_result=end_marker.committed,
        topics=[
            TopicPartitionIndexes(name=topic, partition_indexes=list(numbers))
            for topic, numbers in partitions_by_topic(partitions).items()
        ],
        coordinator_epoch=end_marker.coordinator_epoch,
        transaction_version=end_marker.version,
    )


def marker_errors(response: WriteTxnMarkersResponse) -> dict[tuple[int, str, int], int]:
    """Error codes by producer id, topic and partition."""
    return {
        (marker.producer_id, topic.name, partition.partition_index): partition.error_code
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
