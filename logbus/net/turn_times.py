"""
The times that turns of the reactor take: from when it has waited for what there is to do until it waits again.

Whatever is done in one turn holds up everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

from logbus.metrics import Family, HistogramValue, Registry, histogram_samples

TURN_BUCKETS = (0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.3, 1.0, 3.0)
"""Seconds. Most turns are in the first bucket."""

SHORT = TURN_BUCKETS[0]
_SLOT_SECONDS = 10
_SLOTS = 6


class TurnTimes:
    """
    The turns of a reactor; the longest of the last minute (in slots of ten seconds).

    :ivar begun: when the turn began, by ``seconds``; 0: none has yet.
    :ivar lengths: of all turns.
    """

    __slots__ = ("_longest", "_seconds", "begun", "lengths")

    def __init__(self, seconds: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self.begun = 0.0
        self.lengths = HistogramValue(TURN_BUCKETS)
        self._longest: dict[int, float] = {}

    @classmethod
    def of(cls, reactor: object) -> TurnTimes:
        """Return those of a reactor; of one that does not measure them, something that can be told its lateness."""
        turns = getattr(reactor, "turns", None)
        return turns if isinstance(turns, TurnTimes) else cls(getattr(reactor, "seconds", monotonic))

    @property
    def idle(self) -> float:
        """Seconds that the reactor has waited until this turn, from some time on."""
        return self.begun - self.lengths.sum

    def end(self, now: float) -> None:
        """A turn ends."""
        took = now - self.begun
        if took > SHORT:
            self.lengths.observe(took)
            self.held_up(took)
        else:
            self.lengths.counts[0] += 1
            self.lengths.sum += took

    def held_up(self, duration: float) -> None:
        """The reactor was held up for so many seconds, by one turn or, as far as timers show, by some."""
        slot = int(self._seconds() // _SLOT_SECONDS)
        longest = self._longest
        if duration > longest.get(slot, 0.0):
            for old in [each for each in longest if each < slot - _SLOTS]:
                del longest[old]
            longest[slot] = duration

    def longest(self) -> float:
        """Return the longest duration of the last minute, in seconds."""
        oldest = int(self._seconds() // _SLOT_SECONDS) - _SLOTS
        return max((took for slot, took in self._longest.items() if slot >= oldest), default=0.0)

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics."""
        registry.gauge(
            "logbus_reactor_longest_turn_seconds",
            "The longest time in the last minute in which the reactor did one thing, and all others waited.",
            read=self.longest,
        )
        registry.add_source(self._families)

    def _families(self) -> Iterator[Family]:
        name = "logbus_reactor_turn_seconds"
        yield Family(
            name,
            "How long turns of the reactor took, if it is logbus's own.",
            "histogram",
            histogram_samples(name, (), self.lengths),
        )
