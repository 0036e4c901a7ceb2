"""Tests what is said of a store that is silent, and when a failed commit is not tried again."""

from __future__ import annotations

import logging
import threading

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.pipeline.blocking import patience
from logbus.pipeline.lake.store_patience import FAILURES, SECONDS, FailedAttempts, waiting


class FailedAttemptsTests(SynchronousTestCase):
    """Of a commit."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.failed = FailedAttempts(self.clock.seconds)

    def test_fast(self) -> None:
        """A few failures without another program's commit are enough."""
        self.assertEqual([self.failed.is_last(7) for _ in range(FAILURES)], [False] * (FAILURES - 1) + [True])

    def test_slow(self) -> None:
        """After a while one is enough: it may have taken minutes."""
        self.assertFalse(self.failed.is_last(7))
        self.clock.advance(SECONDS + 1)
        self.assertTrue(self.failed.is_last(7))

    def test_other_programs(self) -> None:
        """Their commits are no failures, however many there are."""
        self.assertFalse(any(self.failed.is_last(version) for version in range(50)))


def test_a_silent_store() -> None:
    """It is named, with what is done there."""
    told, said = threading.Event(), list[str]()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())
            told.set()

    log = logging.getLogger(patience.__name__)
    log.addHandler(handler := Handler())
    try:
        with waiting("s3://lake/views/", "a commit", 0.01):
            assert told.wait(60)
    finally:
        log.removeHandler(handler)
    assert said == ["s3://lake/views: a commit takes longer than 0 s; still waiting for its store"]


def test_a_local_directory() -> None:
    """Nothing is told of it: no thread is started."""
    before = threading.active_count()
    for url in ("/lake/views", "file:///lake/views"):
        with waiting(url, "a commit", 60):
            assert threading.active_count() == before
