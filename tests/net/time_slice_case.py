"""Work in time slices, on a clock that goes on while work is done."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.time_slices import SliceScheduler, TimeSlice
from tests.net.fakes import iterate


class BusyClock(Clock):
    """A clock that goes on while work is done."""

    def work(self, seconds: float) -> None:
        self.rightNow += seconds

    def iterate(self) -> None:
        """One iteration of a reactor."""
        iterate(self)


class TimeSliceCase(SynchronousTestCase):
    """Tests that begin work, and turn the reactor."""

    def setUp(self) -> None:
        self.clock = BusyClock()
        self.scheduler = SliceScheduler(self.clock)
        self.scheduler.processor_seconds = self.clock.seconds
        self.done: list[int] = []

    def start(self, count: int, number: int = 0, seconds: float = 0.0, connection: int | None = None) -> Deferred[int]:
        """Begin work of ``count`` units, each of which takes so long; it notes its number for each."""
        time_slice = TimeSlice(self.scheduler, connection=connection)
        return Deferred.fromCoroutine(self._work(time_slice, count, number, seconds))

    async def _work(self, time_slice: TimeSlice, count: int, number: int, seconds: float) -> int:
        for _ in range(count):
            self.done.append(number)
            self.clock.work(seconds)
            if time_slice.used():
                await time_slice.next()
        return number

    def turn(self) -> int:
        """One iteration of the reactor; how many units were done in it."""
        before = len(self.done)
        self.clock.iterate()
        return len(self.done) - before
