"""The watch over an application's polls."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.membership.poll_watch import PollWatch


class PollWatchTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.late: list[float] = []
        self.watch = PollWatch(self.clock, 10.0, lambda: self.late.append(self.clock.seconds()))

    def test_without_polls(self) -> None:
        """
        It calls once, and again only after it was started anew.
        """
        self.watch.start()
        self.clock.pump([9.0, 1.0, 30.0])
        self.assertEqual(self.late, [10.0])
        self.watch.start()
        self.clock.pump([10.0])
        self.assertEqual(self.late, [10.0, 50.0])

    def test_with_polls(self) -> None:
        """
        The time runs from the last poll.
        """
        self.watch.start()
        for _ in range(5):
            self.clock.advance(8.0)
            self.watch.polled()
        self.clock.pump([9.0, 1.0])
        self.assertEqual(self.late, [50.0])

    def test_stopped(self) -> None:
        """
        Nothing is left on the clock, and stopping twice is no error.
        """
        self.watch.start()
        self.watch.stop()
        self.watch.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
