"""
Throttles background work by time and by bytes (Kafka: Throttler).

Work on the reactor runs in short slices with pauses between them; a byte rate makes the pauses longer.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.timers import Timer, Timers

SLICE_SECONDS = 0.004
"""Seconds of work before a pause."""
PAUSE_RATIO = 3.0
"""Length of a pause relative to the work before it: the work takes at most a fourth of the time."""
MAX_PAUSE_SECONDS = 0.5
"""Upper bound in seconds of the pause after a slice, in case the clock was set forward."""
_BURST = 0.1
"""Seconds of the byte rate that may be used at once."""

_AT_ONCE = 16 << 20
"""Upper bound of the same in bytes."""


@define(eq=False)
class Throttler:
    """
    Throttles one worker.

    :ivar timers: measure time and end pauses.
    :ivar bytes_per_second: average rate of reads and writes.
    :ivar sharing: the number of workers that share the rate now.
    """

    timers: Timers
    bytes_per_second: float = float("inf")
    sharing: Callable[[], int] = lambda: 1
    _begun: float = field(default=0.0, init=False)
    _owed: float = field(default=0.0, init=False)
    _wake: Timer | None = field(default=None, init=False)
    _resting: Deferred[None] | None = field(default=None, init=False)

    def begin(self) -> None:
        """Begin a slice."""
        self._begun = self.timers.clock.seconds()

    def waited(self, since: float) -> None:
        """Do not count the time since ``since`` as work: it was spent waiting."""
        self._begun += self.timers.clock.seconds() - since

    def moved(self, size: int, seconds: float = 0.0) -> None:
        """Count bytes that were read or written, in a thread for so long."""
        self._owed = max(0.0, self._owed + size * self.sharing() / self.bytes_per_second - seconds)

    @property
    def bytes_at_once(self) -> int:
        """How many bytes a thread may read before it reports them by :meth:`moved`."""
        return int(min(_BURST * self.bytes_per_second / self.sharing(), _AT_ONCE))

    @property
    def is_due(self) -> bool:
        """Whether a pause is due."""
        return self.timers.clock.seconds() - self._begun >= SLICE_SECONDS or self._owed > _BURST

    def rest(self) -> Deferred[None]:
        """Pause. Fires when the next slice begins."""
        worked = self.timers.clock.seconds() - self._begun
        pause = max(min(worked * PAUSE_RATIO, MAX_PAUSE_SECONDS), self._owed)
        self._owed = 0.0
        resting = self._resting = Deferred()
        self._wake = self.timers.call_later(max(pause, 0.0), self.hurry)
        return resting

    def hurry(self) -> None:
        """End the current pause, if any, now."""
        resting, self._resting = self._resting, None
        if self._wake is not None:
            self._wake.cancel()
        self._wake = None
        if resting is not None:
            self.begin()
            resting.callback(None)
