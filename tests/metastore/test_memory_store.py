"""The store in memory: conformance, and sessions that break on command."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.metastore.memory_store import MemoryEnsemble, MemoryStore
from logbus.metastore.operations import ConnectionLost, SessionLost, SessionState
from tests.metastore.conformance import SharedStoreConformance, StoreConformance


class MemoryStoreTests(SharedStoreConformance, SynchronousTestCase):
    """A store that answers at once."""

    store: MemoryStore

    def make_store(self) -> MemoryStore:
        self.ensemble = MemoryEnsemble()
        return self.opened()

    def opened(self) -> MemoryStore:
        """Another client."""
        client = self.ensemble.client()
        self.successResultOf(client.open())
        return client

    def make_other(self) -> MemoryStore:
        return self.opened()

    def expire(self) -> None:
        self.store.expire()

    def test_suspension(self) -> None:
        """A client that is cut off is refused and loses its watches, but keeps its session and its ephemerals."""
        other = self.opened()
        self.done(self.store.create("/e", b"", ephemeral=True))
        self.done(self.store.exists("/w", self.heard.append))
        self.store.suspend()
        self.failureResultOf(self.store.get("/e"), ConnectionLost)
        self.assertEqual(self.done(other.children("/")), ["e"])
        self.store.resume()
        self.assertIs(self.store.state, SessionState.CONNECTED)
        self.assertEqual(self.store.generation, 1)
        self.done(other.create("/w"))
        self.assertEqual(self.heard, [])

    def test_expiry_while_cut_off(self) -> None:
        """A client learns of its expiry only when it is connected again."""
        other = self.opened()
        self.done(self.store.create("/e", b"", ephemeral=True))
        states: list[SessionState] = []
        self.store.subscribe(states.append)
        self.store.suspend()
        self.store.expire()
        self.assertEqual(self.done(other.children("/")), [])
        self.assertEqual(states, [SessionState.SUSPENDED])
        self.store.resume()
        self.assertEqual(states, [SessionState.SUSPENDED, SessionState.LOST, SessionState.CONNECTED])


class SlowMemoryStoreTests(StoreConformance, SynchronousTestCase):
    """A store whose answers take their time."""

    store: MemoryStore

    def make_store(self) -> MemoryStore:
        self.clock = Clock()
        self.ensemble = MemoryEnsemble(self.clock.seconds, self.clock, 0.01)
        client = self.ensemble.client()
        self.successResultOf(client.open())
        return client

    def done(self, deferred: object) -> object:  # type: ignore[override]
        """Let time pass until nothing is left to do."""
        while self.clock.getDelayedCalls():
            self.clock.advance(0.01)
        return super().done(deferred)  # type: ignore[arg-type]

    def failureResultOf(self, deferred: object, *expected: type[BaseException]) -> object:  # type: ignore[override]
        while self.clock.getDelayedCalls():
            self.clock.advance(0.01)
        return super().failureResultOf(deferred, *expected)  # type: ignore[type-var, arg-type]

    def test_requests_take_time(self) -> None:
        """Nothing is applied before its time."""
        waiting = self.store.create("/a")
        self.assertNoResult(waiting)
        self.assertIsNone(self.ensemble.tree.exists("/a"))
        self.clock.advance(0.01)
        self.assertEqual(self.successResultOf(waiting), "/a")

    def test_a_lost_write_may_have_been_applied(self) -> None:
        """When the connection is cut, a write fails alike whether it reached the servers or not."""
        for path, applied in (("/a", True), ("/b", False)):
            waiting = self.store.create(path)
            self.store.suspend(applied=applied)
            self.failureResultOf(waiting, ConnectionLost)
            self.store.resume()
        self.assertIsNotNone(self.ensemble.tree.exists("/a"))
        self.assertIsNone(self.ensemble.tree.exists("/b"))

    def test_expiration_fails_pending_requests(self) -> None:
        """Requests of a session that expired fail, and are not applied in the next."""
        waiting = self.store.create("/a", b"", ephemeral=True)
        self.store.expire()
        self.failureResultOf(waiting, SessionLost)
        self.clock.advance(1)
        self.assertIsNone(self.ensemble.tree.exists("/a"))
