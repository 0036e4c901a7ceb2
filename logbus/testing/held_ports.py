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
        return self.free_run(host, 1)

    def free_run(self, host: str, count: int) -> int:
        """The first of free ports that follow one another."""
        while True:
            holders: list[socket.socket] = []
            try:
                for _ in range(count):
                    holders.append(_bound(host, holders[0].getsockname()[1] + len(holders) if holders else 0))
            except (OSError, OverflowError):
                for holder in holders:
                    holder.close()
                continue
            port: int = holders[0].getsockname()[1]
            if CAN_HOLD:
                self._sockets += holders
            else:
                for holder in holders:
                    holder.close()
            return port

    def close(self) -> None:
        """Release all."""
        while self._sockets:
            self._sockets.pop().close()


def _bound(host: str, port: int) -> socket.socket:
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind((host, port))
    except BaseException:
        holder.close()
        raise
    return holder
