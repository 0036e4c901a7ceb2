"""
Holds requests that wait for records, followers or a timeout (Kafka: DelayedOperationPurgatory).

Nothing polls.  An event *wakes* the requests that wait for it.  All requests woken in one turn of the reactor are
checked once, at the end of the turn, so that a thousand appends read from one socket wake a consumer once.
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
    A waiting request (Kafka: DelayedOperation).

    Completes exactly once: on progress, on its timeout, or because its client disconnected.

    :param ready: called after it was woken; returns whether the wait is over.
    :param answer: called once, when the wait is over or has timed out; returns the result.
    :param leave: called once, however it ended: unsubscribes from events.
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
        """Complete it if it is ready."""
        if not self.done and self._ready():
            self.complete()

    def complete(self) -> None:
        """Complete it now, with the result so far."""
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
        """Let a request wait, for at most ``timeout_ms``; cancelling its Deferred removes it without a result."""

        def left() -> None:
            self._waiting.pop(delayed, None)  # type: ignore[arg-type]
            leave()

        delayed: DelayedOperation[T] = DelayedOperation(ready, answer, left)
        self._waiting[delayed] = None  # type: ignore[index]
        delayed._timer = self._clock.callLater(timeout_ms / 1000, delayed.complete)
        return delayed

    def wake(self, delayed: DelayedOperation[T]) -> None:
        """Check ``delayed`` at the end of this turn of the reactor."""
        if not self._woken:
            self._clock.callLater(0, self._look)
        self._woken[delayed] = None  # type: ignore[index]

    def release(self) -> None:
        """Complete all waiting requests, in the order they came: the broker is shutting down."""
        for delayed in list(self._waiting):
            delayed.complete()

    def _look(self) -> None:
        woken, self._woken = self._woken, {}
        for delayed in woken:
            delayed.try_to_complete()
