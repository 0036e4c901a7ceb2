"""
Reads one partition for a fetch (Kafka: Partition.fetchRecords).

Consumers read committed records, from the leader or, if they support it, from a follower (KIP-392).  Followers read up
to the log's end, from the leader only, whose view of their logs it updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import get_ident

from attrs import define, field, frozen

from logbus.cluster.replication.partition_fetch import FetchParams, PartitionFetch, PartitionFetchResult
from logbus.cluster.replication.replica import Replica
from logbus.cluster.replication.replica_selector import RackAwareReplicaSelector
from logbus.cluster.replication.replication_throttle import ReplicationThrottle
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.model import NO_EPOCH
from logbus.records.file_slice import FileSlice, HasFileno
from logbus.storage.filesystem.cached_only import CachedOnly
from logbus.storage.istorage import NotCached
from logbus.storage.log import Log


@frozen
class ReadAheadLimits:
    """
    The limits of reading ahead.

    :ivar reads: number of fetches; ``bytes``: of records, about; ``files``: in which they are.
    """

    reads: int
    bytes: int
    files: int


@frozen
class ReadAhead:
    """
    The data for a consumer's next fetches.

    :ivar result: the numbers of the first one's result.
    :ivar records: of each;  ``end_offset``: where the last one ends.
    """

    result: PartitionFetchResult
    records: Sequence[FileSlice]
    end_offset: int


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
        self,
        fetch: PartitionFetch,
        replica: Replica,
        limits: ReadAheadLimits,
        fetch_params: FetchParams,
        *,
        least_at_end: int,
    ) -> ReadAhead:
        """
        Read what a consumer gets by fetches of one partition that go on where the one before ended.

        It ends before what a fetch would not simply get: where something must be loaded, where transactions were
        aborted, at an error.

        :param least_at_end: bytes of the one that has the last record that can be read: with fewer, it is left out.
        """
        result = PartitionFetchResult(fetch)
        found: list[FileSlice] = []
        end_offset = fetch.offset
        log, committed, size = replica.log, fetch_params.committed, fetch.max_bytes
        files: set[HasFileno] = set()
        left = limits.bytes
        try:
            self.read_for_consumer(result, replica, size, fetch_params, get_ident(), min_one=True)
            most = min(limits.reads, -(-left // max(1, size)))
            with CachedOnly(log.disk):
                for data, read_to in self._reads(result, log, size, most):
                    # Since more follows, the least bytes of a fetch are not waited for.
                    if data.data is not None or (read_to >= result.end and data.length < least_at_end):
                        break
                    files.add(data.file)
                    if len(files) > limits.files or (committed and log.aborted_transactions(end_offset, read_to)):
                        break
                    found.append(data)
                    end_offset = read_to
                    left -= data.length
                    if left <= 0 or len(found) == limits.reads:
                        break
        except (ApiError, StorageError, NotCached):
            pass  # Who fetches so far gets the error, or waits.
        return ReadAhead(result, found, end_offset)

    @staticmethod
    def _reads(result: PartitionFetchResult, log: Log, max_bytes: int, most: int) -> Iterator[tuple[FileSlice, int]]:
        """What a first read has given, and what those after it give, so many looked up at a time."""
        reads: Sequence[tuple[FileSlice, int]] = () if result.data is None else [(result.data, result.read_to)]
        while reads:
            yield from reads
            reads = log.read_on(reads[-1][1], max_bytes, result.end, most)

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
