"""
The responses to members of share groups (KIP-932): what they acquired, and what became of their acknowledgements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from attrs import frozen

from logbus.errors import ApiError
from logbus.handlers.current_leaders import CurrentLeaders
from logbus.net.time_slices import TimeSlice
from logbus.share.share_fetches import SharePartitionResult
from logbus.share.share_sessions import SharedPartition
from logbus.wire.messages.records import LeaderIdAndEpoch
from logbus.wire.messages.share_fetches import (
    AcknowledgedPartition,
    AcquiredRecords,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
    SharePartitionData,
)

Outcomes = Mapping[SharedPartition, ApiError | None]
"""What became of acknowledgements; None: they are kept."""

NO_LEADER = LeaderIdAndEpoch()


@frozen
class ShareResponses:
    """
    Makes responses, with the leaders of partitions that have moved.

    :ivar topic_name: of a topic's id; empty, if there is none.
    """

    _leaders: CurrentLeaders
    _topic_name: Callable[[UUID], str]

    async def fill(
        self,
        response: ShareFetchResponse,
        results: Sequence[SharePartitionResult],
        outcomes: Outcomes,
        listener: str,
        time_slice: TimeSlice,
    ) -> None:
        """Put records, errors, and what became of acknowledgements into the response to a fetch."""
        topics: dict[UUID, ShareFetchableTopicResponse] = {}
        hints = []
        by_partition = {result.partition: result for result in results}
        async for partition in time_slice.over(dict.fromkeys([*by_partition, *outcomes])):
            result = by_partition.get(partition) or SharePartitionResult(partition)
            if not result.acquired and result.error is None and partition not in outcomes:
                continue
            refused = outcomes.get(partition)
            hint = self._hint(partition, result.error or refused)
            hints.append(hint)
            data = SharePartitionData(
                partition_index=partition.partition,
                current_leader=hint or NO_LEADER,
                records=b"" if result.records is None else result.records,
                acquired_records=[
                    AcquiredRecords(first_offset=one.first, last_offset=one.last, delivery_count=one.delivery_count)
                    for one in result.acquired
                ],
            )
            if result.error is not None:
                data.error_code, data.error_message = result.error.code, result.error.message
            if refused is not None:
                data.acknowledge_error_code, data.acknowledge_error_message = refused.code, refused.message
            topic = topics.setdefault(
                partition.topic_id, ShareFetchableTopicResponse(topic_id=partition.topic_id.bytes, partitions=[])
            )
            topic.partitions.append(data)
        response.responses = list(topics.values())
        response.node_endpoints = self._leaders.endpoints(listener, hints)

    async def acknowledged(
        self, lock_ms: int, outcomes: Outcomes, listener: str, time_slice: TimeSlice
    ) -> ShareAcknowledgeResponse:
        """
        The response to acknowledgements.

        :param lock_ms: for how long records are acquired.
        """
        topics: dict[UUID, ShareAcknowledgeTopicResponse] = {}
        hints = []
        async for partition, error in time_slice.over(outcomes.items()):
            hint = self._hint(partition, error)
            hints.append(hint)
            topic = topics.setdefault(
                partition.topic_id, ShareAcknowledgeTopicResponse(topic_id=partition.topic_id.bytes, partitions=[])
            )
            topic.partitions.append(
                AcknowledgedPartition(
                    partition_index=partition.partition,
                    error_code=0 if error is None else error.code,
                    error_message=None if error is None else error.message,
                    current_leader=hint or NO_LEADER,
                )
            )
        return ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=lock_ms,
            responses=list(topics.values()),
            node_endpoints=self._leaders.endpoints(listener, hints),
        )

    def _hint(self, partition: SharedPartition, error: ApiError | None) -> LeaderIdAndEpoch | None:
        """The leader to go to, where that is the matter."""
        if error is None:
            return None
        return self._leaders.hint(self._topic_name(partition.topic_id), partition.partition, error)
