"""
Holds requests that wait for records, followers or a timeout (Kafka: DelayedOperationPurgatory).

Nothing polls.  An event *wakes* the requests that wait for it.  All requests woken in one turn of the reactor are
checked once, at the end of the turn, so that a thousand appends read from one socket wake a consumer once.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from attrs import Factory, define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from logbus.timers import Timer, Timers

T = TypeVar("T")


class Responses(Protocol):
    """Delays responses, to send them together."""

    def open(self) -> bool:
        """Have them wait; False: they do not, or do already."""

    def close(self) -> None:
        """Send them."""


class DelayedOperation(Generic[T]):
    """
    A waiting request (Kafka: DelayedOperation).

    Completes exactly once: on progress, on its timeout, or because its client disconnected. Kinds of requests say when
    they are ready, and what they answer.

    :ivar deferred: fires with the answer; cancelling it ends the wait without one.
    :ivar done: whether the wait has ended.
    """

    __slots__ = ("_timer", "deferred", "done", "purgatory")

    def __init__(self, purgatory: Purgatory) -> None:
        self.purgatory = purgatory
        self.done = False
        self.deferred: Deferred[T] = Deferred(self._cancelled)
        self._timer: Timer | None = None

    def is_ready(self) -> bool:
        """After it was woken: whether the wait is over."""
        raise NotImplementedError

    def answer(self) -> T:
        """Called once, when the wait is over or has timed out: returns the result."""
        raise NotImplementedError

    def leave(self) -> None:
        """Called once, however it ended: unsubscribes from events."""
        raise NotImplementedError

    def try_to_complete(self) -> None:
        """Complete it if it is ready; an error of its own completes it, too, and no other."""
        if self.done:
            return
        try:
            if not self.is_ready():
                return
        except Exception:
            self._end()
            self.deferred.errback()
        else:
            self.complete()

    def complete(self) -> None:
        """Complete it now, with the result so far."""
        if self.done:
            return
        self._end()
        try:
            result = self.answer()
        except Exception:
            self.deferred.errback()
        else:
            self.deferred.callback(result)

    def _cancelled(self, _: Deferred[T]) -> None:
        self._end()

    def _end(self) -> None:
        self.done = True
        if self._timer is not None:
            self._timer.cancel()
        self.purgatory.remove(self)
        self.leave()


def _timers(purgatory: Purgatory) -> Timers:
    return Timers(purgatory._clock, slack=1000)


@define(eq=False)
class Purgatory:
    """
    The requests waiting on one broker; their deadlines are on one timer.

    :param responses: of the reactor, which has those to requests woken together sent together.
    :ivar shared: while requests are completed that were woken together, what they may share, by what it depends on;
        else None.
    """

    _clock: IReactorTime
    _responses: Responses | None = None
    _timers: Timers = field(default=Factory(_timers, takes_self=True), init=False)
    _waiting: dict[DelayedOperation[Any], None] = field(factory=dict, init=False)
    _woken: dict[DelayedOperation[Any], None] = field(factory=dict, init=False)
    shared: dict[Any, Any] | None = field(default=None, init=False)

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, delayed: DelayedOperation[T], timeout_ms: int) -> Deferred[T]:
        """Let a request wait, for at most ``timeout_ms``; returns its Deferred."""
        self._waiting[delayed] = None
        delayed._timer = self._timers.call_later(timeout_ms / 1000, delayed.complete)
        return delayed.deferred

    def wake(self, delayed: DelayedOperation[Any]) -> None:
        """Check ``delayed`` at the end of this turn of the reactor."""
        if not self._woken:
            self._clock.callLater(0, self._try_woken)
        self._woken[delayed] = None

    def remove(self, delayed: DelayedOperation[Any]) -> None:
        """It waits no more."""
        self._waiting.pop(delayed, None)

    def release(self) -> None:
        """Complete all waiting requests, in the order they came: the broker is shutting down."""
        # First, as requests that wait from now on keep their deadlines.
        self._timers.close()
        for delayed in list(self._waiting):
            delayed.complete()

    def _try_woken(self) -> None:
        woken, self._woken = self._woken, {}
        if len(woken) == 1:
            next(iter(woken)).try_to_complete()
            return
        responses, self.shared = self._responses, {}
        opened = responses is not None and responses.open()
        try:
            for delayed in woken:
                delayed.try_to_complete()
        finally:
            self.shared = None
            if responses is not None and opened:
                responses.close()
