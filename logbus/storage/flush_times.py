"""
How long the syncs of a log directory take: those that have ended, and those under way.

A device that fails is often slow first: a sync that never ends is in no histogram.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from time import monotonic

from attrs import define, field

from logbus.metrics import LATENCY_BUCKETS, HistogramValue


@define(eq=False)
class FlushTimes:
    """
    The syncs of one log directory.

    :ivar seconds: the monotonic clock.
    :ivar histogram: of those that succeeded, in seconds.
    """

    seconds: Callable[[], float] = monotonic
    histogram: HistogramValue = field(factory=lambda: HistogramValue(LATENCY_BUCKETS), init=False)
    # When each began, in that order.
    _under_way: dict[int, float] = field(factory=dict, init=False)
    _tickets: count[int] = field(factory=count, init=False)
    _longest: float = field(default=0.0, init=False)

    def begin(self) -> int:
        """A sync begins: a ticket for its end."""
        ticket = next(self._tickets)
        self._under_way[ticket] = self.seconds()
        return ticket

    def end(self, ticket: int, *, succeeded: bool) -> None:
        """A sync is over."""
        took = self.seconds() - self._under_way.pop(ticket)
        self._longest = max(self._longest, took)
        if succeeded:
            self.histogram.observe(took)

    def take_longest(self) -> float:
        """Seconds of the longest sync that has ended since the last call, or is under way."""
        longest, self._longest = self._longest, 0.0
        begun = next(iter(self._under_way.values()), None)
        return longest if begun is None else max(longest, self.seconds() - begun)
