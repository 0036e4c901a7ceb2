"""
Fetches the partitions that one broker leads, in a loop (Kafka: ReplicaFetcherThread).

All records of an answer are appended before the next fetch, in the reactor turn in which the answer came: they are
appended from the receive buffer without a copy. A slow operation leaves only its own partition out of the fetches: a
truncation, a pause after an error and, where the topic flushes before it acknowledges, a sync. A fetch offset
acknowledges all records before it, so such a partition is fetched again only from its synced end.

The loop waits a little for syncs, so that one fetch acknowledges many partitions; it does not wait for slow ones.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectError
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.follower.divergence import (
    RefuseToFollow,
    RetryLater,
    TruncationStep,
    after_divergence,
    after_out_of_range,
)
from logbus.cluster.follower.fetch_session_handler import FINAL_EPOCH, FetchPosition, FetchSessionHandler, Key
from logbus.cluster.follower.fetch_settings import ReplicaFetchCounters, ReplicaFetchSettings
from logbus.cluster.follower.partition_fetch_state import PartitionFetchState, retry_delay
from logbus.cluster.follower.tier_state_machine import RemoteState, TierStateMachine, no_remote_storage
from logbus.cluster.follower.truncator import Truncator
from logbus.cluster.replication.replication_throttle import FollowerThrottle
from logbus.errors import ApiError, ErrorCode, LogbusError, StorageError, error_of
from logbus.model import OffsetAndEpoch
from logbus.net.channel import Channel
from logbus.records.header import first_offset
from logbus.storage.auxiliary_state import AuxiliaryState
from logbus.storage.log_manager import LogManager
from logbus.timers import Timers
from logbus.wire.messages.records import FetchRequest, FetchResponse, PartitionData, ReplicaState

SYNC_WAIT_SECONDS = 0.02
"""Seconds that the next fetch waits for syncs, and that a leader may hold it back while some are under way."""

QUIET_FAILURES = 6
"""Errors of :data:`_ROLE_ERRORS` in a row for one partition before a warning: some two seconds."""

_ROLE_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
    }
)
"""Errors of a leader that has not got the metadata update about its election, or the next one, yet."""

MAX_SYNC_WAITS = 4
"""Multiple of ``replica.fetch.max.bytes`` that may be fetched of one partition: more would hold up others."""

ChannelFor = Callable[[int, str], Deferred[Channel]]
"""Returns the connection to a broker for a purpose."""

_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


@define(eq=False)
class ReplicaFetcher:
    """
    Fetches the partitions that one broker leads and this one follows.

    :ivar leader: its broker id.
    :ivar followed: by topic id and partition number.
    :ivar leader_incomplete: called, with the reason, when the leader lacks committed records that this broker has.
    :ivar remote_state: see :data:`.RemoteState`.
    :ivar failures: of fetches as a whole, in a row.
    """

    leader: int
    broker_id: int
    broker_epoch: Callable[[], int]
    logs: LogManager
    channel_for: ChannelFor
    timers: Timers
    settings: Callable[[], ReplicaFetchSettings]
    counters: ReplicaFetchCounters
    throttle: FollowerThrottle = field(factory=FollowerThrottle)
    leader_incomplete: Callable[[PartitionFetchState, str], object] = lambda followed, reason: None
    remote_state: RemoteState = no_remote_storage
    followed: dict[Key, PartitionFetchState] = field(factory=dict, init=False)
    failures: int = field(default=0, init=False)
    problem: str = field(default="", init=False)
    _session: FetchSessionHandler = field(factory=FetchSessionHandler, init=False)
    _fetched_in: int = field(default=-1, init=False)
    _channel: Channel | None = field(default=None, init=False)
    _wake: Deferred[None] | None = field(default=None, init=False)
    _fresh_syncs: set[PartitionFetchState] = field(factory=set, init=False)
    _truncator: Truncator = field(init=False)
    _tiers: TierStateMachine = field(init=False)
    _log = Logger()

    @_truncator.default
    def _one_truncator(self) -> Truncator:
        return Truncator(self.leader, self.logs, self.counters, self._truncated)

    @_tiers.default
    def _one_tier_state_machine(self) -> TierStateMachine:
        return TierStateMachine(self.leader, self.broker_id, self.channel_for, self.remote_state)

    # What is followed.

    def add(self, followed: PartitionFetchState) -> None:
        """Begin to fetch a partition."""
        self.followed[followed.key] = followed
        self._ready(followed)

    def remove(self, followed: PartitionFetchState) -> Deferred[None]:
        """Stop fetching a partition; fires once nothing changes its log."""
        if self.followed.get(followed.key) is followed:
            del self.followed[followed.key]
            self._session.drop(followed.key)
        return followed.end()

    def _ready(self, followed: PartitionFetchState) -> None:
        """Fetch a partition from its log's end, which is synced first if the topic flushes before it acknowledges."""
        if followed.ended or followed.is_truncating or followed.is_flushing:
            return
        followed.pause = None
        try:
            if not followed.is_synced:
                self._sync(followed)
                return
            ask = followed.ask()
        except (ApiError, StorageError) as e:
            self._later(followed, str(e))
            return
        if pause := self.throttle.pause(followed.replica, followed.lag):
            self._session.drop(followed.key)
            self._again_in(followed, pause)
            return
        self._session.want(followed.key, ask)
        self._woken()

    def _sync(self, followed: PartitionFetchState) -> None:
        self._session.drop(followed.key)
        followed.is_flushing = True
        self._fresh_syncs.add(followed)

        def over() -> None:
            followed.is_flushing = False
            self._fresh_syncs.discard(followed)

        def synced(_: object) -> None:
            over()
            self._ready(followed)

        def failed(failure: Failure) -> None:
            over()
            self._later(followed, failure.getErrorMessage())
            self._woken()

        followed.replica.log.flush().addCallbacks(synced, failed)

    def _later(
        self, followed: PartitionFetchState, problem: str, longest: float | None = None, *, passes: bool = False
    ) -> None:
        """
        Leave a partition out for a while after an error.

        :param passes: the error is likely to pass, and is logged as a warning only if it does not.
        """
        if followed.ended:
            return
        self._session.drop(followed.key)
        followed.failures += 1
        if passes and followed.failures < QUIET_FAILURES:
            self._log.debug("{partition}: {problem}", partition=followed.name, problem=problem)
        elif problem != followed.problem:
            followed.problem = problem
            self._log.warn(
                "{partition} does not get on behind broker {leader}: {problem}",
                partition=followed.name, leader=self.leader, problem=problem,
            )  # fmt: skip
        self._again_in(
            followed, retry_delay(followed.failures, self.settings().backoff) if longest is None else longest
        )

    def _again_in(self, followed: PartitionFetchState, pause: float) -> None:
        followed.due = self.timers.clock.seconds() + pause
        if followed.pause is not None:
            followed.pause.cancel()
        followed.pause = self.timers.call_later(pause, lambda: self._ready(followed))

    # The loop.

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            try:
                if self._fresh_syncs:
                    await self._await_syncs()
                if len(self._session):
                    await self._turn()
                else:
                    await self._something_to_do()
            except CancelledError:
                self._close_session()
                raise
            except Exception as e:
                await self._failed(e)

    async def _turn(self) -> None:
        response = await self._fetch()
        self.counters.fetches += 1
        if response.error_code in _SESSION_ERRORS and not self.failures:
            # The leader restarted, or dropped the session: begin a new one.
            self.failures = 1
            self._session.reset()
            return
        if response.error_code:
            raise error_of(response.error_code, f"broker {self.leader} refuses the fetch")
        if self.problem:
            self._log.info("fetching from broker {leader} works again", leader=self.leader)
        self.failures, self.problem = 0, ""
        self._session.answered(response.session_id)
        for topic in response.responses:
            topic_id = bytes(topic.topic_id)
            for data in topic.partitions:
                followed = self.followed.get((topic_id, data.partition_index))
                if followed is None:
                    continue
                try:
                    self._take(followed, data)
                except Exception as e:
                    # A defect here; the other partitions are not concerned.
                    self._log.failure("following {partition}", partition=followed.name)
                    self._later(followed, repr(e))

    async def _fetch(self) -> FetchResponse:
        settings = self.settings()
        channel = self._channel = await self.channel_for(self.leader, "fetch")
        wait_ms = self._wait_ms(settings)
        session, broker_epoch = self._session, self.broker_epoch()
        if broker_epoch != self._fetched_in:
            # The leader needs a fetch of every partition with the new broker epoch; a continued session would not name
            # idle partitions.
            session.reset()
            self._fetched_in = broker_epoch
        topics, forgotten = session.next_fetch(self._share(settings))
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self.broker_id, replica_epoch=broker_epoch),
            max_wait_ms=wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        response: FetchResponse = await channel.request(request, timeout=wait_ms / 1000 + settings.timeout)
        return response

    def _share(self, settings: ReplicaFetchSettings) -> int:
        """Bytes to fetch of one partition: more than usual where few are busy, since every fetch has a cost."""
        fair = settings.response_max_bytes // max(1, self._session.named)
        return max(settings.max_bytes, min(MAX_SYNC_WAITS * settings.max_bytes, fair))

    def _wait_ms(self, settings: ReplicaFetchSettings) -> int:
        """Maximum wait of the fetch at the leader: at most until another partition is ready to be fetched."""
        seconds = settings.wait_max_ms / 1000
        now = self.timers.clock.seconds()
        if len(self._session) < len(self.followed):
            for followed in self.followed.values():
                if followed.is_flushing or followed.is_truncating:
                    seconds = min(seconds, SYNC_WAIT_SECONDS)
                elif followed.pause is not None:
                    seconds = min(seconds, max(followed.due - now, SYNC_WAIT_SECONDS))
        return int(seconds * 1000)

    async def _failed(self, error: Exception) -> None:
        self._session.reset()
        self.failures += 1
        self.counters.failed_fetches += 1
        problem = str(error)
        if problem != self.problem:
            self.problem = problem
            self._log.warn("cannot fetch from broker {leader}: {problem}", leader=self.leader, problem=problem)
        if not isinstance(error, (LogbusError, OSError, ConnectError)):
            self._log.failure("fetching from broker {leader}", leader=self.leader)
        paused: Deferred[None] = Deferred()
        pause = retry_delay(self.failures, self.settings().backoff)
        timer = self.timers.call_later(pause, lambda: paused.callback(None))
        try:
            await paused
        finally:
            timer.cancel()

    async def _something_to_do(self) -> None:
        """Returns once a partition becomes ready, or stops being so."""
        self._wake = Deferred()
        await self._wake

    async def _await_syncs(self) -> None:
        """Returns once the syncs under way are done, or after :data:`SYNC_WAIT_SECONDS`."""

        def enough() -> None:
            self._fresh_syncs.clear()
            self._woken()

        timer = self.timers.call_later(SYNC_WAIT_SECONDS, enough)
        try:
            while self._fresh_syncs:
                await self._something_to_do()
        finally:
            timer.cancel()

    def _woken(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None and not wake.called:
            wake.callback(None)

    def _close_session(self) -> None:
        """Close the fetch session at the leader, without waiting for the answer."""
        session, channel = self._session, self._channel
        if session.session_id and channel is not None and channel.usable:
            request = FetchRequest(
                replica_state=ReplicaState(replica_id=self.broker_id, replica_epoch=self.broker_epoch()),
                max_wait_ms=0, min_bytes=0, session_id=session.session_id, session_epoch=FINAL_EPOCH, topics=[],
            )  # fmt: skip
            channel.request(request).addErrback(lambda _: None)

    # The answer for one partition.

    def _take(self, followed: PartitionFetchState, data: PartitionData) -> None:
        session, key = self._session, followed.key
        ask = session.asked.get(key)
        if ask is None or session.wanted.get(key) != ask:
            return  # The fetch position has changed since the request.
        if not followed.is_at(ask):
            # The log was written or truncated since: the answer is about another state of it.
            self._ready(followed)
            return
        code, diverging = data.error_code, data.diverging_epoch
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._follow_up(followed, after_out_of_range(followed.own(), data.log_start_offset))
        elif code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            self._follow_remote(followed, data.log_start_offset)
        elif code:
            self.counters.failed_partitions += 1
            refusal = error_of(code, "")
            problem = f"it answers {refusal.code.name}"
            self._later(followed, problem, passes=code in _ROLE_ERRORS)
        elif diverging is not None and diverging.end_offset >= 0:
            self._follow_up(
                followed, after_divergence(followed.own(), OffsetAndEpoch(diverging.end_offset, diverging.epoch))
            )
        else:
            self._append(followed, ask, data)

    def _append(self, followed: PartitionFetchState, ask: FetchPosition, data: PartitionData) -> None:
        replica, records = followed.replica, data.records
        log, size = replica.log, len(records) if records else 0
        if size and log.log_start_offset == log.log_end_offset and first_offset(records) < ask.offset:  # type: ignore[arg-type]
            # The leader's log starts in the middle of a batch, and so must this one.
            self._session.drop(followed.key)
            self._truncator.restart_within(followed, ask.offset, bytes(records), data.high_watermark)  # type: ignore[arg-type]
            return
        problem = ""
        try:
            replica.follow(records or b"", data.high_watermark)  # type: ignore[arg-type]
            if size and log.log_end_offset == ask.offset:
                problem = f"{size} bytes from offset {ask.offset} on are no whole batch"
            started = data.log_start_offset > log.log_start_offset and log.advance_start(
                min(data.log_start_offset, log.log_end_offset)
            )
        except StorageError as e:
            self._later(followed, str(e))
            return
        except ApiError as e:
            problem = e.message
            if e.code is not ErrorCode.CORRUPT_MESSAGE:
                self.counters.failed_partitions += 1
                self._later(followed, problem)
                return
        self.counters.records += log.log_end_offset - ask.offset
        self.counters.bytes += size
        self.throttle.fetched(replica, followed.lag, size)
        followed.lag = max(0, data.high_watermark - log.log_end_offset)
        if problem:
            self.counters.failed_partitions += 1
            self.counters.corrupt_batches += 1
            self._later(followed, problem)
            return
        followed.failures, followed.problem = 0, ""
        if size or started:
            # A DeleteRecords request at the leader waits until it knows the new start.
            self._ready(followed)

    # Remote storage.

    def _follow_remote(self, followed: PartitionFetchState, log_start_offset: int) -> None:
        """Begin behind what only remote storage has; nothing is fetched meanwhile."""
        self._session.drop(followed.key)

        def failed(failure: Failure) -> None:
            self.counters.failed_partitions += 1
            if not failure.check(LogbusError, OSError, ConnectError):
                self._log.failure("following {partition}", failure, partition=followed.name)
            self._later(followed, failure.getErrorMessage())

        def found(state: AuxiliaryState) -> None:
            if not followed.ended:
                self._truncator.begin_behind(followed, state)

        Deferred.fromCoroutine(self._tiers.state_of(followed, log_start_offset)).addCallback(found).addErrback(failed)

    # Divergence.

    def _follow_up(self, followed: PartitionFetchState, step: TruncationStep) -> None:
        if isinstance(step, RetryLater):
            self.counters.failed_partitions += 1
            self._later(followed, step.reason)
        elif isinstance(step, RefuseToFollow):
            self.counters.failed_partitions += 1
            self.counters.refused_truncations += 1
            if step.reason != followed.problem:
                self._log.critical(
                    "{partition}: broker {leader}, epoch {epoch}, is not followed: {reason}; the log stays as it is",
                    partition=followed.name, leader=self.leader, epoch=followed.leader_epoch, reason=step.reason,
                )  # fmt: skip
            self.leader_incomplete(followed, step.reason)
            self._later(followed, step.reason, self.settings().backoff)
        else:
            self._session.drop(followed.key)
            self._truncator.begin(followed, step)

    def _truncated(self, followed: PartitionFetchState, problem: str) -> None:
        if problem:
            self._later(followed, problem)
        else:
            self._ready(followed)
