"""Slow writes are noticed, and forgotten."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.storage.filesystem.slow_writes import REMEMBERED, SLOW, SlowWrites


class SlowWritesTests(SynchronousTestCase):
    def test_for_a_while(self) -> None:
        """One slow write stands for some seconds, whatever quick ones follow it, and a further one for more."""
        clock = Clock()
        slow = SlowWrites(clock.seconds)
        clock.advance(1000)
        for seconds, expected in ((SLOW / 2, False), (2 * SLOW, True), (0.0, True)):
            begun = slow.seconds()
            clock.advance(seconds)
            slow.took(begun)
            self.assertEqual(bool(slow), expected)
        clock.advance(REMEMBERED - 1)
        self.assertTrue(slow)
        slow.took(clock.seconds() - 1)
        clock.advance(REMEMBERED - 1)
        self.assertTrue(slow)
        clock.advance(1)
        self.assertFalse(slow)
