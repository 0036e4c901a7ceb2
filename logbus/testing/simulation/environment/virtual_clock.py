"""The virtual clock: one queue of the events of all nodes; time jumps from each event to the next."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from zope.interface import implementer

from logbus.testing.simulation.environment.inodes import Crashed


class Process(Protocol):
    """The process of an event: :class:`.NodeReactor`."""

    dead: bool
    frozen: bool
    missed: list[Call]


@implementer(IDelayedCall)
class Call:
    """A scheduled event (an ``IDelayedCall``)."""

    __slots__ = ("_clock", "_fn", "_kwargs", "args", "done", "process", "sequence", "time")

    def __init__(
        self,
        clock: VirtualClock,
        time: float,
        process: Process | None,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        self._clock = clock
        self._fn: Callable[..., Any] | None = fn
        self._kwargs = kwargs
        self.time = time
        self.process = process
        self.args = args
        self.sequence = 0
        self.done = False

    def getTime(self) -> float:
        """Its time."""
        return self.time

    def cancel(self) -> None:
        """Cancel it."""
        self._check()
        self._fn = None
        self.args = ()

    def reset(self, secondsFromNow: float) -> None:
        """Move it to a number of seconds from now."""
        self._check()
        self.time = self._clock.now + secondsFromNow
        self._clock.push(self)

    def delay(self, secondsLater: float) -> None:
        """Move it later by a number of seconds."""
        self._check()
        self.time += secondsLater
        self._clock.push(self)

    def active(self) -> bool:
        """Whether it is still scheduled."""
        return self._fn is not None and not self.done

    def _check(self) -> None:
        if self.done:
            raise AlreadyCalled
        if self._fn is None:
            raise AlreadyCancelled

    def happen(self) -> None:
        """Run it."""
        fn = self._fn
        if fn is not None:
            self.done = True
            self._fn = None
            if self._kwargs:
                fn(*self.args, **self._kwargs)
            else:
                fn(*self.args)


class VirtualClock:
    """
    The time of a simulation, and its scheduled events.

    :ivar now: seconds since its beginning.
    :ivar events: how many have happened.
    """

    _log = Logger()

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        self._sequence = 0
        self._heap: list[tuple[float, int, Call]] = []

    def push(self, call: Call) -> Call:
        """Queue an event whose time was set; its earlier place in the queue is void."""
        self._sequence += 1
        call.sequence = self._sequence
        heapq.heappush(self._heap, (call.time, self._sequence, call))
        return call

    def at(self, time: float, process: Process | None, fn: Callable[..., Any], *args: Any) -> Call:
        """
        Call ``fn`` at a time.

        :param process: its process: the event is dropped if it is dead by then, and delayed while it is frozen.
        """
        return self.push(Call(self, max(time, self.now), process, fn, args))

    def calls_of(self, process: Process) -> list[Call]:
        """The scheduled events of a process."""
        return [call for *_, call in self._heap if call.process is process]

    def clear(self) -> None:
        """Forget all scheduled events."""
        self._heap.clear()

    def run_until(self, end: float) -> None:
        """Run all events up to a time."""
        heap = self._heap
        while heap and heap[0][0] <= end:
            time, sequence, call = heapq.heappop(heap)
            if sequence != call.sequence:
                continue
            if time > self.now:
                self.now = time
            process = call.process
            if process is not None:
                if process.dead:
                    continue
                if process.frozen:
                    process.missed.append(call)
                    continue
            self.events += 1
            try:
                call.happen()
            except Crashed:
                pass  # The machine stopped in the middle of this event; it is dead from here on.
            except Exception:
                self._log.failure("an event failed")
        self.now = max(self.now, end)
