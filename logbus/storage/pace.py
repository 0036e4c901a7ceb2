"""
How long work on the reactor goes on, and how long it pauses: a share of the time, and a rate of bytes.
"""

from __future__ import annotations

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.timers import Timer, Timers

SLICE = 0.004
"""Seconds of work after which others get their turn."""
PAUSES = 3.0
"""How much longer a pause is than the work before it: one fourth of the time is the most that is taken."""
LONGEST = 0.5
"""The longest pause for a slice, in seconds: a clock that was set ahead is no reason for an hour of it."""
_BURST = 0.1
"""Seconds of the rate that may be read or written at once."""


@define(eq=False)
class Pace:
    """
    The pace of one worker.

    :ivar timers: measure and wake.
    :ivar bytes_per_second: what may be read and written in the long run.
    """

    timers: Timers
    bytes_per_second: float = float("inf")
    _begun: float = field(default=0.0, init=False)
    _owed: float = field(default=0.0, init=False)
    _wake: Timer | None = field(default=None, init=False)
    _resting: Deferred[None] | None = field(default=None, init=False)

    def begin(self) -> None:
        """A slice begins now."""
        self._begun = self.timers.clock.seconds()

    def waited(self, since: float) -> None:
        """From then until now something else was waited for: that was no work."""
        self._begun += self.timers.clock.seconds() - since

    def moved(self, size: int) -> None:
        """So many bytes were read or written."""
        self._owed += size / self.bytes_per_second

    @property
    def is_due(self) -> bool:
        """Whether it is time for a pause."""
        return self.timers.clock.seconds() - self._begun >= SLICE or self._owed > _BURST

    def rest(self) -> Deferred[None]:
        """Fires after the pause, when the next slice begins."""
        worked = self.timers.clock.seconds() - self._begun
        pause = max(min(worked * PAUSES, LONGEST), self._owed)
        self._owed = 0.0
        resting = self._resting = Deferred()
        self._wake = self.timers.call_later(max(pause, 0.0), self.hurry)
        return resting

    def hurry(self) -> None:
        """End the pause, if there is one, now."""
        resting, self._resting = self._resting, None
        if self._wake is not None:
            self._wake.cancel()
        self._wake = None
        if resting is not None:
            self.begin()
            resting.callback(None)
