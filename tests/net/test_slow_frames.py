"""Frames that make hardly any progress."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.request_budget import SLOWEST, RequestBudget
from logbus.net.slow_frames import PATIENCE
from tests.net.memory_holders import Connection


class SlowTests(SynchronousTestCase):
    """Frames that hardly move, while others wait for their memory."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.budget = RequestBudget(10 << 20, clock=self.clock)
        self.still, self.moving, self.waiting = (Connection(self.budget, f"10.0.0.{number}") for number in range(3))
        self.still.holds(5 << 20)
        self.moving.holds(2 << 20)
        self.still.holds(4 << 20)

    def seconds(self, count: int) -> None:
        for _ in range(count):
            self.clock.advance(1)
            frames, size = self.moving.received or (0, 0)
            self.moving.received = (frames, size + SLOWEST)

    def test_slow_frames_are_closed_during_a_shortage(self) -> None:
        """
        A frame that brings nothing for some seconds is closed, and its memory goes to those who wait.
        """
        self.assertFalse(self.waiting.holds(4 << 20))
        self.seconds(PATIENCE)
        self.assertEqual((self.still.evicted, self.waiting.granted), ("", []))
        self.seconds(2)
        self.assertIn("queued.max.request.bytes", self.still.evicted)
        self.assertEqual((self.moving.evicted, self.waiting.granted), ("", [4 << 20]))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_completed_frames_are_progress(self) -> None:
        """
        One that completes frame after frame is not slow, however little is there of the next.
        """
        self.waiting.holds(4 << 20)
        for number in range(10):
            self.still.received = (number, 3)
            self.clock.advance(1)
        self.assertEqual(self.still.evicted, "")

    def test_waiting_for_a_response_is_not_slow(self) -> None:
        """
        A connection that waits for responses is left alone.
        """
        self.moving.received = None
        self.waiting.holds(4 << 20)
        for _ in range(10):
            self.clock.advance(1)
        self.assertEqual(self.moving.evicted, "")
        self.assertNotEqual(self.still.evicted, "")

    def test_no_closing_without_a_shortage(self) -> None:
        """
        Without a shortage there is no hurry, and no timer.
        """
        self.assertEqual(self.clock.getDelayedCalls(), [])
