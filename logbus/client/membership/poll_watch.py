"""Notices that the application has not asked for records for too long (``max_poll_interval``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IDelayedCall


class PollWatch:
    """
    One timer, which is not moved with every poll.

    :param seconds: the time after which the application is late.
    :param late: called once when it is; :meth:`start` begins again.
    """

    def __init__(self, clock: Any, seconds: float, late: Callable[[], object]) -> None:
        self._clock = clock
        self._seconds = seconds
        self._late = late
        self._polled_at = 0.0
        self._timer: IDelayedCall | None = None

    def polled(self) -> None:
        """The application has asked for records."""
        self._polled_at = self._clock.seconds()

    def start(self) -> None:
        """Watch from now on."""
        self.polled()
        if self._timer is None:
            self._timer = self._clock.callLater(self._seconds, self._look)

    def stop(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        left = self._polled_at + self._seconds - self._clock.seconds()
        self._timer = self._clock.callLater(left, self._look) if left > 0 else None
        if self._timer is None:
            self._late()
