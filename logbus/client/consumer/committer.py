"""Commits a consumer's offsets, one request after another, on demand and periodically."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from logbus.client.consumer.delivered_offsets import DeliveredOffsets
from logbus.client.group_metadata import CommittedOffset, GroupMetadata
from logbus.client.interceptors import ConsumerInterceptors
from logbus.client.membership import CommitFailed
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition

if TYPE_CHECKING:
    from logbus.client.membership import GroupOffsets, Membership

Offsets = Mapping[TopicPartition, CommittedOffset]


@define(eq=False)
class _Round:
    """
    Offsets that are committed together.

    :ivar given: offsets that the caller gave.
    :ivar reached: the consumer's positions, also of partitions that it may lose before the request is sent.
    :ivar is_asked: the application asked to commit all that was delivered: fail if some of that was lost.
    :ivar waiters: callers that wait for the outcome; without any the commit is cancelled.
    """

    given: dict[TopicPartition, CommittedOffset] = field(factory=dict)
    reached: dict[TopicPartition, CommittedOffset] = field(factory=dict)
    is_asked: bool = False
    waiters: dict[Deferred[None], None] = field(factory=dict)
    task: Deferred[None] | None = None


@define(eq=False)
class Committer:
    """
    Merges calls that come while a commit is in flight into the next one.

    :ivar group: commits the offsets; None: the consumer has no group, and cannot commit.
    :ivar positions: the default offsets: all that was delivered, or (True) only what is processed.
    :ivar deliveries: records delivered and not committed.
    :ivar membership: the member that commits; None: the group is used without members.
    """

    _log = Logger()

    clock: Any
    group: GroupOffsets | None
    interceptors: ConsumerInterceptors
    positions: Callable[[bool], dict[TopicPartition, CommittedOffset]]
    deliveries: DeliveredOffsets
    membership: Membership | None = None
    _committed: dict[TopicPartition, int] = field(factory=dict, init=False)
    _interval: float | None = field(default=None, init=False)
    _started: float = field(default=0.0, init=False)
    _timer: Any = field(default=None, init=False)
    _under_way: _Round | None = field(default=None, init=False)
    _next: _Round | None = field(default=None, init=False)
    _unheard: set[Deferred[None]] = field(factory=set, init=False)
    _is_closed: bool = field(default=False, init=False)
    _is_failing: bool = field(default=False, init=False)

    def commit(self, offsets: Offsets | None = None, *, done: bool = False) -> Deferred[None]:
        """
        Commit offsets, after the commit that is in flight.

        Calls made meanwhile become one commit, in which the last offset for each partition wins; all of them get its
        outcome. Cancelling the Deferred cancels the commit if no other caller waits for it; it may have been sent.

        :param offsets: None: the positions of all partitions.
        :param done: only what is processed; lost partitions are not reported then.
        :raises LogbusError: (in the Deferred) there is no group; the consumer is closed; CommitFailed; or another
            failure.
        """
        if self._is_closed:
            return fail(LogbusError("the consumer is closed"))
        turn = self._next
        if turn is None:
            turn = self._next = _Round()
        if offsets is None:
            reached = self.positions(done)
            turn.is_asked = turn.is_asked or not done
            turn.reached.update(reached)
            for each in reached:
                turn.given.pop(each, None)
        else:
            turn.given.update(offsets)
        waiting: Deferred[None] = Deferred(lambda _: self._cancelled(turn, waiting))
        turn.waiters[waiting] = None
        self._go_on()
        return waiting

    def commit_nowait(self, offsets: Offsets | None = None, *, done: bool = False) -> None:
        """
        Commit, and log a failure, once until a commit succeeds; the next commit includes these offsets again.
        """
        committing = self.commit(offsets, done=done)
        self._unheard.add(committing)

        def ended(result: object) -> None:
            self._unheard.discard(committing)
            if not isinstance(result, Failure):
                if self._is_failing:
                    self._is_failing = False
                    self._log.info("offsets are committed again")
            elif not result.check(CancelledError):
                # A coordinator that is away is one warning, not one for each interval.
                level = LogLevel.debug if self._is_failing else LogLevel.warn
                self._is_failing = True
                self._log.emit(level, "offsets were not committed: {error}", error=result.value)

        committing.addBoth(ended)

    def forget(self) -> None:
        """Forget which offsets are committed, since newly assigned partitions may have other ones."""
        self._committed.clear()

    def given_up(self, partitions: Iterable[TopicPartition]) -> None:
        """
        Note that partitions are removed: records of them that were delivered and not committed can only be reported as
        lost.
        """
        member = None if self.membership is None else self.membership.last_metadata
        self.deliveries.given_up(partitions, member, self.positions(False))
        self._committed.clear()

    def start(self, interval: float) -> None:
        """Commit every ``interval`` seconds what is processed, from the first call on until :meth:`stop`."""
        if self._interval is None:
            self._interval, self._started = interval, self.clock.seconds()
            self._arm(interval)

    def stop(self) -> None:
        """Stop the periodic commits, for good."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def close(self) -> None:
        """Stop, refuse further commits, and cancel those that no caller waits for."""
        self._is_closed = True
        self.stop()
        for each in list(self._unheard):
            each.cancel()

    # Internals.

    def _go_on(self) -> None:
        if self._under_way is None and self._next is not None:
            turn, self._next = self._next, None
            self._under_way = turn
            turn.task = Deferred.fromCoroutine(self._commit(turn))
            turn.task.addBoth(self._ended, turn)

    def _ended(self, result: Any, turn: _Round) -> None:
        self._under_way = None
        waiters, turn.waiters = turn.waiters, {}
        for each in waiters:
            if each.called:
                continue
            if isinstance(result, Failure):
                each.errback(result)
            else:
                each.callback(None)
        self._go_on()

    def _cancelled(self, turn: _Round, waiting: Deferred[None]) -> None:
        turn.waiters.pop(waiting, None)
        if turn.waiters:
            return
        if turn is self._next:
            self._next = None
        elif turn.task is not None:
            turn.task.cancel()

    async def _commit(self, turn: _Round) -> None:
        group = self.group
        if group is None:
            raise LogbusError("nothing can be committed without a group; give the consumer a group_id")
        chosen = dict(turn.given)
        lost = self.deliveries.take_lost() if turn.is_asked else {}
        if turn.reached:
            ours = self.positions(True)
            for each, at in turn.reached.items():
                # Skip partitions that other members may read by now, and offsets that are committed already.
                if each not in chosen and each in ours and each not in lost and self._committed.get(each) != at.offset:
                    chosen[each] = at
        errors: dict[TopicPartition, ApiError] = {}
        try:
            if chosen:
                await self._send(group, chosen)
        except CommitFailed as e:
            if not lost:
                self._done({each: at for each, at in chosen.items() if each not in e.errors})
                raise
            errors = e.errors
        except BaseException:
            self.deliveries.lost = lost | self.deliveries.lost
            raise
        self._done({each: at for each, at in chosen.items() if each not in errors})
        if lost:
            raise self._failure(lost, errors)

    async def _send(self, group: GroupOffsets, offsets: Offsets) -> None:
        if self.membership is not None:
            await self.membership.commit(offsets)
        else:
            await group.commit(offsets, None)

    def _done(self, offsets: Offsets) -> None:
        if offsets:
            self._committed.update((each, at.offset) for each, at in offsets.items())
            self.deliveries.committed(offsets, self.positions(False))
            self.interceptors.on_commit(offsets)

    def _failure(self, lost: Offsets, others: Mapping[TopicPartition, ApiError]) -> CommitFailed:
        """The error for lost partitions with uncommitted records, and for others that failed."""
        from logbus.client.membership.offset_requests import commit_failure

        if self.membership is not None:
            member, errors = self.membership.last_metadata, dict(self.membership.unassigned_errors(lost))
        else:
            member = GroupMetadata("" if self.group is None else self.group.group_id, 0)
            errors = {each: ApiError(ErrorCode.UNKNOWN_MEMBER_ID) for each in lost}
        failure = commit_failure(member, {**others, **errors})
        assert failure is not None
        return failure

    def _arm(self, interval: float) -> None:
        # At multiples of the interval, however late the clock calls.
        self._timer = self.clock.callLater(
            interval - (self.clock.seconds() - self._started) % interval, self._commit_if_idle, interval
        )

    def _commit_if_idle(self, interval: float) -> None:
        self._arm(interval)
        if self._under_way is None:
            self.commit_nowait(done=True)
