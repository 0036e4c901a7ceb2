"""The socket of the metadata store, on the real system."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import StorageError
from logbus.metastore.local_store import LocalStore
from logbus.metastore.socket_path import LONGEST
from logbus.metastore.store_server import StoreServer
from logbus.testing.private_reactor import close_reactor, private_reactor
from tests.metastore.test_embedded_store import make, scratch

SOCKET = "metadata.sock"


class StoreServerTests(SynchronousTestCase):
    """Over a Unix socket."""

    def serve(self, directory: Path) -> None:
        """Write and read through a client."""
        store = make(directory / "metadata.db")
        self.successResultOf(store.open())
        reactor = private_reactor()
        server = StoreServer(store, directory / SOCKET, reactor)
        client = LocalStore.at(str(server.path), reactor, 60.0)
        seen: list[object] = []

        async def live() -> None:
            server.start()
            seen.append(stat.S_IMODE(server.path.stat().st_mode))
            await client.open()
            await client.create("/a", b"x" * 1_000_000)
            seen.append(len((await client.get("/a"))[0]))
            await client.close()
            await server.stop()
            await store.close()

        def run() -> None:
            Deferred.fromCoroutine(live()).addErrback(seen.append).addBoth(lambda _: reactor.stop())

        reactor.callWhenRunning(run)
        reactor.run(installSignalHandlers=False)
        close_reactor(reactor)
        self.assertEqual(seen, [0o600, 1_000_000])

    def test_for_the_owner_only(self) -> None:
        """The socket's mode is 0600."""
        self.serve(scratch(self))

    def test_a_path_longer_than_an_address(self) -> None:
        """It is served through its directory."""
        directory = scratch(self) / ("d" * LONGEST)
        directory.mkdir()
        self.serve(directory)

    def test_the_socket_of_a_dead_server_is_replaced(self) -> None:
        """Its file remains, but nobody listens."""
        directory = scratch(self)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(os.fspath(directory / SOCKET))
        self.serve(directory)

    def test_a_socket_that_cannot_be_made(self) -> None:
        """The reason is said, and there is nothing to stop."""
        directory = scratch(self)
        server = StoreServer(make(directory / "metadata.db"), directory / "missing" / SOCKET, private_reactor())
        self.addCleanup(close_reactor, server.reactor)
        error = self.assertRaises(StorageError, server.start)
        self.assertIn(f"the socket of the metadata store, {server.path}: ", str(error))
        self.successResultOf(server.stop())
