"""
Holds the ports of workers while none listens: bound, without listening, so that no other program can take them.
"""

from __future__ import annotations

import socket

from attrs import define, field

from logbus.errors import ConfigError


@define(eq=False)
class PortReservation:
    """Bound sockets; workers bind the same ports (SO_REUSEPORT), and only those that listen get connections."""

    _held: list[socket.socket] = field(factory=list, init=False)

    def reserve(self, interface: str, port: int) -> int:
        """
        Hold a port.

        :param interface: an address; empty: all of IPv4.
        :param port: 0: any free one.
        :return: the port.
        :raise ConfigError: somebody else has it.
        """
        family = socket.AF_INET6 if ":" in interface else socket.AF_INET
        held = socket.socket(family)
        self._held.append(held)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            if port:
                # Another supervisor of the same user would share it, and half of its clients would come here.
                with socket.socket(family) as alone:
                    alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    alone.bind((interface, port))
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind((interface, port))
        except OSError as e:
            raise ConfigError(f"port {port} of {interface or 'every interface'}, for a worker: {e}") from e
        bound: int = held.getsockname()[1]
        return bound

    def release(self) -> None:
        """Give all up."""
        while self._held:
            self._held.pop().close()
