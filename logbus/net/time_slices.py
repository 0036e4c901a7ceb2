"""
Cooperative time slices: a request of many elements is served some elements at a time, and the reactor serves others in
between.

All such requests of a broker take turns, one slice in each iteration of the reactor, so that it does not matter how
many there are at a time. A request of few elements is over within its first slice and never waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterable
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from logbus.wire.connection import Request

FIRST_UNITS = 100
"""Units of work that a request may do at once; later slices are measured by the clock."""

UNITS = 5000
"""The most units of a later slice, however fast they are done."""

SECONDS = 0.01
"""How long a later slice lasts."""

UNITS_PER_LOOK = 16
"""Units between two looks at the clock."""

T = TypeVar("T")


@define(eq=False)
class GarbageCollection:
    """
    Puts off Python's garbage collection while large requests are served.

    A full collection looks at every object there is, in one go, and a request of 100,000 elements makes a million: it
    would take 0.1 s, several times. The objects of a request need no collector: they go with their last reference.

    :param collector: the module :mod:`gc`.
    :param seconds: a monotonic clock.
    :param patience: after so many seconds of work without a pause, garbage is collected all the same.
    """

    collector: Any
    seconds: Callable[[], float]
    patience: float = 30.0
    _since: float | None = field(default=None, init=False)

    def put_off(self) -> None:
        """There is work."""
        now = self.seconds()
        if self._since is None:
            if self.collector.isenabled():
                self.collector.disable()
                self._since = now
        elif now - self._since >= self.patience:
            self.collector.collect()
            self._since = now

    def go_on(self) -> None:
        """There is none left."""
        if self._since is not None:
            self._since = None
            self.collector.enable()


@define(eq=False)
class SliceScheduler:
    """
    Gives time slices, one in each iteration of the reactor, first come first served (round robin).

    :param clock: the reactor.
    :param seconds: how long a slice lasts, and ``units`` how many units of work at most.
    :ivar slices: given so far.
    :ivar garbage: is told when there is work and when there is none; None: nobody is.
    """

    clock: IReactorTime
    seconds: float = SECONDS
    units: int = UNITS
    slices: int = field(default=0, init=False)
    garbage: GarbageCollection | None = field(default=None, init=False)
    _waiting: dict[Deferred[None], TimeSlice] = field(factory=dict, init=False)
    _call: IDelayedCall | None = field(default=None, init=False)

    def wait(self, time_slice: TimeSlice) -> Deferred[None]:
        """Fires when the next slice begins. Cancel it if the work is not wanted any more."""
        waiter: Deferred[None] = Deferred(self._forget)
        self._waiting[waiter] = time_slice
        if self._call is None:
            self._call = self.clock.callLater(0, self._run)
        return waiter

    def _forget(self, waiter: Deferred[None]) -> None:
        self._waiting.pop(waiter, None)
        if not self._waiting and self._call is not None:
            self._call.cancel()
            self._call = None
            self._rest()

    def _run(self) -> None:
        self._call = None
        waiter = next(iter(self._waiting))
        time_slice = self._waiting.pop(waiter)
        if self._waiting:
            self._call = self.clock.callLater(0, self._run)
        self.slices += 1
        if self.garbage is not None:
            self.garbage.put_off()
        time_slice.begin(self.clock.seconds() + self.seconds, self.units)
        waiter.callback(None)
        if not self._waiting:
            self._rest()

    def _rest(self) -> None:
        if self.garbage is not None:
            self.garbage.go_on()


class TimeSlice:
    """
    The present slice of one request.

    A unit of work is what takes some microseconds: an array element looked at and answered. What takes longer counts
    for more.

    :param scheduler: gives the slices; None: the first one never ends.
    :param request: the request, which is told when it needs a second slice; None: the work belongs to none.
    """

    __slots__ = ("_ends", "_left", "_request", "_scheduler", "_units")

    def __init__(self, scheduler: SliceScheduler | None, request: Request | None = None) -> None:
        self._scheduler = scheduler
        self._request = request
        self._units = 0
        self._ends = 0.0
        self._left = FIRST_UNITS

    def begin(self, ends: float, units: int) -> None:
        """
        Begin the next slice.

        :param ends: when it ends by the scheduler's clock, in seconds; ``units``: after how many units at the latest.
        """
        self._ends = ends
        self._units = units
        self._left = 0
        self._look()

    def used(self, units: int = 1) -> bool:
        """
        Count work that was done.

        :returns: whether the slice is over: wait for the :meth:`next` before you go on.
        """
        self._left -= units
        return self._left <= 0 and not self._look()

    def next(self) -> Deferred[None]:
        """Wait for the next slice."""
        assert self._scheduler is not None
        if self._request is not None:
            self._request.sliced = True
        return self._scheduler.wait(self)

    async def over(self, elements: Iterable[T], units: int = 1) -> AsyncIterator[T]:
        """
        Iterate over elements, and rest between two of them when a slice is over.

        :param units: of work that is done for each.
        """
        for element in elements:
            yield element
            if self.used(units):
                await self.next()

    async def finish(self, steps: Generator[None, None, T], units: int = 1) -> T:
        """
        Do work that yields after each step.

        :param units: of each step.
        :returns: what the generator returns.
        """
        try:
            while True:
                next(steps)
                if self.used(units):
                    await self.next()
        except StopIteration as done:
            result: T = done.value
            return result

    def _look(self) -> bool:
        """Look at the clock; whether there is something left of the slice."""
        scheduler = self._scheduler
        if scheduler is None:
            self._left = FIRST_UNITS
            return True
        self._units += self._left
        if self._units <= 0 or scheduler.clock.seconds() >= self._ends:
            return False
        self._left = min(UNITS_PER_LOOK, self._units)
        self._units -= self._left
        return True
