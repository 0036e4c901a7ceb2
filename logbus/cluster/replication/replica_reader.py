"""
Fetches: read what is there, or wait until there is enough.

A fetch names partitions and offsets (:class:`PartitionFetch`), and gets an answer for each
(:class:`PartitionFetchResult`).  It is answered at
once when there are ``min_bytes``, when something is wrong, or when it must not wait; else it waits in the purgatory,
woken by the replicas it wants, and reads again when enough may have come (Kafka's DelayedFetch).

A read of a partition stops at the end of a segment, and before a batch that does not fit.  When more records follow
there, the fetch is answered at once, even with less than ``min_bytes``: waiting would bring it no more of that
partition, and its next fetch goes on behind.

Consumers read what is committed, from the leader or, where they know how, from a follower (KIP-392).  Followers read
up to the log's end, from the leader alone, which learns by that what they have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from attrs import define, field, frozen
from twisted.internet.defer import Deferred

from logbus.cluster.replication.follower_state import FollowerState
from logbus.cluster.replication.purgatory import DelayedOperation, Purgatory
from logbus.cluster.replication.replica import UNKNOWN_SIZE, OffsetAndStart, Replica, Watcher
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.cluster.replication.replica_selector import ReplicaSelector
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.model import NO_EPOCH, OffsetAndEpoch
from logbus.net.time_slices import TimeSlice
from logbus.records.file_slice import FileSlice
from logbus.storage.segments.transaction_index import AbortedTransaction

PARTITIONS_AT_A_TIME = 100
"""Partitions of a large fetch that are read before others may have a turn."""

UNITS_TO_READ = 2
"""Units of a time slice that it takes to read one partition."""


@frozen
class FetchParams:
    """
    Who fetches.

    :ivar committed: wants committed transactions only.
    :ivar broker_id: of the follower that asks, −1 for a consumer; ``broker_epoch``: of its life.
    :ivar follows: a consumer that may be sent to a follower, and served by one (Fetch 11 and later).
    :ivar rack: where that consumer is; empty if it does not say.
    """

    committed: bool = False
    broker_id: int = -1
    broker_epoch: int = -1
    follows: bool = False
    rack: str = ""

    @property
    def is_replica(self) -> bool:
        """Whether it is a follower."""
        return self.broker_id >= 0


CONSUMER = FetchParams()
COMMITTED_CONSUMER = FetchParams(committed=True)


class ReplicationThrottle:
    """Holds replication back; this one does not."""

    def is_throttled(self, replica: Replica, follower: FollowerState) -> bool:
        """Whether a follower gets no records of ``replica`` for now."""
        return False

    def sent(self, replica: Replica, follower: FollowerState, size: int) -> None:
        """A follower gets so many bytes of ``replica``."""


@define(eq=False, slots=True)
class PartitionFetch:
    """
    One partition of a fetch.

    :ivar max_bytes: at most so much of this partition, but for the first batch of the whole answer.
    :ivar current_leader_epoch: the epoch the client believes in (−1: no check).
    :ivar last_fetched_epoch: epoch of the last record the client has (−1: no check for divergence).
    :ivar topic_id: the topic that is meant, where the client said which; another one of that name is not.
    :ivar log_start_offset: where the log of a follower begins.
    :ivar told: the high watermark, last stable offset and log start offset that the client was told last, if known.
    :ivar refused: set when the partition cannot even be looked for, for example because its topic id is unknown.
    """

    topic: str
    partition: int
    offset: int
    max_bytes: int
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    topic_id: UUID | None = None
    log_start_offset: int = -1
    told: tuple[int, int, int] | None = None
    refused: ApiError | None = None


@define(eq=False, slots=True)
class PartitionFetchResult:
    """
    What one partition answers.

    :ivar end: where reading stops for now: nothing more is given from there on.
    :ivar read_to: the offset that this read came to: ``data`` lies below it; −1 if nothing was read.
    :ivar preferred: the broker to read from instead (KIP-392), −1 for this one.
    :ivar aborted: the transactions whose records in ``data`` do not count, by their first offset; None: the client
        reads all there is.
    :ivar diverging: where the client's log stops being a prefix of ours (KIP-595), instead of records.
    """

    want: PartitionFetch
    error: ApiError | None = None
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    end: int = -1
    read_to: int = -1
    preferred: int = -1
    data: FileSlice | None = None
    aborted: Sequence[AbortedTransaction] | None = None
    diverging: OffsetAndEpoch | None = None


class FetchContext(Protocol):
    """The partitions a fetch is about: those of one request, or those of a fetch session."""

    @property
    def empty(self) -> bool:
        """There is nothing to wait for."""

    def wants(self) -> Sequence[PartitionFetch]:
        """What to read now, in order."""

    def watch(self, watcher: Watcher) -> None:
        """Tell ``watcher`` when records become readable."""

    def unwatch(self, watcher: Watcher) -> None:
        """Tell it no more."""


@define(eq=False)
class SessionlessFetchContext:
    """
    The partitions of one request.

    :param to_log_end: it is told when records are written, instead of when they are committed.
    """

    _replicas: ReplicaManager
    _wants: Sequence[PartitionFetch]
    _to_log_end: bool = False
    _watched: list[Replica] = field(factory=list, init=False)

    @property
    def empty(self) -> bool:
        return not self._wants

    def wants(self) -> Sequence[PartitionFetch]:
        return self._wants

    def watch(self, watcher: Watcher) -> None:
        self._watched = [r for w in self._wants if (r := self._replicas.find(w.topic, w.partition)) is not None]
        for replica in self._watched:
            replica.watchers_for(self._to_log_end)[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        for replica in self._watched:
            replica.watchers_for(self._to_log_end).pop(watcher, None)


@define(eq=False)
class ReplicaReader:
    """
    Answers fetches from this broker's replicas.

    :ivar selector: sends consumers to a replica near them; None: all read from the leader.
    :ivar throttle: of what followers get.
    :ivar follower_stuck: told when a follower asks again for what it was given at an offset.
    """

    _replicas: ReplicaManager
    _purgatory: Purgatory
    selector: ReplicaSelector | None = None
    throttle: ReplicationThrottle = field(factory=ReplicationThrottle)
    follower_stuck: Callable[[Replica, int], object] = field(default=lambda replica, offset: None, init=False)

    def fetch(
        self, source: FetchContext, *, min_bytes: int, max_bytes: int, max_wait_ms: int, fetch_params: FetchParams
    ) -> list[PartitionFetchResult] | Deferred[list[PartitionFetchResult]]:
        """
        Read what ``source`` wants, in its order.

        :param min_bytes: to wait for, unless records follow that this answer has no place for.
        :param max_bytes: of the whole answer; the first batch found is given even when it is larger.
        :return: an answer for each want; a Deferred (cancellable) where it must wait for ``min_bytes``.
        """
        got, size, urgent = self.read(source.wants(), max_bytes, fetch_params)
        enough = min(min_bytes, max_bytes)
        if urgent or size >= enough or max_wait_ms <= 0 or source.empty or (size and self._more_follows(got)):
            return got

        found: list[list[PartitionFetchResult]] = []

        def ready() -> bool:
            """Enough may have come; of what transactions hold back, nobody knows how much but who reads."""
            if arrivals.missing > 0:
                return False
            if not fetch_params.committed:
                return True
            got, size, urgent = self.read(source.wants(), max_bytes, fetch_params)
            if not urgent and size < enough and not (size and self._more_follows(got)):
                arrivals.missing = enough - size
                return False
            found.append(got)
            return True

        delayed: DelayedOperation[list[PartitionFetchResult]] = self._purgatory.wait(
            max_wait_ms,
            ready=ready,
            answer=lambda: found.pop() if found else self.read(source.wants(), max_bytes, fetch_params)[0],
            leave=lambda: source.unwatch(arrivals),
        )
        if fetch_params.committed:
            stable = {(one.want.topic, one.want.partition): one.last_stable_offset for one in got}
            arrivals: _DelayedFetch = _CommittedDelayedFetch(self._purgatory, delayed, enough - size, stable)
        else:
            arrivals = _DelayedFetch(self._purgatory, delayed, enough - size)
        source.watch(arrivals)
        return delayed.deferred

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
        Read as :meth:`fetch` does, in time slices. If there is too little, wait once, and give what there is then.

        :param time_slice: that of the request.
        """
        got, size, urgent = await self._read_in_slices(source.wants(), max_bytes, fetch_params, time_slice)
        missing = min(min_bytes, max_bytes) - size
        if urgent or missing <= 0 or max_wait_ms <= 0 or source.empty or (size and self._more_follows(got)):
            return got
        nothing: list[PartitionFetchResult] = []
        delayed: DelayedOperation[list[PartitionFetchResult]] = self._purgatory.wait(
            max_wait_ms,
            ready=lambda: arrivals.missing <= 0,
            answer=lambda: nothing,
            leave=lambda: source.unwatch(arrivals),
        )
        arrivals = _DelayedFetch(self._purgatory, delayed, missing)
        source.watch(arrivals)
        await delayed.deferred
        return (await self._read_in_slices(source.wants(), max_bytes, fetch_params, time_slice))[0]

    async def _read_in_slices(
        self, wants: Sequence[PartitionFetch], max_bytes: int, fetch_params: FetchParams, time_slice: TimeSlice
    ) -> tuple[list[PartitionFetchResult], int, bool]:
        answers: list[PartitionFetchResult] = []
        size, urgent = 0, False
        for start in range(0, len(wants), PARTITIONS_AT_A_TIME):
            got, size, hurry = self.read(wants[start : start + PARTITIONS_AT_A_TIME], max_bytes, fetch_params, size)
            answers += got
            urgent = urgent or hurry
            if time_slice.used(UNITS_TO_READ * len(got)):
                await time_slice.next()
        return answers, size, urgent

    def read(
        self, wants: Sequence[PartitionFetch], max_bytes: int, fetch_params: FetchParams, size: int = 0
    ) -> tuple[list[PartitionFetchResult], int, bool]:
        """
        Read now: the answers, how many bytes are in them, and whether the client should hear of it at once.

        :param size: bytes that the answer has already.
        """
        answers: list[PartitionFetchResult] = []
        urgent, left = False, max(0, max_bytes - size)
        for want in wants:
            got = PartitionFetchResult(want)
            answers.append(got)
            try:
                if want.refused is not None:
                    raise want.refused
                replica = self._replicas.get(want.topic, want.partition)
                if want.topic_id is not None and want.topic_id != replica.topic_id:
                    raise ApiError(
                        ErrorCode.UNKNOWN_TOPIC_ID, f"{want.topic} has the id {replica.topic_id}, not {want.topic_id}"
                    )
                if fetch_params.is_replica:
                    self._read_for_follower(got, replica, left, fetch_params, min_one=size == 0)
                else:
                    self._read_for_consumer(got, replica, left, fetch_params, min_one=size == 0)
            except (ApiError, StorageError) as e:
                got.error = e if isinstance(e, ApiError) else ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(e))
                # Its frames hold the answers, which hold the error: memory that only the garbage collector frees.
                got.error.without_frames()
                urgent = True
                continue
            if got.data is not None:
                size += len(got.data)
                left = max(0, max_bytes - size)
            elif got.diverging is not None or got.preferred != -1:
                urgent = True
            elif fetch_params.is_replica and self.selector is not None and want.told is not None:
                # Its consumers wait for no record, but for the follower to hear that it is committed (KIP-392).
                urgent = urgent or want.told[0] != got.high_watermark
        return answers, size, urgent

    def _more_follows(self, answers: Sequence[PartitionFetchResult]) -> bool:
        """
        Whether a partition has records that were not given though they may be read: those of its next segment, or a
        batch that did not fit (Kafka's DelayedFetch, case F).

        :param answers: with records from at least one partition, so that the next fetch gets further.
        """
        for got in answers:
            if not 0 <= got.read_to < got.end:
                continue
            if got.data is not None:
                return True
            # Either its first batch did not fit behind those of others, or compaction left nothing up to the end.
            replica = self._replicas.find(got.want.topic, got.want.partition)
            try:
                if replica is not None and replica.log.read(got.want.offset, 0, got.end).data is not None:
                    return True
            except (ApiError, StorageError):
                return True  # The next fetch is told.
        return False

    def _read_for_consumer(
        self, got: PartitionFetchResult, replica: Replica, left: int, fetch_params: FetchParams, *, min_one: bool
    ) -> None:
        want, log, partition = got.want, replica.log, replica.partition
        if partition.is_leader or not fetch_params.follows:
            partition.check_leader(want.current_leader_epoch)
        else:
            partition.check_epoch(want.current_leader_epoch)
        got.high_watermark = replica.high_watermark
        got.last_stable_offset = replica.last_stable_offset
        got.log_start_offset = log.log_start_offset
        got.end = got.high_watermark
        if fetch_params.committed:
            got.end, got.aborted = got.last_stable_offset, ()
        if want.last_fetched_epoch != NO_EPOCH and self._diverges(got, replica):
            return
        if not partition.is_leader and got.high_watermark < want.offset <= log.log_end_offset:
            # The leader says that it is committed, or the consumer would not ask for it.
            raise ApiError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{replica.topic_partition}: offset {want.offset} is not known to be committed on this follower yet",
            )
        if fetch_params.rack and self.selector is not None and partition.is_leader:
            got.preferred = self.selector.select(partition, want.offset, fetch_params.rack)
            if got.preferred != -1:
                return
        if left <= 0 and not min_one:
            # Nothing more fits; but an offset that does not exist must not look like the end of the log.
            if not log.log_start_offset <= want.offset <= log.log_end_offset:
                raise log.out_of_range(want.offset)
            return
        found = replica.read(want.offset, min(left, want.max_bytes), committed=fetch_params.committed, min_one=min_one)
        got.data, got.read_to = found.data, found.end_offset
        if fetch_params.committed and got.data is not None:
            got.aborted = log.aborted_transactions(want.offset, found.end_offset)

    def _read_for_follower(
        self, got: PartitionFetchResult, replica: Replica, left: int, fetch_params: FetchParams, *, min_one: bool
    ) -> None:
        want, log = got.want, replica.log
        follower = replica.partition.follower(
            fetch_params.broker_id, want.current_leader_epoch, fetch_params.broker_epoch
        )
        got.log_start_offset = log.log_start_offset
        if want.last_fetched_epoch == NO_EPOCH or not self._diverges(got, replica):
            # First it is written down where the follower is: that may move the high watermark, which it is told.
            replica.fetched(follower, OffsetAndStart(want.offset, want.log_start_offset))
            if not self.throttle.is_throttled(replica, follower):
                found = log.read(want.offset, min(left, want.max_bytes), None, min_one)
                got.data, got.read_to = found.data, found.end_offset
                if got.data is not None:
                    self.throttle.sent(replica, follower, len(got.data))
                    if follower.given_at == want.offset:
                        self.follower_stuck(replica, want.offset)
                    follower.given_at = want.offset
        got.high_watermark = replica.high_watermark
        got.last_stable_offset = replica.last_stable_offset
        got.end = log.log_end_offset

    def _diverges(self, got: PartitionFetchResult, replica: Replica) -> bool:
        """
        Whether the client's log is no prefix of ours.

        :raise ApiError: OFFSET_OUT_OF_RANGE: its last epoch is before all that are known here.
        """
        want = got.want
        ours = replica.log.end_offset_for_epoch(want.last_fetched_epoch)
        if ours.epoch == NO_EPOCH:
            raise replica.log.out_of_range(want.offset)
        if ours.epoch < want.last_fetched_epoch or ours.offset < want.offset:
            got.diverging = ours
        return got.diverging is not None


@define(eq=False)
class _DelayedFetch:
    """Counts what arrives for a waiting fetch, and wakes it when it may be enough."""

    _purgatory: Purgatory
    _delayed: DelayedOperation[list[PartitionFetchResult]]
    missing: int

    def moved(self, replica: Replica, size: int) -> None:
        self.missing -= size
        if self.missing <= 0:
            self._purgatory.wake(self._delayed)


@define(eq=False)
class _CommittedDelayedFetch(_DelayedFetch):
    """
    The same for who reads what transactions committed: what comes behind an open transaction cannot be read yet.

    :ivar stable: the last stable offsets that are known of partitions.
    :ivar held: bytes that came behind them.
    """

    stable: dict[tuple[str, int], int]
    held: dict[tuple[str, int], int] = field(factory=dict, init=False)

    def moved(self, replica: Replica, size: int) -> None:
        name = replica.topic_partition
        stable = replica.last_stable_offset
        if size < UNKNOWN_SIZE and stable == self.stable.get(name):
            self.held[name] = self.held.get(name, 0) + size
            return
        self.stable[name] = stable
        super().moved(replica, size + self.held.pop(name, 0))
