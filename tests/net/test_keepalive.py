"""Detection of dead peers."""

from __future__ import annotations

import socket
from typing import Any, cast

from twisted.internet.interfaces import ITCPTransport
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from logbus.net.keepalive import enable_keepalive


@implementer(ITCPTransport)
class Transport:
    """A connection that has a socket."""

    def __init__(self, handle: socket.socket) -> None:
        self.getHandle = lambda: handle


class KeepaliveTests(SynchronousTestCase):
    """What the system is asked for."""

    def test_ends_in_time(self) -> None:
        """Neither what was sent nor a probe goes unacknowledged for longer."""
        if not hasattr(socket, "TCP_USER_TIMEOUT"):
            self.skipTest("this system cannot do it")
        with socket.socket() as handle:
            for seconds, wanted, between in ((18.0, 18_000, 6), (0.5, 1000, 1)):
                enable_keepalive(cast(Any, Transport(handle)), seconds)
                self.assertTrue(handle.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
                self.assertEqual(handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT), wanted)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
                    self.assertEqual(handle.getsockopt(socket.IPPROTO_TCP, option), between)

    def test_no_tcp(self) -> None:
        """Other connections are left as they are."""
        enable_keepalive(StringTransport(), 5.0)
