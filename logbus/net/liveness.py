"""
Notices that the other end of a connection is not there any more, where nobody says so: its machine is gone, or the way
to it.
"""

from __future__ import annotations

import socket
from typing import Any

from twisted.internet.interfaces import ITCPTransport

_PROBES = 3


def end_when_silent(transport: Any, seconds: float) -> None:
    """
    Have the system end a connection once the other's machine has acknowledged nothing for so long.

    An idle connection is probed.  A process that stands still is not noticed: its machine answers.  Where the system
    cannot do it, and on connections that are not TCP's, nothing happens.

    :param seconds: at least one.
    """
    if not ITCPTransport.providedBy(transport) or not hasattr(socket, "TCP_USER_TIMEOUT"):
        return
    handle: socket.socket = transport.getHandle()  # type: ignore[attr-defined]
    between = max(1, round(seconds / _PROBES))
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, between)
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, between)
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * max(1.0, seconds)))
