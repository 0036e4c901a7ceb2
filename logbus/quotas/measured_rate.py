"""A rate, measured over the last few windows of time (Kafka: Rate, SampledStat). Pure."""

from __future__ import annotations

from collections import deque

from attrs import define, field


@define(eq=False)
class MeasuredRate:
    """
    Amounts by window.

    :param count: number of windows that are kept.
    :param seconds: length of each.
    """

    _count: int
    _seconds: float
    # Begin and amount of each window, oldest first.
    _windows: deque[list[float]] = field(factory=deque, init=False)

    def record(self, amount: float, now: float) -> None:
        """Count an amount; a new window begins when the last one is over."""
        windows = self._windows
        if windows and now - windows[-1][0] < self._seconds:
            windows[-1][1] += amount
        else:
            self._forget(now)
            if len(windows) == self._count:
                windows.popleft()
            windows.append([now, amount])

    def elapsed(self, now: float) -> float:
        """
        The time over which the rate is measured: at least all windows but one, so that the first amount of a client
        is no burst.
        """
        self._forget(now)
        least = (self._count - 1) * self._seconds or self._seconds
        return max(least, now - self._windows[0][0]) if self._windows else least

    def rate(self, now: float) -> float:
        """Amounts a second."""
        elapsed = self.elapsed(now)
        return sum(amount for _, amount in self._windows) / elapsed

    def throttle_seconds(self, quota: float, now: float) -> float:
        """How long to wait until the rate is down to a quota: all windows at most, since nothing older counts."""
        elapsed = self.elapsed(now)
        excess = sum(amount for _, amount in self._windows) / quota - elapsed
        return min(max(excess, 0.0), self._count * self._seconds)

    def is_idle(self, now: float) -> bool:
        """Whether nothing counts any more."""
        self._forget(now)
        return not self._windows

    def _forget(self, now: float) -> None:
        windows, oldest = self._windows, now - self._count * self._seconds
        while windows and windows[0][0] <= oldest:
            windows.popleft()
