"""Slow writes are noticed, and that they are quick again."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.storage.filesystem.slow_writes import SLOW, SlowWrites


class SlowWritesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.slow = SlowWrites(self.clock.seconds)

    def took(self, *seconds: float) -> bool:
        for each in seconds:
            begun = self.slow.seconds()
            self.clock.advance(each)
            self.slow.took(begun)
        return bool(self.slow)

    def test_on_average(self) -> None:
        """A few slow writes in a row count, or one that is very slow; then so do the quick ones that follow."""
        self.assertFalse(self.took(*[SLOW / 8] * 100))
        self.assertFalse(self.took(4 * SLOW))
        self.assertTrue(self.took(*[2 * SLOW] * 8))
        self.assertFalse(self.took(*[SLOW / 8] * 8))
        self.assertTrue(self.took(100 * SLOW))
        self.assertFalse(self.took(*[SLOW / 8] * 40))
