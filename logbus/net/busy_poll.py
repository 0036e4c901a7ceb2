"""
Polls again before the reactor sleeps, where the next request is expected at once.

Of a client with one request at a time each is followed by the next within some dozen microseconds. To sleep meanwhile,
and to be woken, takes as long as that, and costs as much processor time as to poll again and again.

It pays where nobody else wants the processor, so there are conditions: several processors; waits that were short, for a
single connection each; and that a wait without result, or having to make way for others while polling, is followed by
sleep for some time.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from time import monotonic
from typing import Any

from logbus.processors import processors

_THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)
"""Counts of a thread, where the system has them."""

SHORT_S = 200e-6
"""A wait that was as short could be shorter without sleep."""

EXPECTED = 2
"""Short waits in a row after which another one is expected."""

AFTER_VAIN = -16
"""Waits to sleep in after polling in vain."""

AFTER_PREEMPTION = -2000
"""Waits to sleep in after making way for others."""

LOOKED_AT = 32
"""Times of polling after which it is looked at how often others were let pass."""

MOST_PREEMPTIONS = 2
"""Among these; more tell that others want the processor."""


def preemptions() -> int:
    """How often this thread had to make way for others; 0 where the system does not tell."""
    return 0 if _THREAD is None else resource.getrusage(_THREAD).ru_nivcsw


class BusyPoll:
    """
    Decides when to poll instead of sleeping, and does.

    :ivar seconds: the longest time to poll for; 0: never.
    :ivar expected: positive: the last short waits, :data:`EXPECTED` at most; negative: waits to sleep in.
    """

    __slots__ = ("_clock", "_preempted", "_preemptions", "_times", "expected", "seconds")

    def __init__(self, clock: Callable[[], float] = monotonic, preemptions: Callable[[], int] = preemptions) -> None:
        self._clock = clock
        self._preemptions = preemptions
        self._preempted = self._times = 0
        self.expected = 0
        self.seconds = 0.0

    @classmethod
    def of(cls, reactor: object) -> BusyPoll:
        """Return that of a reactor; of one without, something that nobody asks."""
        busy = getattr(reactor, "busy", None)
        return busy if isinstance(busy, BusyPoll) else cls()

    def allow(self, seconds: float) -> None:
        """Poll for so long at most, if there are several processors."""
        self.seconds = seconds if processors() > 1 else 0.0

    def poll(self, poll: Callable[[float, int], Any], timeout: float | None, count: int, since: float) -> Any:
        """
        Poll until something is ready, or for as long as is allowed; returns what is ready, if anything.

        :param poll: takes the seconds to wait and the number of descriptors, as :meth:`select.epoll.poll` does.
        :param timeout: seconds until a timer is due; None: there is none.
        :param since: the time by the clock.
        """
        if not self._times:
            self._preempted = self._preemptions()
        until = since + (self.seconds if timeout is None or timeout > self.seconds else timeout)
        ready = poll(0, count)
        while not ready and self._clock() < until:
            ready = poll(0, count)
        if not ready:
            self.expected = AFTER_VAIN
        self._times += 1
        if self._times >= LOOKED_AT:
            self._look()
        return ready

    def waited(self, seconds: float, ready: int) -> None:
        """
        Note a wait.

        :param ready: descriptors that it found ready.
        """
        if ready == 1 and seconds < SHORT_S:
            if self.expected < EXPECTED:
                self.expected += 1
        elif self.expected > 0:
            self.expected = 0

    def _look(self) -> None:
        self._times = 0
        if self._preemptions() - self._preempted > MOST_PREEMPTIONS:
            self.expected = AFTER_PREEMPTION
