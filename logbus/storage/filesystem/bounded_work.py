"""Bounds how much of some work is under way at a time, since each has files open."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.python.failure import Failure

MOST_WRITE_BACKS = 32
"""Write-backs of one log directory at a time: each has a segment and its indexes open until it is over."""
MOST_FLUSHES = 128
"""Flushes of one log directory at a time while too many files are open."""


@define(eq=False)
class BoundedWork:
    """
    A queue of pieces of work, of which some are under way.

    :ivar most: upper bound of those.
    """

    most: int
    _running: int = field(default=0, init=False)
    _waiting: deque[tuple[Callable[[], Deferred[None]], Deferred[None]]] = field(factory=deque, init=False)
    _is_beginning: bool = field(default=False, init=False)

    def run(self, begin: Callable[[], Deferred[None]]) -> Deferred[None]:
        """
        Have a piece of work begun, now or when others have ended.

        :returns: fires with the work's result, or what ``begin`` raised.
        """
        over: Deferred[None] = Deferred()
        self._waiting.append((begin, over))
        self._begin()
        return over

    def _begin(self) -> None:
        # A loop, not a call from the end of one to the next: thousands may end at once, when their disk fails.
        if self._is_beginning:
            return
        self._is_beginning = True
        while self._waiting and self._running < self.most:
            begin, over = self._waiting.popleft()
            self._running += 1
            maybeDeferred(begin).addBoth(self._ended, over)
        self._is_beginning = False

    def _ended(self, result: Failure | None, over: Deferred[None]) -> None:
        self._running -= 1
        over.callback(result)
        self._begin()


@define(eq=False)
class SyncQueues:
    """
    The syncs of one log directory's logs.

    :ivar flushes: those that begin while too many files are open.
    """

    write_backs: BoundedWork = field(factory=lambda: BoundedWork(MOST_WRITE_BACKS), init=False)
    flushes: BoundedWork = field(factory=lambda: BoundedWork(MOST_FLUSHES), init=False)
