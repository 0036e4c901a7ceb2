"""
Cooperative time slices: a request of many elements is served some elements at a time, and the reactor serves others in
between.

All such requests of a broker take turns, one slice in each iteration of the reactor, so their number does not matter. A
request of few elements finishes within its first slice, and never waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterable
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from logbus.wire.connection import Request

FIRST_UNITS = 100
"""Units of work in a request's first slice; later slices are measured by the clock."""

UNITS = 5000
"""Upper bound of units in a later slice."""

SECONDS = 0.01
"""Length of a later slice."""

UNITS_PER_LOOK = 16
"""Units between two readings of the clock."""

FEW_OBJECTS = 20_000
"""Young objects that the garbage collector visits within a slice."""

MANY_REPLICAS = 1000
"""Replicas whose objects take the garbage collector longer than a slice."""

YOUNG = 1
"""The older of the two young generations of objects, in the terms of :mod:`gc`."""

T = TypeVar("T")


@define(eq=False)
class GarbageCollection:
    """
    Delays Python's garbage collection while large requests are served.

    A full collection visits all objects at once, and a request of 100,000 elements makes a million of them: each
    collection would take 0.1 s. A request's objects need no collector: they are freed with their last reference.

    Collections start again some time after the work. Right after it the last request and its answer still exist, all
    young, and one collection would visit all of them: 30 to 90 ms.

    Replicas stay, and have some hundred objects each. After many were added, the objects of the process are frozen:
    collections pass over them. If replicas were removed meanwhile, all objects are thawed instead, because some that
    are frozen may be garbage.

    :param collector: the module :mod:`gc`.
    :param clock: the reactor.
    :param pause: seconds without work until garbage is collected again.
    :param patience: after so many seconds of work, young objects are collected as soon as there are few.
    :param limit: after so many seconds of work, all objects are collected, however long that takes.
    """

    collector: Any
    clock: IReactorTime
    pause: float = 0.5
    patience: float = 30.0
    limit: float = 600.0
    _since: float | None = field(default=None, init=False)
    _young_since: float = field(default=0.0, init=False)
    _added: int = field(default=0, init=False)
    _removed: bool = field(default=False, init=False)
    _call: IDelayedCall | None = field(default=None, init=False)

    def work_began(self) -> None:
        """Work begins: delay collections."""
        now = self.clock.seconds()
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if self._since is None:
            if self.collector.isenabled():
                self.collector.disable()
                self._since = self._young_since = now
        elif now - self._since >= self.limit:
            self.collector.collect()
            self._since = self._young_since = now
        elif now - self._young_since >= self.patience and self.collector.get_count()[0] <= FEW_OBJECTS:
            self.collector.collect(YOUNG)
            self._young_since = now

    def work_ended(self) -> None:
        """Work ended: allow collections again after the pause."""
        if self._since is not None and self._call is None:
            self._call = self.clock.callLater(self.pause, self._enable)

    def replica_added(self) -> None:
        """Delay collections as for work, since more replicas may follow."""
        self._added += 1
        self.work_began()
        self.work_ended()

    def replica_removed(self) -> None:
        """Its objects may be frozen."""
        self._removed = True

    def _enable(self) -> None:
        self._call = self._since = None
        if self._added >= MANY_REPLICAS:
            if self._removed:
                self.collector.unfreeze()
            else:
                self.collector.freeze()
            self._added, self._removed = 0, False
        self.collector.enable()


@define(eq=False)
class SliceScheduler:
    """
    Gives time slices, one in each iteration of the reactor, first come first served (round robin).

    :param clock: the reactor.
    :param seconds: length of a slice; ``units``: upper bound of its units of work.
    :ivar slices: given so far.
    :ivar garbage: notified when work begins and ends; None: nothing is.
    """

    clock: IReactorTime
    seconds: float = SECONDS
    units: int = UNITS
    slices: int = field(default=0, init=False)
    garbage: GarbageCollection | None = field(default=None, init=False)
    _waiting: dict[Deferred[None], TimeSlice] = field(factory=dict, init=False)
    _call: IDelayedCall | None = field(default=None, init=False)

    def wait(self, time_slice: TimeSlice) -> Deferred[None]:
        """Fires when the next slice begins. Cancel it to give up the work."""
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
            self.garbage.work_began()
        time_slice.begin(self.clock.seconds() + self.seconds, self.units)
        waiter.callback(None)
        if not self._waiting:
            self._rest()

    def _rest(self) -> None:
        if self.garbage is not None:
            self.garbage.work_ended()


class TimeSlice:
    """
    The current slice of one request.

    A unit of work takes some microseconds, such as reading and answering an array element. Longer work counts for more.

    :param scheduler: gives the slices; None: the first one never ends.
    :param request: marked when it needs a second slice; None: the work belongs to no request.
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

        :param ends: its end by the scheduler's clock, in seconds; ``units``: its upper bound of units.
        """
        self._ends = ends
        self._units = units
        self._left = 0
        self._look()

    def used(self, units: int = 1) -> bool:
        """
        Count work done.

        :returns: whether the slice is over: wait for :meth:`next` then.
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
        Iterate over elements, and wait between two of them when a slice is over.

        :param units: of work for each.
        """
        for element in elements:
            yield element
            if self.used(units):
                await self.next()

    async def finish(self, steps: Generator[None, None, T], units: int = 1) -> T:
        """
        Run a generator that yields after each step.

        :param units: of each step.
        :returns: the generator's result.
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
        """Read the clock; returns whether the slice has time left."""
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
