"""
Ports that stay a test's own.

A server that a test stops comes back at the same address. Meanwhile no other process that asks the system for a free
port may get that one.
"""

from __future__ import annotations

import socket
import sys

from attrs import define, field

#: Linux gives a port to nobody who asks for any while a socket is bound to it, and lets a server with ``SO_REUSEADDR``
#: listen there as long as that socket does not.  Elsewhere a port is only free when it is looked for.
CAN_HOLD = sys.platform == "linux"


@define(eq=False)
class HeldPorts:
    """The ports of one test server."""

    _sockets: list[socket.socket] = field(factory=list, init=False)

    def free(self, host: str) -> int:
        """A free port of an address; no other process gets it before :meth:`close`."""
        holder = socket.socket()
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((host, 0))
        port: int = holder.getsockname()[1]
        if CAN_HOLD:
            self._sockets.append(holder)
        else:
            holder.close()
        return port

    def close(self) -> None:
        """Release all."""
        while self._sockets:
            self._sockets.pop().close()
