"""Held ports of test servers: a restarted server finds its own free."""

from __future__ import annotations

import socket

from twisted.trial.unittest import SynchronousTestCase

from logbus.testing import Broker
from logbus.testing.held_ports import CAN_HOLD, HeldPorts


def listening(port: int) -> socket.socket:
    """A server, as Twisted and Java make theirs."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", port))
    server.listen()
    return server


class HeldPortsTests(SynchronousTestCase):
    """One server that comes and goes."""

    if not CAN_HOLD:
        skip = "this system cannot hold a port"

    def setUp(self) -> None:
        self.held = HeldPorts()
        self.addCleanup(self.held.close)

    def test_port_is_free_for_its_server(self) -> None:
        """The server listens, ends with a connection open, and listens again; in between nobody answers."""
        port = self.held.free("127.0.0.1")
        for _ in range(2):
            self.assertRaises(ConnectionRefusedError, socket.create_connection, ("127.0.0.1", port))
            with listening(port) as server, socket.create_connection(("127.0.0.1", port)):
                server.accept()[0].close()

    def test_ports_in_a_row(self) -> None:
        """Each of them is held."""
        first = self.held.free_run("127.0.0.1", 3)
        for port in range(first, first + 3):
            with socket.socket() as other:
                self.assertRaises(OSError, other.bind, ("127.0.0.1", port))
            listening(port).close()

    def test_port_is_taken_for_others(self) -> None:
        """Whoever does not know of it cannot have it, until it is given back."""
        port = self.held.free("127.0.0.1")
        with socket.socket() as other:
            self.assertRaises(OSError, other.bind, ("127.0.0.1", port))
            self.held.close()
            other.bind(("127.0.0.1", port))

    def test_ports_of_a_stopped_broker(self) -> None:
        """The ports of a broker stay its own while it does not run."""
        with Broker() as broker:
            port = int(broker.bootstrap.rpartition(":")[2])
            broker.stop()
            with socket.socket() as other:
                self.assertRaises(OSError, other.bind, ("127.0.0.1", port))
            broker.start()
            self.assertEqual(broker.bootstrap, f"127.0.0.1:{port}")
