"""A consumer's lookups of offsets: beginning, end, and by time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twisted.internet.defer import Deferred

from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.partition_position import Isolation
from logbus.client.list_offsets import EARLIEST, LATEST, list_offsets_with_retries
from logbus.coroutines import returns_deferred
from logbus.model import TimestampOffset, TopicPartition


class OffsetsByTime:
    """The part of :class:`~logbus.client.consumer.consumer.Consumer` that looks up offsets."""

    def __init__(self, cluster: Cluster, isolation_level: Isolation) -> None:
        self._cluster = cluster
        self._committed_only = isolation_level == "read_committed"

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> Deferred[dict[TopicPartition, int]]:
        """
        The first offsets of partitions.

        :raises ApiError: (in the Deferred) a partition does not exist.
        """
        return self._ends(dict.fromkeys(partitions, EARLIEST))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> Deferred[dict[TopicPartition, int]]:
        """
        The end offsets of partitions; with ``read_committed``, their last stable offsets.

        :raises ApiError: (in the Deferred) a partition does not exist.
        """
        return self._ends(dict.fromkeys(partitions, LATEST))

    @returns_deferred
    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, TimestampOffset | None]:
        """
        The first records at or after the given times, in milliseconds since 1970; None if there is none.

        :raises ApiError: (in the Deferred) a partition does not exist.
        """
        found = await list_offsets_with_retries(self._cluster, times, self._committed_only)
        return {each: None if answer.offset < 0 else answer for each, answer in found.items()}

    @returns_deferred
    async def _ends(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = await list_offsets_with_retries(self._cluster, times, self._committed_only)
        return {each: answer.offset for each, answer in found.items()}
