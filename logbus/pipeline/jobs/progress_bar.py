"""
A bar for a terminal: how much of what is to be read is done, the rate, and how long the rest will take. Pure, apart
from the clock that is given.

::

    [########............] 41 %  1,234,000 of 3,000,000 offsets, 12,300/s, 2:24 left; 3 of 8 tasks
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import define, field

_CELLS = 20
_WINDOW = 30.0
"""Seconds that the rate is an average of, or those of the last batch if it took longer."""


@define(eq=False)
class ProgressBar:
    """
    The bar of a job.

    :param show: replaces the line of the terminal.
    :param clock: seconds.
    """

    show: Callable[[str], None]
    clock: Callable[[], float]
    _done: int = 0
    _left: int = 0
    _tasks: str = ""
    _seen: deque[tuple[float, int]] = field(factory=deque, init=False)

    def begin(self, left: int) -> None:
        """
        Something is to be read.

        :param left: offsets, of which none is done yet.
        """
        if not self._left:
            self._seen.clear()  # The job may have waited.
        if not self._seen:
            self._seen.append((self.clock(), self._done))
        self._left = left
        self._render()

    def batch(self, done: int, left: int) -> None:
        """
        A batch is done.

        :param done: its offsets;  ``left``: those that are left to be read.
        """
        self._done += done
        self._left = left
        now = self.clock()
        self._seen.append((now, self._done))
        while len(self._seen) > 2 and self._seen[1][0] < now - _WINDOW:
            self._seen.popleft()
        self._tasks = ""
        self._render()

    def tasks(self, text: str) -> None:
        """Spark has done some tasks of what is under way; "": nothing is."""
        self._tasks = text
        self._render()

    @property
    def rate(self) -> float:
        """Offsets per second of late; 0: not known."""
        if len(self._seen) < 2:
            return 0.0
        (began, before), (ended, after) = self._seen[0], self._seen[-1]
        return (after - before) / max(ended - began, 0.001)

    def _render(self) -> None:
        self.show(self.line())

    def line(self) -> str:
        """The line."""
        whole = self._done + self._left
        share = self._done / whole if whole else 1.0
        cells = int(share * _CELLS)
        text = f"[{'#' * cells}{'.' * (_CELLS - cells)}] {int(share * 100)} %  {self._done:,} of {whole:,} offsets"
        if rate := self.rate:
            text += f", {rate:,.0f}/s"
            if self._left:
                text += f", {duration(self._left / rate)} left"
        return f"{text}; {self._tasks}" if self._tasks else text


def duration(seconds: float) -> str:
    """``0:07``, ``2:24``, ``1:02:24``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
