"""The network of a test cluster: cut one way, both ways, and restored."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import closing
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.testing.network_proxy import EVERYBODY, NetworkProxy, _inode_of

SECONDS = 120
SOON = 0.2


class NetworkTests(SynchronousTestCase):
    """One who dials, and one who answers."""

    def setUp(self) -> None:
        self.network = NetworkProxy(lambda: {"me": os.getpid()})
        self.network.start()
        self.addCleanup(self.network.stop)
        self.server = self.enterContext(closing(socket.create_server(("127.0.0.1", 0))))
        self.server.settimeout(SECONDS)
        self.address = self.network.add("server", self.server.getsockname())

    def dial(self) -> socket.socket:
        return self.held(socket.create_connection(self.address, SECONDS))

    def held(self, connection: socket.socket) -> socket.socket:
        self.addCleanup(connection.close)
        connection.settimeout(SECONDS)
        return connection

    def pair(self) -> tuple[socket.socket, socket.socket]:
        mine = self.dial()
        return mine, self.held(self.server.accept()[0])

    def assertSilent(self, connection: socket.socket) -> None:
        connection.settimeout(SOON)
        self.assertRaises(TimeoutError, connection.recv, 1)
        connection.settimeout(SECONDS)

    def test_carries(self) -> None:
        """What is said arrives, in both directions, whatever its size; and so does the end."""
        mine, theirs = self.pair()
        mine.sendall(b"ping")
        self.assertEqual(theirs.recv(10), b"ping")
        sent = os.urandom(3_000_000)
        got = b""
        theirs.setblocking(False)
        left = sent
        while len(got) < len(sent):
            try:
                left = left[theirs.send(left) :] if left else left
            except BlockingIOError:
                pass
            got += mine.recv(1 << 20)
        self.assertEqual(got, sent)
        mine.close()
        theirs.settimeout(SECONDS)
        self.assertEqual(theirs.recv(1), b"")

    def test_one_way(self) -> None:
        """What goes against a cut is held until it is mended; the other direction is free."""
        mine, theirs = self.pair()
        self.network.cut([("me", "server")])
        mine.sendall(b"held")
        theirs.sendall(b"free")
        self.assertEqual(mine.recv(10), b"free")
        self.assertSilent(theirs)
        self.network.mend([("me", "server")])
        self.assertEqual(theirs.recv(10), b"held")

    def test_other_cuts(self) -> None:
        """A cut between others changes nothing; one from everybody does."""
        mine, theirs = self.pair()
        self.network.cut([("other", "server")])
        mine.sendall(b"1")
        self.assertEqual(theirs.recv(1), b"1")
        self.network.cut([(EVERYBODY, "server")])
        mine.sendall(b"2")
        self.assertSilent(theirs)
        self.network.mend()
        self.assertEqual(theirs.recv(1), b"2")

    def test_new_connections(self) -> None:
        """Who dials into a cut waits, and gets through once it is mended."""
        self.network.cut([("me", "server")])
        mine = self.dial()
        mine.sendall(b"late")
        self.server.settimeout(SOON)
        self.assertRaises(TimeoutError, self.server.accept)
        self.server.settimeout(SECONDS)
        self.network.mend()
        theirs = self.held(self.server.accept()[0])
        self.assertEqual(theirs.recv(10), b"late")

    def test_shared_port(self) -> None:
        """Who dials is told from somebody whose connection to elsewhere comes from the same port."""
        others = self.enterContext(closing(socket.create_server(("127.0.0.1", 0))))
        sockets = [self.held(socket.socket()) for _ in range(20)]
        for connection in sockets:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        pairs = []
        for first, second in zip(sockets[::2], sockets[1::2], strict=True):
            first.bind(("127.0.0.1", 0))
            second.bind(first.getsockname())
            first.connect(others.getsockname())
            second.connect(self.server.getsockname())
            pairs += [first, second]
        for connection in pairs:
            inode = _inode_of(connection.getsockname(), connection.getpeername())
            self.assertEqual(inode, str(os.fstat(connection.fileno()).st_ino))

    def test_close_behind_a_cut(self) -> None:
        """A peer that closes behind a cut seems connected until the cut is mended."""
        mine, theirs = self.pair()
        self.network.cut([("me", "server"), ("server", "me")])
        mine.close()
        self.assertSilent(theirs)
        self.network.mend()
        self.assertEqual(theirs.recv(1), b"")

    def test_first_bytes(self) -> None:
        """The first bytes of a connection can be observed."""
        heard: list[bytes] = []
        listen: Callable[[bytes], Any] = heard.append
        self.address = self.network.add("server", self.server.getsockname(), "me", listen)
        mine, theirs = self.pair()
        theirs.sendall(b"hello")
        self.assertEqual(mine.recv(10), b"hello")
        self.assertEqual(heard, [b"hello"])

    def test_no_listener(self) -> None:
        """Who dials a node that does not listen is hung up on."""
        self.server.close()
        self.assertEqual(self.dial().recv(1), b"")

    def test_stopped_before_it_is_woken(self) -> None:
        """The thread may see that it is to stop while it does something else."""
        mine, _ = self.pair()
        thread, reactor = self.network._thread, self.network._reactor
        assert thread is not None
        wake = reactor.wakeUp

        def wake_late() -> None:
            mine.close()
            thread.join(SECONDS)
            wake()

        self.patch(reactor, "wakeUp", wake_late)
        self.network.stop()
        self.assertFalse(thread.is_alive())
