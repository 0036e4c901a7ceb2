"""How results of blocking calls come back."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from logbus.storage.filesystem import io_threads
from logbus.storage.filesystem.io_threads import IOThreads


class Reactor:
    """Runs what threads ask for when it is told to."""

    def __init__(self) -> None:
        self.queue: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def callFromThread(self, run: Callable[..., object], *args: Any) -> None:
        self.queue.append((run, args))

    def turn(self) -> None:
        queue, self.queue = self.queue, []
        for run, args in queue:
            run(*args)


class DeliveryTests(SynchronousTestCase):
    def test_some_in_a_turn(self) -> None:
        """Results that came together are delivered in order, as many in a turn as their time allows; then it stops."""
        reactor, finished, got = Reactor(), Event(), []
        threads = IOThreads("test", reactor, lambda error: error)  # type: ignore[arg-type]
        for number in range(6):
            threads.submit(lambda number=number: number).addCallback(got.append)
        threads.submit(finished.set)
        self.assertTrue(finished.wait(60))
        while len(reactor.queue) < 7:
            pass  # The thread is about to say so.
        now = iter(range(1000))
        self.patch(io_threads, "SECONDS_A_TURN", 1)
        with patch.object(io_threads, "perf_counter", lambda: next(now)):
            stopped = threads.stop()
            for count in (2, 4, 6):
                reactor.turn()
                self.assertEqual(got, list(range(count)))
            self.assertNoResult(stopped)
        while not stopped.called:
            reactor.turn()
