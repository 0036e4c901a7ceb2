"""The ZooKeeper store during outages: nothing is sent late, and every request ends."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from kazoo.exceptions import ConnectionDropped
from twisted.logger import globalLogPublisher

from logbus.metastore.operations import ConnectionLost, Create, SessionLost, SessionState, StoreUnusable, WatchedEvent
from logbus.metastore.zookeeper_store import ZooKeeperStore
from logbus.testing.zookeeper import ZooKeeper
from tests.zookeeper.reactor_case import SECONDS, PumpedTestCase

pytestmark = pytest.mark.long


class LoggedTestCase(PumpedTestCase):
    """Hears what the log is told."""

    def setUp(self) -> None:
        self.logged: list[str] = []
        globalLogPublisher.addObserver(self._hear)
        self.addCleanup(globalLogPublisher.removeObserver, self._hear)

    def _hear(self, event: Any) -> None:
        if event.get("log_format"):
            self.logged.append(event["log_format"].format(**event))

    def said(self, words: str) -> bool:
        return any(words in line for line in self.logged)

    def server(self, servers: int = 1) -> ZooKeeper:
        """A ZooKeeper of the test's own."""
        own = ZooKeeper(servers)
        self.addCleanup(own.close)
        return own

    def is_in(self, store: ZooKeeperStore, state: SessionState) -> None:
        self.wait_until(lambda: store.state is state, f"{state}")


class OutageTests(LoggedTestCase):
    """One server."""

    def test_outage(self) -> None:
        """
        Requests under way fail, new ones are refused and not sent when the server is back; the session, its ephemerals
        and its id stay; watches have to be left again.
        """
        own = self.server().start()
        store = self.opened(f"{own.connect}/x", 20)
        states: list[SessionState] = []
        heard: list[WatchedEvent] = []
        store.subscribe(states.append)
        self.successResultOf(store.create("/e", b"", ephemeral=True))
        self.successResultOf(store.exists("/w", heard.append))
        session = store.session_id
        own.freeze()
        under_way = store.create("/under-way")
        own.kill()
        self.failureResultOf(under_way, ConnectionLost)
        self.assertIs(store.state, SessionState.SUSPENDED)
        self.failureResultOf(store.create("/late"), ConnectionLost)
        self.failureResultOf(store.get("/e"), ConnectionLost)
        self.assertTrue(self.said("the connection to ZooKeeper at"))
        own.start()
        self.is_in(store, SessionState.CONNECTED)
        self.assertEqual(states, [SessionState.SUSPENDED, SessionState.CONNECTED])
        self.assertEqual((store.session_id, store.generation), (session, 1))
        self.assertEqual(self.successResultOf(store.exists("/e")).ephemeral_owner, session)
        self.successResultOf(store.create("/w"))
        self.successResultOf(store.sync())
        self.assertIsNone(self.successResultOf(store.exists("/late")))
        self.assertEqual(heard, [])

    def test_request_before_the_outage_is_noticed(self) -> None:
        """What is asked between the end of the connection and the news of it fails, and is not sent afterwards."""
        own = self.server().start()
        store = self.opened(own.connect, 20)
        own.kill()
        # The reactor stands still meanwhile: kazoo knows, the store does not.
        deadline = time.monotonic() + SECONDS
        while store._link._client.connected and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertIs(store.state, SessionState.CONNECTED)
        late = store.create("/late")
        self.failureResultOf(late, ConnectionLost)
        own.start()
        self.is_in(store, SessionState.CONNECTED)
        self.successResultOf(store.sync())
        self.assertIsNone(self.successResultOf(store.exists("/late")))

    def test_zookeeper_is_absent_at_the_start(self) -> None:
        """A store waits for its ZooKeeper, says for whom and why, and goes on when it comes."""
        own = self.server()
        store = self.client(f"{own.connect}/x")
        opened = store.open()
        self.wait_until(lambda: self.said(f"waiting for ZooKeeper at {own.connect}/x, which does not answer"))
        self.assertTrue(self.said("refused"))
        self.failureResultOf(store.get("/"), ConnectionLost)
        self.assertNoResult(opened)
        own.start()
        self.successResultOf(opened)
        self.assertEqual(self.successResultOf(store.children("/")), [])

    def test_closed_while_waiting(self) -> None:
        """A store that waits can be closed, and takes no time for it."""
        store = self.client(self.server().connect)
        store.open().addErrback(lambda _: None)
        self.wait_until(lambda: self.said("which does not answer"))
        with patch("logbus.metastore.zookeeper_store.CLOSE_SECONDS", 10 * SECONDS):
            self.successResultOf(store.close())
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_closed_while_the_server_is_frozen(self) -> None:
        """A server that does not answer delays the end a little, and not for good; what was asked fails."""
        own = self.server().start()
        store = self.opened(own.connect, 60)
        own.freeze()
        asked = store.get("/")
        with patch("logbus.metastore.zookeeper_store.CLOSE_SECONDS", 0.5):
            closed = store.close()
        self.failureResultOf(asked, SessionLost)
        self.successResultOf(closed)
        own.kill()

    def test_session_expires_during_an_outage(self) -> None:
        """A session that ended meanwhile is lost only when ZooKeeper says so; then there is a new one."""
        own = self.server().start()
        store = self.opened(own.connect, 20)
        states: list[SessionState] = []
        store.subscribe(states.append)
        credentials = store.credentials
        assert credentials is not None
        self.successResultOf(store.create("/e", b"", ephemeral=True))
        cut_off = patch.object(store._link._client._connection, "_connect", side_effect=ConnectionDropped("cut off"))
        with cut_off:
            own.kill()
            self.is_in(store, SessionState.SUSPENDED)
            own.start()
            own.expire(*credentials)
            self.assertEqual(states, [SessionState.SUSPENDED])
        self.wait_until(lambda: store.generation == 2)
        self.is_in(store, SessionState.CONNECTED)
        self.assertEqual(states, [SessionState.SUSPENDED, SessionState.LOST, SessionState.CONNECTED])
        self.assertIsNone(self.successResultOf(store.exists("/e")))

    def test_the_client_fails(self) -> None:
        """Should kazoo's thread die of a bug, another one begins, with a session of its own."""
        store = self.opened()
        states: list[SessionState] = []
        store.subscribe(states.append)
        with patch.object(type(store._link._client._connection), "_read_socket", side_effect=ZeroDivisionError):
            self.failureResultOf(store.get("/"), ConnectionLost)
            self.is_in(store, SessionState.LOST)
        self.is_in(store, SessionState.CONNECTED)
        self.assertEqual(states, [SessionState.SUSPENDED, SessionState.LOST, SessionState.CONNECTED])
        self.assertEqual(store.generation, 2)
        self.assertEqual(self.successResultOf(store.children("/")), [])

    @contextmanager
    def dialled_in_vain(self, session_timeout: float, seconds: float) -> Iterator[socket.socket]:
        """Something that is no ZooKeeper, which waits so long for a connection of the store that takes it for one."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.settimeout(seconds)
            opened = self.client(f"127.0.0.1:{listening.getsockname()[1]}", session_timeout).open()
            opened.addErrback(lambda _: None)
            yield listening
            self.wait_until(lambda: self.said("which does not answer"))
            self.assertNoResult(opened)

    def test_something_else_listens(self) -> None:
        """A port where no ZooKeeper is does no harm; it is tried again."""
        with self.dialled_in_vain(1, 5) as listening:
            for _ in range(2):
                connection, _ = listening.accept()
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    def test_silent_server(self) -> None:
        """It takes a connection, as one does that is starting: another is made long before a session would be over."""
        with self.dialled_in_vain(6, 5.5) as listening:
            for _ in range(2):
                self.enterContext(listening.accept()[0])

    def test_too_large(self) -> None:
        """What ZooKeeper would not take is refused before; what it takes is taken."""
        store = self.opened()
        self.failureResultOf(store.create("/a", bytes(1_000_001)), StoreUnusable)
        self.successResultOf(store.create("/a", bytes(999_900)))
        ops = [Create(f"/a/{n:06}", b"") for n in range(1500)]
        self.successResultOf(store.multi(ops))
        self.assertEqual(len(self.successResultOf(store.children("/a"))), 1500)


class EnsembleTests(LoggedTestCase):
    """Three servers."""

    def test_the_leader_is_lost(self) -> None:
        """The ensemble elects another, and the session goes on; nothing is lost."""
        own = self.server(3).start()
        store = self.opened(f"{own.connect}/deep/down", 20)
        self.successResultOf(store.create("/a", b"1"))
        self.successResultOf(store.create("/e", b"", ephemeral=True))
        session = store.session_id
        own.kill(own.leader)

        def again() -> bool:
            if store.state is not SessionState.CONNECTED:
                return False
            results: list[Any] = []
            store.set("/a", b"2").addBoth(results.append)
            self.wait_until(lambda: results)
            return isinstance(results[0], tuple)

        self.wait_until(again, "a write")
        self.assertEqual(store.session_id, session)
        self.assertEqual(self.successResultOf(store.get("/a"))[0], b"2")
        self.assertEqual(self.successResultOf(store.exists("/e")).ephemeral_owner, session)
