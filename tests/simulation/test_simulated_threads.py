"""Simulated threads, and the object store that brokers use from them."""

from __future__ import annotations

from random import Random
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.trial.unittest import SynchronousTestCase

from logbus.storage.remote.iremote_storage import RemoteStorageError
from logbus.testing.simulation.environment.network import Network
from logbus.testing.simulation.environment.node_reactor import NodeReactor
from logbus.testing.simulation.environment.remote_objects import RemoteObjects
from logbus.testing.simulation.environment.simulated_threads import SimulatedThreads
from logbus.testing.simulation.environment.virtual_clock import VirtualClock


class SimulatedThreadsTests(SynchronousTestCase):
    """Two threads of a process."""

    def setUp(self) -> None:
        self.clock = VirtualClock()
        self.reactor = NodeReactor(self.clock, Network(self.clock, Random(1)), "10.0.0.1")
        self.threads = SimulatedThreads(self.clock, self.reactor)
        self.pool = self.threads.pool("test", 2)
        self.objects = RemoteObjects(self.clock, Random(1))
        self.seen: list[tuple[float, str]] = []

    def start(self, work: Any, *args: Any) -> Deferred[Any]:
        return deferToThreadPool(self.reactor, cast(Any, self.pool), work, *args)

    def work(self, name: str, seconds: float) -> str:
        for _ in range(2):
            self.threads.sleep(seconds)
            self.seen.append((self.clock.now, name))
        return name

    def test_they_block_for_virtual_time(self) -> None:
        """Side by side; what is too much for the pool waits until a thread is free."""
        done = [self.start(self.work, name, seconds) for name, seconds in (("a", 2.0), ("b", 3.0), ("c", 1.0))]
        self.clock.run_until(10)
        self.assertEqual(self.seen, [(2, "a"), (3, "b"), (4, "a"), (5, "c"), (6, "b"), (6, "c")])
        self.assertEqual([self.successResultOf(each) for each in done], ["a", "b", "c"])
        self.successResultOf(self.pool.end())

    def test_errors(self) -> None:
        """Are the results of what failed."""
        self.objects.refused = frozenset({"read"})
        done = self.start(self.objects.client(1, self.threads).read, "name")
        self.clock.run_until(1)
        self.failureResultOf(done, RemoteStorageError)

    def test_a_frozen_process(self) -> None:
        """Goes on when it is thawed."""
        done = self.start(self.work, "a", 2.0)
        self.clock.run_until(1)
        self.reactor.freeze()
        self.clock.run_until(7)
        self.assertEqual(self.seen, [])
        self.reactor.thaw()
        self.clock.run_until(9.5)
        self.assertEqual(self.seen, [(7, "a"), (9, "a")])
        self.successResultOf(done)

    def test_a_process_that_ends(self) -> None:
        """Its threads end where they are, and nobody is told."""
        done = self.start(self.work, "a", 2.0)
        self.clock.run_until(3)
        self.reactor.dead = True
        self.threads.kill()
        self.clock.run_until(10)
        self.assertEqual(self.seen, [(2, "a")])
        self.assertEqual(self.threads.workers, {})
        self.assertNoResult(done)

    def test_a_write_that_is_cut_off(self) -> None:
        """May be there, as a whole or in part, or not at all."""
        outcomes = set()
        for _ in range(40):
            self.make_threads_again()
            self.start(self.objects.client(1, self.threads).write, "name", [b"one", b"two"])
            self.clock.run_until(self.clock.now + 0.025)
            self.threads.kill()
            self.clock.run_until(self.clock.now + 2)
            outcomes.add(self.objects.objects.pop("name", None))
        self.assertIn(None, outcomes)
        self.assertTrue({b"one", b"onetwo"} & outcomes)

    def make_threads_again(self) -> None:
        self.threads = SimulatedThreads(self.clock, self.reactor)
        self.pool = self.threads.pool("test", 2)
