"""The size of the kernel's receive buffer."""

from __future__ import annotations

import socket
from typing import Any, cast

from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.receive_buffer import set_receive_buffer
from tests.net.test_keepalive import Transport


class ReceiveBufferTests(SynchronousTestCase):
    """What the system is asked for."""

    def test_size(self) -> None:
        """The kernel has a buffer of that size, or twice that; −1 leaves it alone."""
        with socket.socket() as handle:
            before = handle.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            set_receive_buffer(cast(Any, Transport(handle)), -1)
            self.assertEqual(handle.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), before)
            set_receive_buffer(cast(Any, Transport(handle)), 48 * 1024)
            self.assertIn(handle.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), (48 * 1024, 2 * 48 * 1024))

    def test_no_tcp(self) -> None:
        """Other connections are left as they are."""
        set_receive_buffer(StringTransport(), 48 * 1024)
