"""
Where requests wait for something to happen: bytes to arrive, a replica to catch up, time to run out.

Nothing polls.  What a request waits for *wakes* it; all that was woken in one turn of the reactor is looked at once,
at the end of the turn, so that a thousand appends read from one socket wake a consumer once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

T = TypeVar("T")


class DelayedOperation(Generic[T]):
    """
    A request that waits.

    Completes exactly once: on progress, when its time runs out, or because its client went away.

    :param ready: called after it was woken; says whether the wait is over.
    :param answer: called once, when the wait is over or time is out; makes the result.
    :param leave: called once, whatever the end: stop watching what was watched.
    """

    __slots__ = ("_answer", "_leave", "_ready", "_timer", "deferred", "done")

    def __init__(self, ready: Callable[[], bool], answer: Callable[[], T], leave: Callable[[], None]) -> None:
        self._ready = ready
        self._answer = answer
        self._leave = leave
        self._timer: IDelayedCall | None = None
        self.done = False
        self.deferred: Deferred[T] = Deferred(lambda _: self._end())

    def try_to_complete(self) -> None:
        """Answer if what was waited for has come."""
        if not self.done and self._ready():
            self.complete()

    def complete(self) -> None:
        """Answer now, with whatever there is."""
        if self.done:
            return
        self._end()
        try:
            result = self._answer()
        except Exception:
            self.deferred.errback()
        else:
            self.deferred.callback(result)

    def _end(self) -> None:
        self.done = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._leave()


@define(eq=False)
class Purgatory:
    """The requests waiting on one broker."""

    _clock: IReactorTime
    _waiting: dict[DelayedOperation[object], None] = field(factory=dict, init=False)
    _woken: dict[DelayedOperation[object], None] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(
        self,
        timeout_ms: int,
        ready: Callable[[], bool],
        answer: Callable[[], T],
        leave: Callable[[], None],
    ) -> DelayedOperation[T]:
        """Let a request wait, for at most ``timeout_ms``; cancelling its Deferred makes it leave unanswered."""

        def left() -> None:
            self._waiting.pop(delayed, None)  # type: ignore[arg-type]
            leave()

        delayed: DelayedOperation[T] = DelayedOperation(ready, answer, left)
        self._waiting[delayed] = None  # type: ignore[index]
        delayed._timer = self._clock.callLater(timeout_ms / 1000, delayed.complete)
        return delayed

    def wake(self, delayed: DelayedOperation[T]) -> None:
        """Something ``delayed`` waits for has moved; look at it when this turn of the reactor ends."""
        if not self._woken:
            self._clock.callLater(0, self._look)
        self._woken[delayed] = None  # type: ignore[index]

    def release(self) -> None:
        """Answer everything that waits, in the order it came, with whatever there is: the broker is shutting down."""
        for delayed in list(self._waiting):
            delayed.complete()

    def _look(self) -> None:
        woken, self._woken = self._woken, {}
        for delayed in woken:
            delayed.try_to_complete()
