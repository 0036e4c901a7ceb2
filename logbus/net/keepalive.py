"""Detects dead peers by TCP keepalive and TCP_USER_TIMEOUT: a crashed machine, or a broken network path."""

from __future__ import annotations

import socket
from typing import Any

from twisted.internet.interfaces import ITCPTransport

_PROBES = 3


def enable_keepalive(transport: Any, seconds: float) -> None:
    """
    Let the kernel close a connection once the peer's machine has acknowledged nothing for so long.

    An idle connection is probed. A stopped process is not detected, since its machine answers. Does nothing where the
    system does not support it, and on connections other than TCP.

    :param seconds: at least one.
    """
    if not ITCPTransport.providedBy(transport) or not hasattr(socket, "TCP_USER_TIMEOUT"):
        return
    # Below TLS.
    lower: Any = getattr(transport, "transport", transport)
    handle: socket.socket = lower.getHandle()
    between = max(1, round(seconds / _PROBES))
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, between)
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, between)
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * max(1.0, seconds)))
