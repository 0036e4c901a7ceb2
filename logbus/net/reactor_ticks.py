"""
Measures how late the reactor's timers are, and says so in the log; looks for standstills.
"""

from __future__ import annotations

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from logbus.metrics import HistogramValue, Registry
from logbus.net.standstills import Standstills
from logbus.net.turn_times import SHORT, TurnTimes


@define(eq=False)
class ReactorTicks:
    """
    Measures how long the reactor is blocked: by how much a call scheduled in ``interval`` seconds is late.

    :ivar clock: the reactor's.
    :ivar turns: is told of lateness, too: another reactor than ours does not measure its turns.
    :ivar standstills: looks at each of these calls: another reactor than ours does not have it look.
    :ivar alarm: lateness in seconds that is logged (at most one line a second).
    """

    clock: IReactorTime
    lateness: HistogramValue
    turns: TurnTimes
    standstills: Standstills
    interval: float = 0.05
    alarm: float = 0.1
    _call: IDelayedCall | None = field(default=None, init=False)
    _due: float = field(default=0.0, init=False)
    _quiet_until: float = field(default=float("-inf"), init=False)
    _unsaid: int = field(default=0, init=False)
    _worst: float = field(default=0.0, init=False)
    _longest: float = field(default=0.0, init=False)

    _log = Logger()

    @classmethod
    def in_registry(cls, clock: IReactorTime, registry: Registry) -> ReactorTicks:
        """Create it, and declare the metrics of the reactor."""
        lateness = registry.histogram("logbus_reactor_late_seconds", "By how much timers of the reactor came late.")
        turns = TurnTimes.of(clock)
        turns.register_metrics(registry)
        return cls(clock, lateness.labels(), turns, Standstills.of(clock))

    def start(self) -> None:
        """Start measuring."""
        if self._call is None:
            self._schedule()

    def stop(self) -> None:
        """Stop measuring, and cancel the timer."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def take_longest(self) -> float:
        """Return the longest lateness since the last call, in seconds."""
        longest, self._longest = self._longest, 0.0
        return longest

    def _schedule(self) -> None:
        self._due = self.clock.seconds() + self.interval
        self._call = self.clock.callLater(self.interval, self._tick)

    def _tick(self) -> None:
        self.standstills.look()
        now = self.clock.seconds()
        late = max(now - self._due, 0.0)
        self.lateness.observe(late)
        self._longest = max(self._longest, late)
        if late > SHORT:
            self.turns.held_up(late)
        if late > self.alarm:
            self._unsaid += 1
            self._worst = max(self._worst, late)
        if self._unsaid and now >= self._quiet_until:
            self._log.warn(
                "the reactor was blocked for {worst_ms} ms ({times} times over {alarm_ms} ms since the last such line)",
                worst_ms=round(self._worst * 1000),
                times=self._unsaid,
                alarm_ms=round(self.alarm * 1000),
            )
            self._quiet_until = now + 1
            self._unsaid, self._worst = 0, 0.0
        self._schedule()
