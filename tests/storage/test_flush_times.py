"""Tests of :mod:`logbus.storage.flush_times`."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.storage.flush_times import FlushTimes


class FlushTimesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.times = FlushTimes(self.clock.seconds)

    def test_under_way(self) -> None:
        """A sync that does not end counts for as long as it lasts; of several, the one that began first."""
        first = self.times.begin()
        self.clock.advance(3)
        second = self.times.begin()
        self.clock.advance(1)
        self.assertEqual(self.times.take_longest(), 4)
        self.clock.advance(60)
        self.assertEqual(self.times.take_longest(), 64)
        self.times.end(first, succeeded=True)
        self.assertEqual((self.times.take_longest(), self.times.take_longest()), (64, 61))
        self.times.end(second, succeeded=True)
        self.assertEqual((self.times.take_longest(), self.times.take_longest()), (61, 0))
        self.assertEqual((self.times.histogram.count, self.times.histogram.sum), (2, 125))

    def test_failed(self) -> None:
        """One that failed is over, but tells nothing about how long it takes until records are on stable storage."""
        ticket = self.times.begin()
        self.clock.advance(30)
        self.times.end(ticket, succeeded=False)
        self.assertEqual((self.times.take_longest(), self.times.take_longest()), (30, 0))
        self.assertEqual(self.times.histogram.count, 0)
