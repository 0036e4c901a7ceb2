"""
Many deadlines on one timer of the reactor (Kafka: SystemTimer).

Most deadlines of a broker (long polls, acknowledgements, sessions) are cancelled before they expire. Cancelling sets a
flag; the reactor has one delayed call for all of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger


@define(eq=False)
class Timer:
    """A deadline in :class:`Timers`."""

    _timers: Timers
    _fn: Callable[[], object] | None

    @property
    def active(self) -> bool:
        """Whether it is pending."""
        return self._fn is not None

    def cancel(self) -> None:
        """Cancel it; has no effect if it has fired or was cancelled."""
        if self._fn is not None:
            self._fn = None
            self._timers._cancelled()


@define(eq=False, repr=False)
class Timers:
    """
    Deadlines on one timer of the reactor.

    :ivar clock: the reactor's clock.
    :param slack: how many cancelled deadlines may stay until they expire, even if there are no others: for those that
        are set and cancelled all the time, and expire soon.
    """

    clock: IReactorTime
    _slack: int = 0
    _heap: list[tuple[float, int, Timer]] = field(factory=list, init=False)
    _sequence: int = field(default=0, init=False)
    _dead: int = field(default=0, init=False)
    _wake: IDelayedCall | None = field(default=None, init=False)

    _log = Logger()

    A_TURN = 1000
    """Deadlines served per reactor turn, at most, and"""
    SECONDS_A_TURN = 0.005
    """the time after which the rest waits for the next one."""

    def __len__(self) -> int:
        return len(self._heap) - self._dead

    def call_later(self, seconds: float, fn: Callable[[], object]) -> Timer:
        """Call ``fn`` after this many seconds; calls due together run in the order of scheduling."""
        timer = Timer(self, fn)
        self._sequence += 1
        deadline = self.clock.seconds() + max(seconds, 0)
        heapq.heappush(self._heap, (deadline, self._sequence, timer))
        if self._heap[0][2] is timer:
            self._arm()
        return timer

    def close(self) -> None:
        """Cancel all deadlines."""
        for _, _, timer in self._heap:
            timer._fn = None
        self._heap.clear()
        self._dead = 0
        self._arm()

    def _cancelled(self) -> None:
        self._dead += 1
        if self._dead > self._slack and self._dead * 2 > len(self._heap):
            # Cancelled entries use memory until they expire; at most half of the heap may be cancelled.
            self._heap = [entry for entry in self._heap if entry[2].active]
            heapq.heapify(self._heap)
            self._dead = 0
            self._arm()

    def _arm(self) -> None:
        """Schedule the reactor's call for the first deadline, if there is one."""
        if self._wake is not None and self._wake.active():
            self._wake.cancel()
        self._wake = None
        if self._heap:
            self._wake = self.clock.callLater(max(self._heap[0][0] - self.clock.seconds(), 0), self._fire)

    def _fire(self) -> None:
        self._wake = None
        now = self.clock.seconds()
        ends = now + self.SECONDS_A_TURN
        for _ in range(self.A_TURN):
            if not self._heap or self._heap[0][0] > now:
                break
            timer = heapq.heappop(self._heap)[2]
            fn, timer._fn = timer._fn, None
            if fn is None:
                self._dead -= 1
                continue
            try:
                fn()
            except Exception:
                self._log.failure("a timer's call failed")
            if self.clock.seconds() > ends:
                break
        self._arm()
