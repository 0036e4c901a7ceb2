"""When a process is started again."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.workers.restart_backoff import FIRST_PAUSE, LONGEST_PAUSE, WELL_SECONDS, RestartBackoff


class RestartBackoffTests(SynchronousTestCase):
    """Starts of a process that ends."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.backoff = RestartBackoff(self.clock)
        self.starts: list[float] = []

    def start(self) -> None:
        self.starts.append(self.clock.seconds())
        self.backoff.started()

    def test_pauses(self) -> None:
        """They double up to the longest."""
        pauses = []
        for _ in range(8):
            pauses.append(self.backoff.ended(self.start))
            self.clock.advance(pauses[-1])
        self.assertEqual(pauses, [FIRST_PAUSE * 2**n for n in range(6)] + [LONGEST_PAUSE] * 2)
        self.assertEqual(len(self.starts), 8)

    def test_one_that_served(self) -> None:
        """It is started again at once, and its next pause is the first; one that was never ready has served nobody."""
        self.start()
        self.clock.advance(WELL_SECONDS)
        self.assertEqual(self.backoff.ended(self.start), 0)
        self.clock.advance(0)
        self.assertEqual(self.starts, [0, WELL_SECONDS])
        self.clock.advance(WELL_SECONDS)
        self.assertEqual(self.backoff.ended(self.start, was_ready=False), FIRST_PAUSE)

    def test_cancel(self) -> None:
        """It is not started again; without a start to come nothing happens."""
        self.backoff.cancel()
        self.backoff.ended(self.start)
        self.backoff.cancel()
        self.backoff.cancel()
        self.assertEqual(self.clock.getDelayedCalls(), [])
