"""The store of workers: conformance, and sessions that end with their connections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.metastore import store_server
from logbus.metastore.local_store import PINGS, RETRY_SECONDS, LocalStore
from logbus.metastore.operations import ConnectionLost, SessionLost, SessionState, StoreUnusable
from logbus.metastore.store_codec import EVENT, GET, HELLO, LENGTH, PING, VERSION, frame
from logbus.metastore.store_server import StoreServer
from tests.metastore.conformance import SharedStoreConformance
from tests.metastore.memory_wire import MemoryEndpoint, Wire
from tests.metastore.test_embedded_store import CallerThread, make, scratch

TIMEOUT = 6.0


class LocalStoreTests(SharedStoreConformance, SynchronousTestCase):
    """Clients of one server, on a clock."""

    store: LocalStore

    def make_store(self) -> LocalStore:
        self.clock, self.thread = Clock(), CallerThread()
        self.path = scratch(self) / "metadata.db"
        self.embedded = make(self.path, self.thread)
        self.successResultOf(self.embedded.open())
        self.addCleanup(self.embedded.close)
        self.server = StoreServer(self.embedded, Path("unused"), self.clock)
        self.endpoint = MemoryEndpoint(self.server.factory())
        return self.make_other()

    def make_other(self) -> LocalStore:
        made = LocalStore(self.endpoint, self.clock, TIMEOUT, "memory")
        self.successResultOf(made.open())
        return made

    def wire(self) -> Wire:
        return self.endpoint.wires[0]

    def expire(self) -> None:
        self.endpoint.wires[0].cut()
        self.clock.advance(RETRY_SECONDS)

    def test_the_death_of_a_client(self) -> None:
        """Its ephemerals are gone at once, and others hear of it."""
        other = self.make_other()
        self.done(self.store.create("/e", b"", ephemeral=True))
        self.done(other.exists("/e", self.heard.append))
        self.endpoint.down = True
        self.wire().cut()
        self.assertEqual([event.path for event in self.heard], ["/e"])
        self.assertEqual(self.done(other.children("/")), [])

    def test_a_lost_connection(self) -> None:
        """Requests fail until there is another session; watches are gone."""
        states: list[SessionState] = []
        self.store.subscribe(states.append)
        self.done(self.store.exists("/w", self.heard.append))
        first = self.store.session_id
        self.wire().held = True
        waiting = self.store.get("/")
        self.endpoint.down = True
        self.wire().cut()
        self.failureResultOf(waiting, ConnectionLost)
        self.failureResultOf(self.store.create("/w"), ConnectionLost)
        self.clock.pump([RETRY_SECONDS] * 3)
        self.assertEqual(states, [SessionState.SUSPENDED])
        self.endpoint.down = False
        self.clock.advance(RETRY_SECONDS)
        self.assertEqual(states, [SessionState.SUSPENDED, SessionState.LOST, SessionState.CONNECTED])
        self.assertNotEqual(self.store.session_id, first)
        self.assertEqual(self.store.generation, 2)
        self.done(self.store.create("/w"))
        self.assertEqual(self.heard, [])

    def test_opens_when_there_is_a_server(self) -> None:
        """A client may be there first."""
        self.endpoint.down = True
        made = LocalStore(self.endpoint, self.clock, TIMEOUT, "memory")
        opening = made.open()
        self.clock.pump([RETRY_SECONDS] * 5)
        self.assertNoResult(opening)
        self.endpoint.down = False
        self.clock.advance(RETRY_SECONDS)
        self.successResultOf(opening)

    def test_pings(self) -> None:
        """Ends that say nothing else stay connected."""
        self.clock.pump([TIMEOUT / PINGS] * 30)
        self.assertEqual(self.store.generation, 1)

    def test_a_client_that_hangs(self) -> None:
        """Its session ends when it has been silent for too long."""
        other = self.make_other()
        self.done(self.store.create("/e", b"", ephemeral=True))
        self.wire().held = True
        for _ in range(PINGS):
            self.clock.advance(TIMEOUT / PINGS)
        self.assertEqual(self.done(other.children("/")), [])
        self.flushLoggedErrors()

    def test_a_server_that_hangs(self) -> None:
        """The client notices, too, and connects again."""
        for connection in list(self.server.connections):
            connection.stringReceived = lambda string: None  # type: ignore[method-assign]
            connection._timeout = 1000
            connection._deadline.reset(1000)
        self.clock.pump([TIMEOUT / PINGS] * PINGS)
        self.clock.advance(RETRY_SECONDS)
        self.assertEqual(self.store.generation, 2)

    def test_a_stopped_server(self) -> None:
        """All sessions end."""
        self.done(self.store.create("/e", b"", ephemeral=True))
        self.endpoint.down = True
        for connection in list(self.server.connections):
            connection.abort()
        self.assertIs(self.store.state, SessionState.SUSPENDED)
        self.assertEqual(self.done(self.embedded.children("/")), [])

    def test_a_failed_disk(self) -> None:
        """What cannot be written is not acknowledged."""
        self.thread.held = True
        waiting = self.store.create("/a")
        self.assertNoResult(waiting)
        self.embedded._database.close()
        self.thread.held = False
        self.thread.run()
        self.failureResultOf(waiting, StoreUnusable)
        self.flushLoggedErrors()

    def test_after_the_end(self) -> None:
        """Nothing is served, and nothing connects any more."""
        self.done(self.store.close())
        self.failureResultOf(self.store.get("/"), SessionLost)
        self.clock.pump([RETRY_SECONDS] * 3)
        self.assertEqual(len(self.endpoint.wires), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_large_data(self) -> None:
        """Any bytes come back as they were."""
        data = bytes(range(256)) * 4096
        self.done(self.store.create("/large", data))
        self.assertEqual(self.done(self.store.get("/large"))[0], data)

    def test_bad_frames(self) -> None:
        """Whoever does not speak the protocol is cut off, alone."""
        hello = frame(HELLO, VERSION, 6.0)
        for sent in (
            b"\0\0\0\x02{}",
            b"\0\0\0\x01[",
            LENGTH.pack(1 << 31),
            frame(GET, "/", False),
            frame(HELLO, VERSION + 1, 6.0),
            frame(HELLO, VERSION, 0),
            frame(HELLO, VERSION, 1e9),
            hello + frame(EVENT, "created"),
            hello + frame(GET, 7, False),
            hello + frame("multi", [["create", "/x"]]),
            hello + frame("multi", [["create", "/x", "\u1234", False, False]]),
            hello + frame("multi", [["move", "/x", 1]]),
            hello + hello,
        ):
            wire = Wire()
            wire.client.protocol, wire.server.protocol = Silent(), self.server.factory().buildProtocol(None)
            wire.server.protocol.makeConnection(wire.server)
            wire.client.write(sent)
            self.assertTrue(wire.lost, sent)
        self.assertEqual(self.store.generation, 1)
        self.assertEqual(self.done(self.store.children("/")), [])

    def test_a_client_that_never_begins(self) -> None:
        """It is cut off, too."""
        wire = Wire()
        wire.client.protocol, wire.server.protocol = Silent(), self.server.factory().buildProtocol(None)
        wire.server.protocol.makeConnection(wire.server)
        wire.client.write(frame(PING)[:3])
        self.clock.pump([TIMEOUT / PINGS] * 6)
        self.assertTrue(wire.lost)

    def test_too_many_watches(self) -> None:
        """A client that keeps too many is cut off; those that fired do not count."""
        self.patch(store_server, "MOST_WATCHES", 2)
        for _ in range(3):
            self.done(self.store.exists("/w", self.heard.append))
            self.done(self.store.create("/w"))
            self.done(self.store.delete("/w"))
        self.assertEqual(len(self.heard), 3)
        self.done(self.store.exists("/a", self.heard.append))
        self.done(self.store.children("/", self.heard.append))
        self.failureResultOf(self.store.exists("/b", self.heard.append), ConnectionLost)
        self.flushLoggedErrors()

    def test_requests_wait(self) -> None:
        """Of a client with too many no more are read until some are answered; it keeps its session meanwhile."""
        self.patch(store_server, "MOST_REQUESTS", 3)
        self.thread.held = True
        waiting = [self.store.create(f"/{number}") for number in range(8)]
        self.assertEqual(len(self.embedded._queue) + 1, 3)
        self.clock.pump([TIMEOUT / PINGS] * 20)
        self.thread.held = False
        self.thread.run()
        self.clock.pump([0] * 8)
        for each in waiting:
            self.successResultOf(each)
        self.assertEqual(self.store.generation, 1)

    def test_the_death_of_a_client_with_many_requests(self) -> None:
        """Those that were read are served, and nothing is read any more."""
        self.patch(store_server, "MOST_REQUESTS", 3)
        self.thread.held = True
        lost = [self.store.create(f"/{number}") for number in range(8)]
        self.endpoint.down = True
        self.wire().cut()
        for each in lost:
            self.failureResultOf(each, ConnectionLost)
        self.thread.held = False
        self.thread.run()
        self.clock.pump([0] * 8)
        self.endpoint.down = False
        self.assertEqual(self.done(self.make_other().children("/")), ["0", "1", "2"])

    def test_answers_wait(self) -> None:
        """A client that does not take its answers is not read from, and loses its session in time."""
        server = self.wire().server
        server.producer.pauseProducing()
        waiting = self.store.get("/")
        self.clock.advance(0)
        self.assertNoResult(waiting)
        server.producer.resumeProducing()
        self.clock.advance(0)
        self.successResultOf(waiting)
        server.producer.pauseProducing()
        lost = self.store.get("/")
        self.clock.pump([TIMEOUT / PINGS] * (PINGS + 1))
        self.failureResultOf(lost, ConnectionLost)

    def test_the_end_of_a_session(self) -> None:
        """It is closed once its ephemerals are deleted for good; nothing is taken from it after that."""
        self.done(self.store.create("/e", b"", ephemeral=True))
        self.thread.held = True
        closing = self.store.close()
        self.assertNoResult(closing)
        self.thread.held = False
        self.thread.run()
        self.successResultOf(closing)
        self.assertEqual(self.done(self.make_other().children("/")), [])

    def test_requests_after_the_end_of_a_session(self) -> None:
        """They fail, and those before it are served; a second end is the first one's."""
        self.thread.held = True
        made, closing = self.store.create("/a"), self.store.close()
        self.failureResultOf(self.store.get("/"), SessionLost)
        again = self.store.close()
        self.assertNoResult(again)
        self.thread.held = False
        self.thread.run()
        for each in (made, closing, again, self.store.close()):
            self.successResultOf(each)

    def test_a_connection_that_is_lost_at_the_end(self) -> None:
        """The session has ended with it, and there is no other."""
        self.wire().held = True
        closing = self.store.close()
        self.wire().cut()
        self.successResultOf(closing)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_abandoned_store(self) -> None:
        """It is closed at once, whatever is under way."""
        self.wire().held = True
        waiting = self.store.get("/")
        self.store.abandon()
        self.assertIs(self.store.state, SessionState.CLOSED)
        self.failureResultOf(waiting, SessionLost)
        self.store.abandon()

    def test_ids_do_not_recur(self) -> None:
        """Nor after the server was started again."""
        found = {self.store.session_id, *(self.make_other().session_id for _ in range(5))}
        self.embedded.close()
        again = make(self.path, self.thread)
        self.successResultOf(again.open())
        self.addCleanup(again.close)
        found |= {again.begin_session().session_id for _ in range(6)}
        self.assertEqual(len(found), 12)


class Silent:
    """An end that takes everything."""

    def dataReceived(self, data: bytes) -> None:
        pass

    def connectionLost(self, reason: Any) -> None:
        pass
