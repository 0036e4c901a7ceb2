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

Consumers read committed records, from the leader or, if they support it, from a follower (KIP-392).  Followers read up
to the log's end, from the leader only, whose view of their logs it updates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, TypeAlias

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, DeferredList

from logbus.cluster.replication.delayed_fetch import CommittedDelayedFetch, DelayedFetch, FetchArrivals
from logbus.cluster.replication.follower_state import FollowerState
from logbus.cluster.replication.partition_fetch import (
    FetchContext,
    FetchParams,
    PartitionFetch,
    PartitionFetchResult,
)
from logbus.cluster.replication.purgatory import Purgatory
from logbus.cluster.replication.replica import OffsetAndStart, Replica
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.cluster.replication.replica_selector import RackAwareReplicaSelector
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.model import NO_EPOCH
from logbus.net.time_slices import TimeSlice
from logbus.records.file_slice import FileSlice, HasFileno
from logbus.storage.filesystem.cached_only import MOST_LOADS, CachedOnly
from logbus.storage.istorage import NotCached

PARTITIONS_AT_A_TIME = 100
"""Partitions of a large fetch that are read before other requests get a turn."""

UNITS_TO_READ = 2
"""Units of a time slice for reading one partition."""

_Read: TypeAlias = tuple[list[PartitionFetchResult], int, bool]
"""Results, their size in bytes, and whether the client should be answered at once."""


@frozen
class ReadAheadLimits:
    """
    How much is read ahead.

    :ivar reads: number of fetches; ``bytes``: of records, about; ``files``: in which they are.
    """

    reads: int
    bytes: int
    files: int


@frozen
class ReadAhead:
    """
    What a consumer's next fetches get.

    :ivar result: the numbers of the first one's result.
    :ivar records: of each;  ``end_offset``: where the last one ends.
    """

    result: PartitionFetchResult
    records: Sequence[FileSlice]
    end_offset: int


class ReplicationThrottle:
    """Limits what followers get; this one does not (Kafka: ReplicaQuota)."""

    def is_throttled(self, replica: Replica, follower: FollowerState) -> bool:
        """Whether a follower gets no records of ``replica`` for now."""
        return False

    def sent(self, replica: Replica, follower: FollowerState, size: int) -> None:
        """Count bytes of ``replica`` that a follower gets."""


@define(eq=False)
class ReplicaReader:
    """
    Serves fetches from this broker's replicas.

    :ivar selector: selects replicas near consumers; None: all read from the leader.
    :ivar throttle: limits what followers get.
    :ivar follower_stuck: called when a follower fetches again from an offset at which it got records.
    """

    _replicas: ReplicaManager
    _purgatory: Purgatory
    selector: RackAwareReplicaSelector | None = None
    throttle: ReplicationThrottle = field(factory=ReplicationThrottle)
    follower_stuck: Callable[[Replica, int], object] = lambda replica, offset: None

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
        """What was read, or, if that is too little, a Deferred of what there is later."""
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
                if fetch_params.is_replica:
                    self._read_for_follower(result, replica, left, fetch_params, thread, min_one=size == 0)
                else:
                    self._read_for_consumer(result, replica, left, fetch_params, thread, min_one=size == 0)
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
                size += len(result.data)
                left = max(0, max_bytes - size)
            elif result.diverging is not None or result.preferred != -1:
                urgent = True
            elif fetch_params.is_replica and self.selector is not None and fetch.told is not None:
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
        """What requests that were woken together may share, while they are completed."""
        return self._purgatory.shared

    def read_ahead(
        self, fetch: PartitionFetch, limits: ReadAheadLimits, fetch_params: FetchParams, *, least_at_end: int
    ) -> ReadAhead:
        """
        What a consumer gets by fetches of one partition that go on where the one before ended.

        It ends before what a fetch would not simply get: where something must be loaded, where transactions were
        aborted, at an error.

        :param least_at_end: bytes of the one that has the last record that can be read: with fewer, it is left out.
        """
        result = PartitionFetchResult(fetch)
        found: list[FileSlice] = []
        end_offset = fetch.offset
        replica = self._replicas.find(fetch.topic, fetch.partition)
        if replica is None or fetch.topic_id not in (None, replica.topic_id):
            return ReadAhead(result, found, end_offset)
        log, committed, size = replica.log, fetch_params.committed, fetch.max_bytes
        files: set[HasFileno] = set()
        left = limits.bytes
        try:
            self._read_for_consumer(result, replica, size, fetch_params, get_ident(), min_one=True)
            data, read_to, offset = result.data, result.read_to, fetch.offset
            with CachedOnly(log.disk):
                # Since more follows, the least bytes of a fetch are not waited for.
                while data is not None and data.data is None:
                    if read_to >= result.end and data.length < least_at_end:
                        break
                    files.add(data.file)
                    if len(files) > limits.files or (committed and log.aborted_transactions(offset, read_to)):
                        break
                    found.append(data)
                    end_offset = read_to
                    left -= data.length
                    if left <= 0 or len(found) == limits.reads:
                        break
                    offset, read = read_to, replica.read(read_to, size, committed=committed, min_one=True)
                    data, read_to = read.data, read.end_offset
        except (ApiError, StorageError, NotCached):
            pass  # Who fetches so far gets the error, or waits.
        return ReadAhead(result, found, end_offset)

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

    def _read_for_consumer(
        self,
        result: PartitionFetchResult,
        replica: Replica,
        left: int,
        fetch_params: FetchParams,
        thread: int,
        *,
        min_one: bool,
    ) -> None:
        fetch, log, partition = result.fetch, replica.log, replica.partition
        if partition.is_leader or not fetch_params.follows:
            partition.check_leader(fetch.current_leader_epoch)
        else:
            partition.check_epoch(fetch.current_leader_epoch)
        result.high_watermark = result.end = high_watermark = partition.high_watermark
        result.last_stable_offset = stable = log.last_stable_offset(high_watermark)
        result.log_start_offset = log.log_start_offset
        if fetch_params.committed:
            result.end, result.aborted = stable, ()
        if fetch.last_fetched_epoch != NO_EPOCH and self._diverges(result, replica):
            return
        if not partition.is_leader and high_watermark < fetch.offset <= log.log_end_offset:
            # By the leader it is committed, or the consumer would not fetch from it.
            raise ApiError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{replica.topic_partition}: offset {fetch.offset} is not known to be committed on this follower yet",
            )
        if fetch_params.rack and self.selector is not None and partition.is_leader:
            result.preferred = self.selector.select(partition, fetch.offset, fetch_params.rack)
            if result.preferred != -1:
                return
        if left <= 0 and not min_one:
            # Nothing more fits; but an offset that does not exist must not look like the end of the log.
            if not log.log_start_offset <= fetch.offset <= log.log_end_offset:
                raise log.out_of_range(fetch.offset)
            return
        if fetch.offset == result.end:
            # The usual one that has to wait.
            result.read_to = fetch.offset
            return
        # As CachedOnly does, in half a microsecond less.
        disk = log.disk
        before, disk.cached_only = disk.cached_only, thread
        try:
            found = replica.read(
                fetch.offset, min(left, fetch.max_bytes), committed=fetch_params.committed, min_one=min_one
            )
            if fetch_params.committed and found.data is not None:
                result.aborted = log.aborted_transactions(fetch.offset, found.end_offset)
        finally:
            disk.cached_only = before
        result.data, result.read_to = found.data, found.end_offset

    def _read_for_follower(
        self,
        result: PartitionFetchResult,
        replica: Replica,
        left: int,
        fetch_params: FetchParams,
        thread: int,
        *,
        min_one: bool,
    ) -> None:
        fetch, log = result.fetch, replica.log
        follower = replica.partition.follower(
            fetch_params.broker_id, fetch.current_leader_epoch, fetch_params.broker_epoch
        )
        result.log_start_offset = log.log_start_offset
        if fetch.last_fetched_epoch == NO_EPOCH or not self._diverges(result, replica):
            # Note the follower's offset first: that may move the high watermark, which goes into the answer.
            replica.fetched(follower, OffsetAndStart(fetch.offset, fetch.log_start_offset))
            if (
                fetch.offset < log.local_start_offset
                and log.remote is not None
                and fetch.offset >= log.log_start_offset
            ):
                # The follower takes over what remote storage has, instead of copying it from there through here.
                raise ApiError(
                    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
                    f"{replica.topic_partition}: offset {fetch.offset} is in remote storage; local from "
                    f"{log.local_start_offset} on",
                )
            if not self.throttle.is_throttled(replica, follower):
                disk = log.disk
                before, disk.cached_only = disk.cached_only, thread
                try:
                    found = log.read(fetch.offset, min(left, fetch.max_bytes), None, min_one)
                finally:
                    disk.cached_only = before
                result.data, result.read_to = found.data, found.end_offset
                if result.data is not None:
                    self.throttle.sent(replica, follower, len(result.data))
                    if follower.given_at == fetch.offset:
                        self.follower_stuck(replica, fetch.offset)
                    follower.given_at = fetch.offset
        result.high_watermark = replica.high_watermark
        result.last_stable_offset = replica.last_stable_offset
        result.end = log.log_end_offset

    def _diverges(self, result: PartitionFetchResult, replica: Replica) -> bool:
        """
        Whether the client's log diverges from this one.

        :raise ApiError: OFFSET_OUT_OF_RANGE: its last epoch is before all epochs of this log.
        """
        fetch, log = result.fetch, replica.log
        if fetch.last_fetched_epoch == log.epochs.latest and fetch.offset <= log.log_end_offset:
            return False  # The newest epoch reaches to the log's end: the usual case, without a search.
        ours = log.end_offset_for_epoch(fetch.last_fetched_epoch)
        if ours.epoch == NO_EPOCH:
            raise log.out_of_range(fetch.offset)
        if ours.epoch < fetch.last_fetched_epoch or ours.offset < fetch.offset:
            result.diverging = ours
        return result.diverging is not None
