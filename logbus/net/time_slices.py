"""
Cooperative time slices: a request of many elements is served some elements at a time, and the reactor serves others in
between.

All such requests of a broker share one slice in each iteration of the reactor, so their number does not matter to
others. Among themselves their connections have equal shares of the processor. A request of few elements finishes within
its first slice, and never waits.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable, Generator, Hashable, Iterable
from itertools import islice
from typing import TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from logbus.net.garbage_collection import GarbageCollection
from logbus.wire.connection import Request

FIRST_UNITS = 100
"""Units of work in a request's first slice; later slices are measured by the clock."""

UNITS = 5000
"""Upper bound of units in a later slice."""

SECONDS = 0.005
"""Length of a later slice. What cannot be divided, such as joining the bytes of a response, comes on top."""

FEW_CONNECTIONS = 100
"""Connections whose virtual times are kept in any case."""

UNITS_PER_CLOCK_READ = 16
"""Units between two readings of the clock."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@define(eq=False)
class SliceScheduler:
    """
    Gives time slices, one in each iteration of the reactor, to connections in turn (start-time fair queueing).

    Each connection has a virtual time, which goes on by the processor time that it uses; the connection that is
    furthest behind has the next slice. One that was idle begins at the present virtual time: it saves nothing up.

    :param clock: the reactor.
    :param seconds: length of a slice; ``units``: upper bound of its units of work.
    :ivar slices: given so far.
    :ivar garbage: notified when work begins and ends; None: nothing is.
    :ivar processor_seconds: reads the time that this thread has had of its processor.
    """

    clock: IReactorTime
    seconds: float = SECONDS
    units: int = UNITS
    slices: int = field(default=0, init=False)
    garbage: GarbageCollection | None = field(default=None, init=False)
    processor_seconds: Callable[[], float] = time.thread_time
    # With the virtual time at which each began to wait.
    _waiting: dict[Deferred[None], tuple[TimeSlice, float]] = field(factory=dict, init=False)
    _virtual: float = field(default=0.0, init=False)
    # The virtual times of connections that are ahead of it; empty while nothing waits.
    _ahead: dict[Hashable, float] = field(factory=dict, init=False)
    _call: IDelayedCall | None = field(default=None, init=False)

    def wait(self, time_slice: TimeSlice) -> Deferred[None]:
        """Fires when the next slice begins. Cancel it to give up the work."""
        waiter: Deferred[None] = Deferred(self._forget)
        self._waiting[waiter] = time_slice, self._virtual
        if self._call is None:
            self._call = self.clock.callLater(0, self._run)
        return waiter

    def used(self, connection: Hashable, seconds: float) -> None:
        """Count processor time that large requests of a connection have used, in a slice or before their first one."""
        if self._waiting:
            ahead, virtual = self._ahead, self._virtual
            ahead[connection] = max(virtual, ahead.get(connection, 0.0)) + seconds
            if len(ahead) > 2 * len(self._waiting) + FEW_CONNECTIONS:
                self._ahead = {one: its for one, its in ahead.items() if its > virtual}

    def _next(self) -> tuple[Deferred[None], TimeSlice]:
        """Remove the one whose connection is furthest behind; of equals, the one that has waited longest."""
        ahead = self._ahead
        start, waiter = math.inf, None
        for one, (time_slice, since) in self._waiting.items():
            its = max(since, ahead.get(time_slice.connection, 0.0))
            if its < start:
                start, waiter = its, one
        assert waiter is not None
        self._virtual = start
        return waiter, self._waiting.pop(waiter)[0]

    def _forget(self, waiter: Deferred[None]) -> None:
        self._waiting.pop(waiter, None)
        if not self._waiting and self._call is not None:
            self._call.cancel()
            self._call = None
            self._rest()

    def _run(self) -> None:
        self._call = None
        waiter, time_slice = self._next()
        if self._waiting:
            self._call = self.clock.callLater(0, self._run)
        self.slices += 1
        if self.garbage is not None:
            self.garbage.work_began()
        time_slice.begin(self.clock.seconds() + self.seconds, self.units)
        charge = time_slice.charge
        begun = self.processor_seconds()
        waiter.callback(None)
        seconds = self.processor_seconds() - begun
        self.used(time_slice.connection, seconds)
        if charge is not None:
            charge(seconds)
        if not self._waiting:
            self._rest()

    def _rest(self) -> None:
        self._ahead.clear()
        self._virtual = 0.0
        if self.garbage is not None:
            self.garbage.work_ended()


class TimeSlice:
    """
    The current slice of one request.

    A unit of work takes some microseconds, such as reading and answering an array element. Longer work counts for more.

    :param scheduler: gives the slices; None: the first one never ends.
    :param request: marked when it needs a second slice; None: the work belongs to no request.
    :ivar connection: whose share of the processor is used; None: the broker's own.
    """

    __slots__ = ("_ends", "_left", "_request", "_scheduler", "_units", "connection")

    def __init__(
        self, scheduler: SliceScheduler | None, request: Request | None = None, connection: Hashable = None
    ) -> None:
        self.connection = connection
        self._scheduler = scheduler
        self._request = request
        self._units = 0
        self._ends = 0.0
        self._left = FIRST_UNITS

    @property
    def charge(self) -> Callable[[float], object] | None:
        """Takes the seconds of processor time of a slice; None: nobody pays for them."""
        return None if self._request is None else self._request.charge

    def begin(self, ends: float, units: int) -> None:
        """
        Begin the next slice.

        :param ends: its end by the scheduler's clock, in seconds; ``units``: its upper bound of units.
        """
        self._ends = ends
        self._units = units
        self._left = 0
        self._read_clock()

    def used(self, units: int = 1) -> bool:
        """
        Count work done.

        :returns: whether the slice is over: wait for :meth:`next` then.
        """
        self._left -= units
        return self._left <= 0 and not self._read_clock()

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

    async def over_parts(self, elements: Iterable[T], size: int) -> AsyncIterator[list[T]]:
        """Iterate over elements in lists of up to ``size``; each element is a unit of work."""
        rest = iter(elements)
        while part := list(islice(rest, size)):
            yield part
            if self.used(size):
                await self.next()

    async def taken_from(self, elements: list[T], size: int) -> AsyncIterator[list[T]]:
        """
        Iterate over elements as :meth:`over_parts` does, and remove them from their list.

        Very many objects take many milliseconds to be freed; so they are freed by and by.
        """
        elements.reverse()
        while elements:
            part = elements[: -size - 1 : -1]
            del elements[-size:]
            yield part
            if self.used(size):
                await self.next()

    async def free(self, elements: list[T]) -> None:
        """Empty a list by and by, as :meth:`taken_from` does."""
        async for _ in self.taken_from(elements, UNITS_PER_CLOCK_READ):
            pass

    async def duplicates(self, keys: Iterable[K]) -> set[K]:
        """The keys among ``keys`` that occur more than once."""
        seen: set[K] = set()
        duplicates: set[K] = set()
        async for key in self.over(keys):
            if key in seen:
                duplicates.add(key)
            seen.add(key)
        return duplicates

    async def distinct(self, keys: Iterable[K]) -> list[K]:
        """The keys of ``keys``, once each, in their order."""
        seen: dict[K, None] = {}
        async for key in self.over(keys):
            seen[key] = None
        return list(seen)

    async def finish(self, steps: Generator[Deferred[None] | None, None, T], units: int = 1) -> T:
        """
        Run a generator that yields after each step: None, or what is to be waited for before the next one.

        :param units: of each step.
        :returns: the generator's result.
        """
        try:
            while True:
                waiting = next(steps)
                if waiting is not None:
                    await waiting
                if self.used(units):
                    await self.next()
        except StopIteration as done:
            result: T = done.value
            return result

    def _read_clock(self) -> bool:
        """Read the clock; returns whether the slice has time left."""
        scheduler = self._scheduler
        if scheduler is None:
            self._left = FIRST_UNITS
            return True
        self._units += self._left
        if self._units <= 0 or scheduler.clock.seconds() >= self._ends:
            return False
        self._left = min(UNITS_PER_CLOCK_READ, self._units)
        self._units -= self._left
        return True
