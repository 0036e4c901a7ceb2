"""
A consumer's commits: one after another, by the member it is, when it is told to or by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, DeferredLock
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.client.groups import CommittedOffset
from logbus.client.interceptors import ConsumerInterceptors
from logbus.client.membership import GroupOffsets, Membership
from logbus.errors import LogbusError
from logbus.model import TopicPartition

Offsets = Mapping[TopicPartition, CommittedOffset]


@define(eq=False)
class _Later:
    """
    A commit that nobody waits for, and whose turn has not come.

    :ivar offsets: None: where one is when it comes.
    """

    offsets: dict[TopicPartition, CommittedOffset] | None


@define(eq=False)
class Committer:
    """
    :ivar group: None without a group: then nothing can be committed.
    :ivar membership: who commits; None: nobody, for a group without members.
    :ivar positions: what to commit where nothing is said: what was handed out, or (True) only what is done.
    """

    _log = Logger()

    clock: Any
    group: GroupOffsets | None
    interceptors: ConsumerInterceptors
    positions: Callable[[bool], dict[TopicPartition, CommittedOffset]]
    membership: Membership | None = None
    _committed: dict[TopicPartition, int] = field(factory=dict, init=False)
    _lock: DeferredLock = field(factory=DeferredLock, init=False)
    _timer: LoopingCall | None = field(default=None, init=False)
    _under_way: set[Deferred[None]] = field(factory=set, init=False)
    _later: _Later | None = field(default=None, init=False)

    def commit(self, offsets: Offsets | None = None, *, done: bool = False) -> Deferred[None]:
        """
        Commit offsets, after the commits that are under way.

        :param offsets: None: of all partitions, as far as they were handed out.
        :param done: only as far as they are done.
        :raises LogbusError: (in the Deferred) there is no group; CommitFailed; or what else went wrong.
        """
        self._later = None
        return self._lock.run(lambda: Deferred.fromCoroutine(self._commit(offsets, done)))

    def commit_nowait(self, offsets: Offsets | None = None, *, done: bool = False) -> None:
        """
        Commit, and log it if that fails: the next commit says it again.

        While others are under way, what nobody waits for becomes one commit, however often it is asked for.
        """
        later = self._later
        if later is not None:
            if later.offsets is not None:
                later.offsets.update(self.positions(done) if offsets is None else offsets)
                return
            if offsets is None:
                # It commits where one is when its turn comes.
                return
        later = self._later = _Later(None if offsets is None else dict(offsets))

        def begin() -> Deferred[None]:
            if self._later is later:
                self._later = None
            return Deferred.fromCoroutine(self._commit(later.offsets, done))

        committing = self._lock.run(begin)
        self._under_way.add(committing)

        def ended(result: object) -> None:
            self._under_way.discard(committing)
            if self._later is later:
                self._later = None
            if isinstance(result, Failure) and not result.check(CancelledError):
                self._log.warn("offsets were not committed: {error}", error=result.value)

        committing.addBoth(ended)

    def forget(self) -> None:
        """Partitions came or went: what is committed of them may be another's."""
        self._committed.clear()

    def start(self, interval: float) -> None:
        """Commit by itself from now on, every ``interval`` seconds, what is done."""
        if self._timer is None:
            self._timer = LoopingCall(self._commit_if_idle)
            self._timer.clock = self.clock
            self._timer.start(interval, now=False)

    def stop(self) -> None:
        """Commit no more by itself."""
        if self._timer is not None and self._timer.running:
            self._timer.stop()

    def close(self) -> None:
        """Give up what is under way."""
        self.stop()
        for each in list(self._under_way):
            each.cancel()

    async def _commit(self, offsets: Offsets | None, done: bool) -> None:
        group = self.group
        if group is None:
            raise LogbusError("nothing can be committed without a group; give the consumer a group_id")
        chosen = self.positions(done) if offsets is None else offsets
        chosen = {each: at for each, at in chosen.items() if offsets or self._committed.get(each) != at.offset}
        if not chosen:
            return
        if self.membership is not None:
            await self.membership.commit(chosen)
        else:
            await group.commit(chosen, None)
        self._committed.update((each, at.offset) for each, at in chosen.items())
        self.interceptors.on_commit(chosen)

    def _commit_if_idle(self) -> None:
        if not self._under_way:
            self.commit_nowait(done=True)
