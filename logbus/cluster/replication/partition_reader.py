"""
Reads one partition for a fetch (Kafka: Partition.fetchRecords).

Consumers read committed records, from the leader or, if they support it, from a follower (KIP-392).  Followers read up
to the log's end, from the leader only, whose view of their logs it updates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident

from attrs import define, field, frozen

from logbus.cluster.replication.partition_fetch import FetchParams, PartitionFetch, PartitionFetchResult
from logbus.cluster.replication.replica import Replica
from logbus.cluster.replication.replica_selector import RackAwareReplicaSelector
from logbus.cluster.replication.replication_throttle import ReplicationThrottle
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.model import NO_EPOCH
from logbus.records.file_slice import BatchRange
from logbus.storage.filesystem.cached_only import CachedOnly
from logbus.storage.istorage import NotCached
from logbus.storage.log import Log

_FIRST_LOOK = 1 << 12
"""Offsets among which aborted transactions are looked for at first."""


@frozen
class ReadAhead:
    """
    What lies ahead of a consumer.

    :ivar result: of its next fetch.
    :ivar ranges: the batches that it and those that follow get, in order.
    """

    result: PartitionFetchResult
    ranges: Sequence[BatchRange]


@define(eq=False)
class PartitionReader:
    """
    Reads single partitions.

    :ivar selector: selects replicas near consumers; None: all read from the leader.
    :ivar throttle: limits what followers get.
    :ivar follower_stuck: called when a follower fetches again from an offset at which it got records.
    """

    selector: RackAwareReplicaSelector | None = None
    throttle: ReplicationThrottle = field(factory=ReplicationThrottle)
    follower_stuck: Callable[[Replica, int], object] = lambda replica, offset: None

    def read_for_consumer(
        self,
        result: PartitionFetchResult,
        replica: Replica,
        left: int,
        fetch_params: FetchParams,
        thread: int,
        *,
        min_one: bool,
    ) -> None:
        """
        Read for a consumer: committed records, or a pointer to a replica nearer to it.

        :param left: bytes that the whole answer may still get; ``min_one``: more if the first batch is larger.
        :param thread: the one that reads only what is in the page cache (:class:`.CachedOnly`); 0: none.
        :raises NotCached: something must be loaded first.
        """
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

    def read_for_follower(
        self,
        result: PartitionFetchResult,
        replica: Replica,
        left: int,
        fetch_params: FetchParams,
        thread: int,
        *,
        min_one: bool,
    ) -> None:
        """Note how far a follower is, and read for it; arguments as of :meth:`read_for_consumer`."""
        fetch, log, partition = result.fetch, replica.log, replica.partition
        follower = partition.follower(fetch_params.broker_id, fetch.current_leader_epoch, fetch_params.broker_epoch)
        result.log_start_offset = log.log_start_offset
        epoch = fetch.last_fetched_epoch
        if (
            epoch == NO_EPOCH
            or (epoch == log.epochs.latest and fetch.offset <= log.log_end_offset)
            or not self._diverges(result, replica)
        ):
            # Note the follower's offset first: that may move the high watermark, which goes into the answer.
            replica.fetched(follower, fetch.offset, fetch.log_start_offset)
            if (
                log.remote is not None
                and fetch.offset < log.local_start_offset
                and fetch.offset >= log.log_start_offset
            ):
                # The follower takes over what remote storage has, instead of copying it from there through here.
                raise ApiError(
                    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
                    f"{replica.topic_partition}: offset {fetch.offset} is in remote storage; local from "
                    f"{log.local_start_offset} on",
                )
            if fetch.offset == log.log_end_offset:
                # The usual one that has to wait.
                result.read_to = fetch.offset
            elif not self.throttle.is_throttled(replica, follower):
                disk = log.disk
                before, disk.cached_only = disk.cached_only, thread
                try:
                    found = log.read(fetch.offset, min(left, fetch.max_bytes), None, min_one)
                finally:
                    disk.cached_only = before
                result.data, result.read_to = found.data, found.end_offset
                if result.data is not None:
                    self.throttle.sent(replica, follower, result.data.length)
                    if follower.given_at == fetch.offset:
                        self.follower_stuck(replica, fetch.offset)
                    follower.given_at = fetch.offset
        result.high_watermark = high_watermark = partition.high_watermark
        result.last_stable_offset = log.last_stable_offset(high_watermark)
        result.end = log.log_end_offset

    def read_ahead(
        self, fetch: PartitionFetch, replica: Replica, fetch_params: FetchParams, segments: int, enough: int
    ) -> ReadAhead:
        """
        Find what a consumer gets by fetches of one partition that go on where the one before ended.

        It ends before what a fetch would not simply get: where something must be loaded, where transactions were
        aborted, at an error.

        :param segments: at most so many have it; ``enough``: and no more than have so many bytes.
        """
        result, log = PartitionFetchResult(fetch), replica.log
        ranges: Sequence[BatchRange] = ()
        try:
            self.read_for_consumer(result, replica, fetch.max_bytes, fetch_params, get_ident(), min_one=True)
            if result.data is not None and not result.aborted:
                with CachedOnly(log.disk):
                    bound = _before_aborts(log, fetch.offset, result.end) if fetch_params.committed else result.end
                    ranges = log.ranges(fetch.offset, bound, segments, enough)
        except (ApiError, StorageError, NotCached):
            pass  # Who fetches so far gets the error, or waits.
        return ReadAhead(result, ranges)

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


def _before_aborts(log: Log, offset: int, end: int) -> int:
    """The last offset up to ``end`` before which there are no records of aborted transactions, from ``offset`` on."""
    looked = _FIRST_LOOK
    while True:
        # There may be many: so few offsets are looked at first.
        bound = min(end, offset + looked)
        if aborted := log.aborted_transactions(offset, bound):
            return max(offset, min(one.first_offset for one in aborted))
        if bound == end:
            return end
        looked *= 4
