"""Sets the size of the kernel's receive buffer of a connection."""

from __future__ import annotations

import socket
from typing import Any

from twisted.internet.interfaces import ITCPTransport


def set_receive_buffer(transport: Any, size: int) -> None:
    """
    Have the kernel buffer about ``size`` bytes of what the peer sends.

    Does nothing on connections other than TCP. Linux doubles the number for its own bookkeeping, and no longer adapts
    the buffer to the connection.

    :param size: bytes; −1: as the kernel likes.
    """
    if size < 0 or not ITCPTransport.providedBy(transport):
        return
    # Below TLS.
    lower: Any = getattr(transport, "transport", transport)
    lower.getHandle().setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
