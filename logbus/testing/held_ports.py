"""
Ports that stay a test's own.

What a test stops comes back at the same address, and whoever asks the system for any free port meanwhile, in this
process or in another, must not be given it.
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
        """A port of an address that nobody has; nobody else is given it before :meth:`close`."""
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
        """Give all back."""
        while self._sockets:
            self._sockets.pop().close()
