"""
One commit for all who wait for it. Those that come while it runs wait for the next one, since the running one may have
missed what they want committed.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.python.failure import Failure

from logbus.errors import ApiError, ErrorCode


def _nothing_to_commit() -> Deferred[None]:
    """Commits for a closed group: refers to no log, so that a deleted one is freed without the garbage collector."""
    return succeed(None)


@define(eq=False)
class GroupCommit:
    """
    Runs at most one commit at a time, and one for all waiting callers.

    :ivar _commit: begins a commit of everything present at that moment.
    """

    _commit: Callable[[], Deferred[None]]
    _running: bool = field(default=False, init=False)
    _wanted: bool = field(default=False, init=False)
    _waiters: list[Deferred[None]] = field(factory=list, init=False)
    _closed: Deferred[None] | None = field(default=None, init=False)

    def wait(self) -> Deferred[None]:
        """Fires when everything present now is committed. Cancelling gives up the wait, not the commit."""
        waiter: Deferred[None] = Deferred()
        self._waiters.append(waiter)
        self.request()
        return waiter

    @property
    def is_running(self) -> bool:
        """Whether a commit runs: another one begins after it."""
        return self._running

    def request(self) -> None:
        """Commit everything present now, without waiting."""
        self._wanted = True
        if self._closed is not None:
            self._refuse()
        elif not self._running:
            self._start()

    def close(self) -> Deferred[None]:
        """Begin no more commits; fires when none runs. Waiters for another commit fail."""
        closed = self._closed = Deferred()
        if not self._running:
            self._end(closed)
        return closed

    def _end(self, closed: Deferred[None]) -> None:
        self._refuse()
        self._commit = _nothing_to_commit
        closed.callback(None)

    def _refuse(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.errback(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the log was closed before it was synced"))

    def _start(self) -> None:
        self._wanted = False
        self._running = True
        waiters, self._waiters = self._waiters, []
        # However it fails, the next one is begun, and nobody waits for ever.
        begun = maybeDeferred(self._commit)
        begun.addCallbacks(self._done, self._failed, callbackArgs=(waiters,), errbackArgs=(waiters,))

    def _done(self, _: object, waiters: list[Deferred[None]]) -> None:
        self._ended()
        for waiter in waiters:
            waiter.callback(None)

    def _ended(self) -> None:
        self._running = False
        if self._closed is not None:
            self._end(self._closed)
        elif self._wanted:
            # Before the waiters fire: they may request more.
            self._start()

    def _failed(self, failure: Failure, waiters: list[Deferred[None]]) -> None:
        waiters += self._waiters
        self._waiters = []
        self._wanted = False
        self._ended()
        for waiter in waiters:
            waiter.errback(failure)
