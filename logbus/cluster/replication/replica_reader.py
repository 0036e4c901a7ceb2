"""
Serves fetches from this broker's replicas (Kafka: ReplicaManager.fetchMessages).

A fetch names partitions and offsets (:class:`.PartitionFetch`), and gets a result for each
(:class:`.PartitionFetchResult`).  It is answered at once when there are ``min_bytes``, when there is an error, or when
it must not wait; else it waits in the purgatory, woken by the replicas it reads, and reads again when there may be
enough.

A read of a partition stops at the end of a segment, and before a batch that does not fit.  When more records follow
there, the fetch is answered at once, even with less than ``min_bytes``: waiting would bring no more of that partition,
and the next fetch continues behind.

What is to be sent is read from the device by who sends it; but to find it, indexes and headers of batches are needed.
If these are not in the page cache, a fetch first waits until a thread has loaded them.  It waits the same way for
records that only remote storage has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, TypeAlias

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredList

from logbus.cluster.replication.delayed_fetch import CommittedDelayedFetch, DelayedFetch, FetchArrivals
from logbus.cluster.replication.partition_fetch import (
    FetchContext,
    FetchParams,
    PartitionFetch,
    PartitionFetchResult,
)
from logbus.cluster.replication.partition_reader import PartitionReader, ReadAhead
from logbus.cluster.replication.purgatory import Purgatory
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.net.time_slices import TimeSlice
from logbus.storage.filesystem.cached_only import MOST_LOADS
from logbus.storage.istorage import NotCached

PARTITIONS_AT_A_TIME = 100
"""Partitions of a large fetch that are read before other requests get a turn."""

UNITS_TO_READ = 2
"""Units of a time slice for reading one partition."""

_Read: TypeAlias = tuple[list[PartitionFetchResult], int, bool]
"""Results, their size in bytes, and whether the client should be answered at once."""


@define(eq=False)
class ReplicaReader:
    """
    Serves fetches from this broker's replicas.

    :ivar partitions: reads each partition.
    """

    _replicas: ReplicaManager
    _purgatory: Purgatory
    partitions: PartitionReader = field(factory=PartitionReader)

    def fetch(
        self, source: FetchContext, *, min_bytes: int, max_bytes: int, max_wait_ms: int, fetch_params: FetchParams
    ) -> list[PartitionFetchResult] | Deferred[list[PartitionFetchResult]]:
        """
        Read the partitions of ``source``, in its order.

        :param min_bytes: to wait for, unless more records follow that do not fit into this answer.
        :param max_bytes: of the whole answer; the first batch found is returned even when it is larger.
        :return: a result for each partition; a Deferred (cancellable) if it must wait for ``min_bytes``.
        """
        cold: list[NotCached] = []
        found = self.read(source.fetches(), max_bytes, fetch_params, cold=cold)
        if cold:
            return Deferred.fromCoroutine(
                self._fetch_cold(cold, source, min_bytes, max_bytes, max_wait_ms, fetch_params)
            )
        return self._enough(found, source, min_bytes, max_bytes, max_wait_ms, fetch_params)

    async def _fetch_cold(
        self,
        cold: list[NotCached],
        source: FetchContext,
        min_bytes: int,
        max_bytes: int,
        max_wait_ms: int,
        fetch_params: FetchParams,
    ) -> list[PartitionFetchResult]:
        """Read as :meth:`fetch` does, once ``cold`` is loaded."""
        found = await self._read_loaded(cold, source.fetches, max_bytes, fetch_params)
        enough = self._enough(found, source, min_bytes, max_bytes, max_wait_ms, fetch_params)
        return enough if isinstance(enough, list) else await enough

    async def _read_loaded(
        self,
        cold: list[NotCached],
        fetches: Callable[[], Sequence[PartitionFetch]],
        max_bytes: int,
        fetch_params: FetchParams,
        size: int = 0,
    ) -> _Read:
        """Read as :meth:`read` does, once ``cold`` is loaded, and what turns out to be needed then."""
        for _ in range(MOST_LOADS):
            # An error of the disk is found again by reading.
            await DeferredList([each.load() for each in cold], consumeErrors=True)
            cold = []
            found = self.read(fetches(), max_bytes, fetch_params, size, cold)
            if not cold:
                return found
        return self.read(fetches(), max_bytes, fetch_params, size)

    def _enough(
        self,
        found: _Read,
        source: FetchContext,
        min_bytes: int,
        max_bytes: int,
        max_wait_ms: int,
        fetch_params: FetchParams,
    ) -> list[PartitionFetchResult] | Deferred[list[PartitionFetchResult]]:
        """The results of the reads, or, if they are too small, a Deferred of later ones."""
        results, size, urgent = found
        enough = min(min_bytes, max_bytes)
        if urgent or size >= enough or max_wait_ms <= 0 or source.empty or (size and self._more_follows(results)):
            return results

        kind = CommittedDelayedFetch if fetch_params.committed else DelayedFetch
        delayed = kind(self._purgatory, self, source, max_bytes, fetch_params, enough, size)
        if isinstance(delayed, CommittedDelayedFetch):
            delayed.stable = {(one.fetch.topic, one.fetch.partition): one.last_stable_offset for one in results}
        source.watch(delayed)
        return self._purgatory.wait(delayed, max_wait_ms)

    async def fetch_in_slices(
        self,
        source: FetchContext,
        *,
        min_bytes: int,
        max_bytes: int,
        max_wait_ms: int,
        fetch_params: FetchParams,
        time_slice: TimeSlice,
    ) -> list[PartitionFetchResult]:
        """
        Read as :meth:`fetch` does, in time slices. If there is too little, wait once, then return what there is.

        :param time_slice: of the request.
        """
        results, size, urgent = await self._read_in_slices(source.fetches(), max_bytes, fetch_params, time_slice)
        missing = min(min_bytes, max_bytes) - size
        if urgent or missing <= 0 or max_wait_ms <= 0 or source.empty or (size and self._more_follows(results)):
            return results
        delayed = FetchArrivals(self._purgatory, self, source, max_bytes, fetch_params, missing, 0)
        source.watch(delayed)
        await self._purgatory.wait(delayed, max_wait_ms)
        return (await self._read_in_slices(source.fetches(), max_bytes, fetch_params, time_slice))[0]

    async def _read_in_slices(
        self, fetches: Sequence[PartitionFetch], max_bytes: int, fetch_params: FetchParams, time_slice: TimeSlice
    ) -> tuple[list[PartitionFetchResult], int, bool]:
        answers: list[PartitionFetchResult] = []
        size, urgent = 0, False
        for start in range(0, len(fetches), PARTITIONS_AT_A_TIME):
            some, cold = fetches[start : start + PARTITIONS_AT_A_TIME], list[NotCached]()
            found = self.read(some, max_bytes, fetch_params, size, cold)
            if cold:
                found = await self._read_loaded(cold, lambda some=some: some, max_bytes, fetch_params, size)  # type: ignore[misc]
            results, size, hurry = found
            answers += results
            urgent = urgent or hurry
            if time_slice.used(UNITS_TO_READ * len(results)):
                await time_slice.next()
        return answers, size, urgent

    def read(
        self,
        fetches: Sequence[PartitionFetch],
        max_bytes: int,
        fetch_params: FetchParams,
        size: int = 0,
        cold: list[NotCached] | None = None,
    ) -> _Read:
        """
        Read now; return the results, their size in bytes, and whether the client should be answered at once.

        :param size: bytes in the answer so far.
        :param cold: gets what must be loaded first, instead of waiting for it; the results are of no use then.
        """
        answers: list[PartitionFetchResult] = []
        partitions, is_replica = self.partitions, fetch_params.is_replica
        read = partitions.read_for_follower if is_replica else partitions.read_for_consumer
        urgent, left = False, max(0, max_bytes - size)
        thread = 0 if cold is None else get_ident()
        for fetch in fetches:
            result = PartitionFetchResult(fetch)
            answers.append(result)
            try:
                if fetch.refused is not None:
                    raise fetch.refused
                replica = self._replicas.get(fetch.topic, fetch.partition)
                if fetch.topic_id is not None and fetch.topic_id != replica.topic_id:
                    raise ApiError(
                        ErrorCode.UNKNOWN_TOPIC_ID, f"{fetch.topic} has the id {replica.topic_id}, not {fetch.topic_id}"
                    )
                read(result, replica, left, fetch_params, thread, min_one=size == 0)
            except NotCached as problem:
                # Without a list only remote storage reports this: the next fetch will have it.
                if cold is not None:
                    cold.append(problem)
                continue
            except (ApiError, StorageError) as e:
                result.error = e if isinstance(e, ApiError) else ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(e))
                # The frames hold the results, which hold the error: a cycle that only the garbage collector frees.
                result.error.without_frames()
                urgent = True
                continue
            if result.data is not None:
                size += result.data.length
                left = max(0, max_bytes - size)
            elif result.diverging is not None or result.preferred != -1:
                urgent = True
            elif is_replica and partitions.selector is not None and fetch.told is not None:
                # The follower's consumers may wait for the new high watermark, not for records (KIP-392).
                urgent = urgent or fetch.told[0] != result.high_watermark
        return answers, size, urgent

    def read_enough(
        self, source: FetchContext, max_bytes: int, fetch_params: FetchParams, enough: int, waiting: DelayedFetch
    ) -> list[PartitionFetchResult] | None:
        """Read for one that waits; None: there is too little, and it goes on waiting for what is missing."""
        results, size, urgent = self.read(source.fetches(), max_bytes, fetch_params)
        if urgent or size >= enough or (size and self._more_follows(results)):
            return results
        waiting.missing = enough - size
        return None

    def read_shared(
        self, fetches: Sequence[PartitionFetch], max_bytes: int, fetch_params: FetchParams
    ) -> list[PartitionFetchResult]:
        """Read now; consumers that were woken together and read the same share the results."""
        shared = self._purgatory.shared
        if shared is None or len(fetches) != 1 or fetch_params.is_replica:
            return self.read(fetches, max_bytes, fetch_params)[0]
        fetch = fetches[0]
        replica = self._replicas.find(fetch.topic, fetch.partition)
        if replica is None or fetch.refused is not None:
            return self.read(fetches, max_bytes, fetch_params)[0]
        log, partition = replica.log, replica.partition
        # All on which the results depend: completing one request may serve others, even a Produce.
        key = (
            *(replica, partition.is_leader, partition.leader_epoch, log.log_end_offset, log.log_start_offset),
            *(replica.high_watermark, replica.last_stable_offset, max_bytes, fetch_params),
            *(fetch.offset, fetch.max_bytes, fetch.current_leader_epoch, fetch.last_fetched_epoch, fetch.topic_id),
        )
        results: list[PartitionFetchResult] | None = shared.get(key)
        if results is None:
            results = shared[key] = self.read(fetches, max_bytes, fetch_params)[0]
        return results

    @property
    def shared(self) -> dict[Any, Any] | None:
        """The results that requests woken together may share, while they are completed."""
        return self._purgatory.shared

    def read_ahead(self, fetch: PartitionFetch, fetch_params: FetchParams, segments: int, enough: int) -> ReadAhead:
        """Find what a consumer's next fetches of a partition get; see :meth:`.PartitionReader.read_ahead`."""
        replica = self._replicas.find(fetch.topic, fetch.partition)
        if replica is None or fetch.topic_id not in (None, replica.topic_id):
            return ReadAhead(PartitionFetchResult(fetch), ())
        return self.partitions.read_ahead(fetch, replica, fetch_params, segments, enough)

    def _more_follows(self, answers: Sequence[PartitionFetchResult]) -> bool:
        """
        Whether a partition has readable records that are not in the answer: in its next segment, or in a batch that did
        not fit (Kafka's DelayedFetch, case F).

        :param answers: results with records from at least one partition, so that the next fetch gets further.
        """
        for result in answers:
            if not 0 <= result.read_to < result.end:
                continue
            if result.data is not None:
                return True
            # Either its first batch did not fit behind other partitions', or compaction left nothing up to the end.
            replica = self._replicas.find(result.fetch.topic, result.fetch.partition)
            try:
                if replica is not None and replica.log.read(result.fetch.offset, 0, result.end).data is not None:
                    return True
            except (ApiError, StorageError, NotCached):
                return True  # The next fetch gets the error, or waits for what must be loaded.
        return False
