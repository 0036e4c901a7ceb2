"""
Notices that this process stood still: stopped by a signal, held up by one long call, or on a machine that slept.

It is looked when a turn of the reactor has taken long, or has waited, and every time that its timers are measured. So
those who must know are told before the reactor serves what came meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import define, field
from twisted.logger import Logger

NOTICED_S = 0.5
"""Much more than passes between two looks."""


_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# CLOCK_MONOTONIC of Linux stands still while the machine is suspended. That of macOS goes on, unlike time.monotonic().


def _uptime() -> float:
    """Seconds since the machine was started, with those in which it was suspended."""
    return time.clock_gettime(_CLOCK)


@define(eq=False)
class Standstills:
    """
    Tells of times in which nothing was done.

    :param seconds: since some moment; goes on while the process, or its machine, stands still.
    """

    _seconds: Callable[[], float] = _uptime
    _looked: float = field(init=False)
    _listeners: list[Callable[[float], object]] = field(factory=list, init=False)
    _log = Logger()

    @_looked.default
    def _now(self) -> float:
        return self._seconds()

    @classmethod
    def of(cls, reactor: object) -> Standstills:
        """Return those of a reactor; of one that does not look, something that others can have look."""
        found = getattr(reactor, "standstills", None)
        return found if isinstance(found, Standstills) else cls()

    def subscribe(self, listener: Callable[[float], object]) -> Callable[[], None]:
        """
        Call ``listener`` with the seconds of each later standstill, if not those of short ones; the returned function
        ends that.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def look(self) -> None:
        """Tell of the time since the last look, if that was long."""
        now = self._seconds()
        passed, self._looked = now - self._looked, now
        if passed < NOTICED_S:
            return
        for listener in list(self._listeners):
            try:
                listener(passed)
            except Exception:
                self._log.failure("a listener to standstills failed")
