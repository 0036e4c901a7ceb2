"""Tests the bar of a job on a terminal."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.progress_bar import ProgressBar, duration


class ProgressBarTests(SynchronousTestCase):
    """On a clock."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.shown: list[str] = []
        self.bar = ProgressBar(self.shown.append, self.clock.seconds)

    def batch(self, seconds: float, done: int, left: int) -> str:
        self.clock.advance(seconds)
        self.bar.batch(done, left)
        return self.shown[-1]

    def test_of_a_load(self) -> None:
        """From nothing to all; the rate is that of the last half a minute."""
        self.bar.begin(4000)
        self.assertEqual(self.shown, ["[....................] 0 %  0 of 4,000 offsets"])
        self.assertEqual(
            self.batch(10, 1000, 3000), "[#####...............] 25 %  1,000 of 4,000 offsets, 100/s, 0:30 left"
        )
        self.bar.tasks("1 of 2 tasks are done")
        self.assertTrue(self.shown[-1].endswith("0:30 left; 1 of 2 tasks are done"), self.shown)
        self.batch(40, 2000, 1000)
        self.assertEqual(self.batch(10, 1000, 0), "[####################] 100 %  4,000 of 4,000 offsets, 60/s")

    def test_that_follows(self) -> None:
        """More comes: the whole grows, and time that was spent waiting is not counted."""
        self.bar.begin(100)
        self.batch(1, 100, 0)
        self.clock.advance(1000)
        self.bar.begin(50)
        self.assertEqual(self.shown[-1], "[#############.......] 66 %  100 of 150 offsets")
        self.assertEqual(self.batch(1, 50, 0), "[####################] 100 %  150 of 150 offsets, 50/s")

    def test_without_a_terminal(self) -> None:
        """There is a line for each batch; on one there is the bar, and no line."""
        told: list[str] = []
        for watch in (JobControl(told.append), JobControl(told.append, self.bar)):
            watch.begin(10)
            watch.tell_batch("batch 1", 10, 0)
        self.assertEqual(told, ["batch 1"])
        self.assertEqual(len(self.shown), 2)

    def test_durations(self) -> None:
        self.assertEqual([duration(each) for each in (0.2, 61, 3744)], ["0:00", "1:01", "1:02:24"])
