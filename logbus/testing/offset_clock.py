"""
A clock that can be put forward: of a reactor's timers, and of the day, both together.

A broker on it lets retention, time-outs of group members and of transactions, and whatever else has its time, happen
without a wait for them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from attrs import define, field

if TYPE_CHECKING:
    from twisted.internet.posixbase import PosixReactorBase

    from logbus.net.reactor_ticks import ReactorTicks

STEPS = 100
"""In so many steps time passes: what one timer does has others come about, such as a rebalance."""

TURNS = 3
"""Turns of the reactor after each step, for what its timers have begun."""


@define(eq=False)
class OffsetClock:
    """
    Goes as fast as any clock, and jumps ahead when asked.

    :ivar offset: seconds by which it is ahead.
    :ivar measured: what finds timers late, and looks away while time passes.
    """

    offset: float = field(default=0.0, init=False)
    measured: list[ReactorTicks] = field(factory=list, init=False)

    def seconds(self) -> float:
        """Seconds since some moment, for timers."""
        return time.monotonic() + self.offset

    def wall(self) -> float:
        """Seconds since 1970."""
        return time.time() + self.offset

    async def advance(self, reactor: PosixReactorBase, seconds: float) -> None:
        """Let so many seconds pass, in the thread of the reactor, which has this clock."""
        from twisted.internet.task import deferLater

        paused = list(self.measured)
        for each in paused:
            each.stop()
        for _ in range(STEPS):
            self.offset += seconds / STEPS
            for _ in range(TURNS):
                await deferLater(reactor, 0)
        for each in paused:
            if each in self.measured:
                each.start()
