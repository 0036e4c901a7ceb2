"""A process that stood still is told so."""

from __future__ import annotations

import time

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.metrics import Registry
from logbus.net.reactor_ticks import ReactorTicks
from logbus.net.standstills import Standstills


class StandstillsTests(SynchronousTestCase):
    """Looks now and then, by a clock that goes on while the process does not."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.standstills = Standstills(self.clock.seconds)
        self.told: list[float] = []

    def test_one_standstill(self) -> None:
        """It is told once, however it came about; times that are short are not."""
        self.standstills.subscribe(self.told.append)
        for passed in (0.05, 0.3, 7.0, 0.05):
            self.clock.advance(passed)
            self.standstills.look()
        self.assertEqual([round(each, 3) for each in self.told], [7.0])

    def test_listeners(self) -> None:
        """One that fails does not keep it from the others; one that is gone is told nothing."""
        self.standstills.subscribe(lambda seconds: 1 // 0)
        end = self.standstills.subscribe(self.told.append)
        self.clock.advance(3)
        self.standstills.look()
        end()
        self.clock.advance(3)
        self.standstills.look()
        self.assertEqual(self.told, [3.0])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)

    def test_measured_timers(self) -> None:
        """Where the reactor does not look itself, its timers do when they are measured."""
        reactor = Clock()
        ticks = ReactorTicks.in_registry(reactor, Registry())
        ticks.standstills = self.standstills
        self.standstills.subscribe(self.told.append)
        ticks.start()
        reactor.advance(0.05)
        self.clock.advance(4)
        reactor.advance(0.05)
        ticks.stop()
        self.assertEqual(self.told, [4.0])

    def test_of_a_reactor(self) -> None:
        """It is that of the reactor, if that has one."""

        class Looks:
            standstills = Standstills()

        self.assertIs(Standstills.of(Looks()), Looks.standstills)
        self.assertIsNot(Standstills.of(object()), Standstills.of(object()))

    def test_clock(self) -> None:
        """It is the one that goes on while the machine sleeps."""
        clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        before = time.clock_gettime(clock)
        self.assertTrue(before <= Standstills()._seconds() <= time.clock_gettime(clock))
