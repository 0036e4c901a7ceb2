"""
Builds the response to a fetch.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from logbus.cluster.replication.broker_topic_stats import BrokerTopicStats
from logbus.cluster.replication.partition_fetch import PartitionFetch, PartitionFetchResult
from logbus.handlers.current_leaders import CurrentLeaders
from logbus.handlers.fetch_sessions import NO_SESSION, CachedPartition, FetchSession, TopicKey
from logbus.wire.messages.records import (
    AbortedTransaction,
    EpochAndEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

#: The first version with the current leader, and ENDPOINTS_VERSION the first with its address (KIP-951).
LEADER_VERSION = 12
ENDPOINTS_VERSION = 16


@define(eq=False)
class FetchResponseBuilder:
    """
    A response under construction.

    :param listener: clients are told the addresses of leaders on it.
    :param session: that of the request, if it has one.
    :param full: whether a session's response has all of its partitions, not only those that changed.
    :param stats: counts the bytes of each topic; None: they are not counted.
    :ivar size: bytes of the batches in it.
    """

    _version: int
    _listener: str
    _leaders: CurrentLeaders
    _session: FetchSession | None
    _full: bool
    _stats: BrokerTopicStats | None = None
    size: int = field(default=0, init=False)
    _topics: list[FetchableTopicResponse] = field(factory=list, init=False)
    _last_topic: TopicKey | None = field(default=None, init=False)
    _current_leaders: list[LeaderIdAndEpoch] = field(factory=list, init=False)

    def select(self, results: Sequence[PartitionFetchResult]) -> Sequence[PartitionFetchResult]:
        """The results that belong in the response."""
        return results if self._session is None else self._session.changed_results(results, everything=self._full)

    def add(self, results: Sequence[PartitionFetchResult]) -> None:
        """Add the results of some partitions."""
        topics, last, stats = self._topics, self._last_topic, self._stats
        for result in results:
            partition = result.fetch
            assert isinstance(partition, CachedPartition)
            if partition.topic_key != last:
                last = partition.topic_key
                if isinstance(last, str):
                    topics.append(FetchableTopicResponse(topic=last, partitions=[]))
                else:
                    topics.append(FetchableTopicResponse(topic_id=last, partitions=[]))
            data = partition_data(result, partition)
            topics[-1].partitions.append(data)
            if result.data is not None:
                size = result.data.length
                self.size += size
                if stats is not None:
                    stats.sent(partition.topic, size)
            elif result.error is not None and self._version >= LEADER_VERSION:
                data.current_leader = leader = self._leaders.hint(partition.topic, partition.partition, result.error)
                if leader is not None:
                    self._current_leaders.append(leader)
        self._last_topic = last

    def build(self) -> FetchResponse:
        """The response."""
        session_id = self._session.session_id if self._session else NO_SESSION
        response = FetchResponse(session_id=session_id, responses=self._topics)
        if self._current_leaders and self._version >= ENDPOINTS_VERSION:
            response.node_endpoints = self._leaders.endpoints(self._listener, self._current_leaders)
        return response


def partition_data(result: PartitionFetchResult, partition: PartitionFetch) -> PartitionData:
    """
    One partition's part of the response; empty records are sent as empty, never as null.

    A follower's high watermark (Fetch 18) is ignored, since each response carries the leader's (KIP-1166 is about the
    log of Kafka's controllers).
    """
    error, aborted = result.error, result.aborted
    data = PartitionData(
        partition_index=partition.partition,
        error_code=0 if error is None else error.code,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        aborted_transactions=None
        if aborted is None or error is not None
        else [AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in aborted],
        preferred_read_replica=result.preferred,
        records=result.data if result.data is not None else b"",
    )
    if result.diverging is not None:
        data.diverging_epoch = EpochAndEndOffset(epoch=result.diverging.epoch, end_offset=result.diverging.offset)
    return data
