"""The order in which threads read from remote storage."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.storage.remote.load_queue import LoadQueue


class LoadQueueTests(SynchronousTestCase):
    """Loads whose threads end when the test says so."""

    def setUp(self) -> None:
        self.running: dict[str, Deferred[Any]] = {}

    def run_in_thread(self, name: str) -> Deferred[Any]:
        """As a thread would."""
        self.running[name] = Deferred()
        return self.running[name]

    def queue(self, threads: int) -> LoadQueue:
        """A queue of loads that are named by what they load."""
        return LoadQueue(lambda load, *args: load(*args), threads)

    def test_who_waits_goes_first(self) -> None:
        """What is read ahead leaves two threads for what somebody waits for, which overtakes it."""
        queue = self.queue(4)
        done = {name: queue.add(name, self.run_in_thread, name) for name in "abcde"}
        self.assertEqual(list(self.running), ["a", "b"])
        queue.hurry("e")
        queue.hurry("d")
        queue.hurry("a")
        self.assertEqual(list(self.running), ["a", "b", "e", "d"])
        queue.add("f", self.run_in_thread, "f")
        queue.hurry("f")
        self.running["a"].callback(1)
        self.assertEqual(self.successResultOf(done["a"]), 1)
        self.assertEqual(list(self.running)[4:], ["f"])
        for name in "bedf":
            self.running[name].callback(name)
        self.assertEqual(list(self.running)[5:], ["c"])
        self.assertEqual(self.successResultOf(done["d"]), "d")

    def test_one_thread(self) -> None:
        """It does both, one after the other; an error is that load's alone."""
        queue = self.queue(1)
        first, second = (queue.add(name, self.run_in_thread, name) for name in "ab")
        self.assertEqual(list(self.running), ["a"])
        self.running["a"].errback(ValueError("a"))
        self.failureResultOf(first, ValueError)
        self.running["b"].callback("b")
        self.assertEqual(self.successResultOf(second), "b")
