"""
When to start a process again that has ended: at once if it has served for a while, else after a pause that doubles up
to :data:`LONGEST_PAUSE`.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 15.0
"""Seconds before a process that ended again is started."""
WELL_SECONDS = 60.0
"""A process that served for so long is started again at once when it ends."""


@define(eq=False)
class RestartBackoff:
    """The starts of one process."""

    _reactor: IReactorTime
    _started_at: float = field(default=0.0, init=False)
    _pause: float = field(default=0.0, init=False)
    _waiting: IDelayedCall | None = field(default=None, init=False)

    def started(self) -> None:
        """The process was started just now."""
        self._started_at = self._reactor.seconds()

    def ended(self, start: Callable[[], object], *, was_ready: bool = True) -> float:
        """
        The process has ended: call ``start`` after a pause.

        :param was_ready: whether it was of use since it was started.
        :return: the pause, in seconds.
        """
        served = self._reactor.seconds() - self._started_at if was_ready else 0.0
        self._pause = 0.0 if served >= WELL_SECONDS else min(max(self._pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
        self._waiting = self._reactor.callLater(self._pause, self._start, start)
        return self._pause

    def _start(self, start: Callable[[], object]) -> None:
        self._waiting = None
        start()

    def cancel(self) -> None:
        """Do not start it again."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
