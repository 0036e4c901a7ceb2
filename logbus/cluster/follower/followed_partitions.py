"""
The partitions that a fetcher follows, with their fetch positions; handles the answers for each.

A slow operation leaves only its own partition out of the fetches: a truncation, a pause after an error and, where the
topic flushes before it acknowledges, a sync. A fetch offset acknowledges all records before it, so such a partition is
fetched again only from its synced end.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred
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
from logbus.cluster.follower.fetch_session_handler import FetchPosition, FetchSessionHandler, Key
from logbus.cluster.follower.fetch_settings import ReplicaFetchCounters, ReplicaFetchSettings
from logbus.cluster.follower.partition_fetch_state import PartitionFetchState, retry_delay
from logbus.cluster.follower.tier_state_machine import TierStateMachine
from logbus.cluster.follower.truncator import Truncator
from logbus.cluster.replication.replication_throttle import FollowerThrottle
from logbus.errors import ApiError, ErrorCode, LogbusError, StorageError, error_of
from logbus.model import OffsetAndEpoch
from logbus.records.header import first_offset
from logbus.storage.auxiliary_state import AuxiliaryState
from logbus.storage.log_manager import LogManager
from logbus.timers import Timers
from logbus.wire.messages.records import PartitionData

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


@define(eq=False)
class FollowedPartitions:
    """
    The partitions that one broker leads and this one follows.

    :ivar leader: its broker id.
    :ivar leader_incomplete: called, with the reason, when the leader lacks committed records that this broker has.
    :ivar session: the fetch session with the leader; it has the partitions that are ready to be fetched.
    :ivar followed: by topic id and partition number.
    """

    leader: int
    logs: LogManager
    timers: Timers
    settings: Callable[[], ReplicaFetchSettings]
    counters: ReplicaFetchCounters
    throttle: FollowerThrottle
    tiers: TierStateMachine
    leader_incomplete: Callable[[PartitionFetchState, str], object]
    session: FetchSessionHandler = field(factory=FetchSessionHandler, init=False)
    followed: dict[Key, PartitionFetchState] = field(factory=dict, init=False)
    _change: Deferred[None] | None = field(default=None, init=False)
    _fresh_syncs: set[PartitionFetchState] = field(factory=set, init=False)
    _truncator: Truncator = field(init=False)
    _log = Logger()

    @_truncator.default
    def _one_truncator(self) -> Truncator:
        return Truncator(self.leader, self.logs, self.counters, self._truncated)

    # What is followed.

    def add(self, followed: PartitionFetchState) -> None:
        """Begin to fetch a partition."""
        self.followed[followed.key] = followed
        self._fetch_from_end(followed)

    def remove(self, followed: PartitionFetchState) -> Deferred[None]:
        """Stop fetching a partition; fires once nothing changes its log."""
        if self.followed.get(followed.key) is followed:
            del self.followed[followed.key]
            self.session.drop(followed.key)
        return followed.end()

    def _fetch_from_end(self, followed: PartitionFetchState) -> None:
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
            self._pause_after_error(followed, str(e))
            return
        if pause := self.throttle.pause(followed.replica, followed.lag):
            self.session.drop(followed.key)
            self._pause(followed, pause)
            return
        self.session.want(followed.key, ask)
        self._wake_fetcher()

    def _sync(self, followed: PartitionFetchState) -> None:
        self.session.drop(followed.key)
        followed.is_flushing = True
        self._fresh_syncs.add(followed)

        def over() -> None:
            followed.is_flushing = False
            self._fresh_syncs.discard(followed)

        def synced(_: object) -> None:
            over()
            self._fetch_from_end(followed)

        def failed(failure: Failure) -> None:
            over()
            self._pause_after_error(followed, failure.getErrorMessage())
            self._wake_fetcher()

        followed.replica.log.flush().addCallbacks(synced, failed)

    def _pause_after_error(
        self, followed: PartitionFetchState, problem: str, longest: float | None = None, *, passes: bool = False
    ) -> None:
        """
        Leave a partition out for a while after an error.

        :param passes: the error is likely to pass, and is logged as a warning only if it does not.
        """
        if followed.ended:
            return
        self.session.drop(followed.key)
        followed.failures += 1
        if passes and followed.failures < QUIET_FAILURES:
            self._log.debug("{partition}: {problem}", partition=followed.name, problem=problem)
        elif problem != followed.problem:
            followed.problem = problem
            self._log.warn(
                "{partition} does not get on behind broker {leader}: {problem}",
                partition=followed.name, leader=self.leader, problem=problem,
            )  # fmt: skip
        self._pause(followed, retry_delay(followed.failures, self.settings().backoff) if longest is None else longest)

    def _pause(self, followed: PartitionFetchState, pause: float) -> None:
        followed.due = self.timers.clock.seconds() + pause
        if followed.pause is not None:
            followed.pause.cancel()
        followed.pause = self.timers.call_later(pause, lambda: self._fetch_from_end(followed))

    # The fetcher's waits.

    async def changed(self) -> None:
        """Returns once a partition becomes ready, or stops being so."""
        self._change = Deferred()
        await self._change

    async def await_syncs(self) -> None:
        """Returns once the syncs that have begun since the last fetch are done, or after :data:`SYNC_WAIT_SECONDS`."""
        if not self._fresh_syncs:
            return

        def enough() -> None:
            self._fresh_syncs.clear()
            self._wake_fetcher()

        timer = self.timers.call_later(SYNC_WAIT_SECONDS, enough)
        try:
            while self._fresh_syncs:
                await self.changed()
        finally:
            timer.cancel()

    def _wake_fetcher(self) -> None:
        change, self._change = self._change, None
        if change is not None and not change.called:
            change.callback(None)

    def ready_within(self, seconds: float) -> float:
        """Seconds until another partition is likely to be ready to be fetched, if they are less than these."""
        now = self.timers.clock.seconds()
        if len(self.session) < len(self.followed):
            for followed in self.followed.values():
                if followed.is_flushing or followed.is_truncating:
                    seconds = min(seconds, SYNC_WAIT_SECONDS)
                elif followed.pause is not None:
                    seconds = min(seconds, max(followed.due - now, SYNC_WAIT_SECONDS))
        return seconds

    # The answer for one partition.

    def take(self, topic_id: bytes, data: PartitionData) -> None:
        """Take in what the leader answers for a partition; one that is not followed any more is passed over."""
        followed = self.followed.get((topic_id, data.partition_index))
        if followed is None:
            return
        try:
            self._take(followed, data)
        except Exception as e:
            # A defect here; the other partitions are not concerned.
            self._log.failure("following {partition}", partition=followed.name)
            self._pause_after_error(followed, repr(e))

    def _take(self, followed: PartitionFetchState, data: PartitionData) -> None:
        session, key = self.session, followed.key
        ask = session.asked.get(key)
        if ask is None or session.wanted.get(key) != ask:
            return  # The fetch position has changed since the request.
        if not followed.is_at(ask):
            # The log was written or truncated since: the answer is about another state of it.
            self._fetch_from_end(followed)
            return
        code, diverging = data.error_code, data.diverging_epoch
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._after_divergence(followed, after_out_of_range(followed.own(), data.log_start_offset))
        elif code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            self._follow_remote(followed, data.log_start_offset)
        elif code:
            self.counters.failed_partitions += 1
            refusal = error_of(code, "")
            problem = f"it answers {refusal.code.name}"
            self._pause_after_error(followed, problem, passes=code in _ROLE_ERRORS)
        elif diverging is not None and diverging.end_offset >= 0:
            self._after_divergence(
                followed, after_divergence(followed.own(), OffsetAndEpoch(diverging.end_offset, diverging.epoch))
            )
        else:
            self._append(followed, ask, data)

    def _append(self, followed: PartitionFetchState, ask: FetchPosition, data: PartitionData) -> None:
        replica, records = followed.replica, data.records
        log, size = replica.log, len(records) if records else 0
        if size and log.log_start_offset == log.log_end_offset and first_offset(records) < ask.offset:  # type: ignore[arg-type]
            # The leader's log starts in the middle of a batch, and so must this one.
            self.session.drop(followed.key)
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
            self._pause_after_error(followed, str(e))
            return
        except ApiError as e:
            problem = e.message
            if e.code is not ErrorCode.CORRUPT_MESSAGE:
                self.counters.failed_partitions += 1
                self._pause_after_error(followed, problem)
                return
        self.counters.records += log.log_end_offset - ask.offset
        self.counters.bytes += size
        self.throttle.fetched(replica, followed.lag, size)
        followed.lag = max(0, data.high_watermark - log.log_end_offset)
        if problem:
            self.counters.failed_partitions += 1
            self.counters.corrupt_batches += 1
            self._pause_after_error(followed, problem)
            return
        followed.failures, followed.problem = 0, ""
        if size or started:
            # A DeleteRecords request at the leader waits until it knows the new start.
            self._fetch_from_end(followed)

    # Remote storage.

    def _follow_remote(self, followed: PartitionFetchState, log_start_offset: int) -> None:
        """Begin behind what only remote storage has; nothing is fetched meanwhile."""
        self.session.drop(followed.key)

        def failed(failure: Failure) -> None:
            self.counters.failed_partitions += 1
            if not failure.check(LogbusError, OSError, ConnectError):
                self._log.failure("following {partition}", failure, partition=followed.name)
            self._pause_after_error(followed, failure.getErrorMessage())

        def found(state: AuxiliaryState) -> None:
            if not followed.ended:
                self._truncator.begin_behind(followed, state)

        Deferred.fromCoroutine(self.tiers.state_of(followed, log_start_offset)).addCallback(found).addErrback(failed)

    # Divergence: the logs differ, or one of them begins behind the other's end.

    def _after_divergence(self, followed: PartitionFetchState, step: TruncationStep) -> None:
        if isinstance(step, RetryLater):
            self.counters.failed_partitions += 1
            self._pause_after_error(followed, step.reason)
        elif isinstance(step, RefuseToFollow):
            self.counters.failed_partitions += 1
            self.counters.refused_truncations += 1
            if step.reason != followed.problem:
                self._log.critical(
                    "{partition}: broker {leader}, epoch {epoch}, is not followed: {reason}; the log stays as it is",
                    partition=followed.name, leader=self.leader, epoch=followed.leader_epoch, reason=step.reason,
                )  # fmt: skip
            self.leader_incomplete(followed, step.reason)
            self._pause_after_error(followed, step.reason, self.settings().backoff)
        else:
            self.session.drop(followed.key)
            self._truncator.begin(followed, step)

    def _truncated(self, followed: PartitionFetchState, problem: str) -> None:
        if problem:
            self._pause_after_error(followed, problem)
        else:
            self._fetch_from_end(followed)
