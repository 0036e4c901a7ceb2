"""
The addresses at which a test broker listens, and those that it tells its clients: other ones in a container than
elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from logbus.ilogbus import Listener

KAFKA = "kafka"
LOOPBACK = "127.0.0.1"


@frozen
class Placement:
    """
    :ivar host: the IPv4 address to listen on.
    :ivar ports: fixed ports by listener, ``kafka`` and ``admin``; others are free ones.
    :ivar advertised: host and port for Kafka clients; None: where it listens, or ``localhost`` if that is any address.
    """

    host: str = LOOPBACK
    ports: Mapping[str, int] = MappingProxyType({})
    advertised: tuple[str, int] | None = None

    def listener(self, name: str, port: int) -> Listener:
        """A listener, as a broker takes it."""
        from logbus.ilogbus import Listener

        return Listener(name, name, self._endpoint(port), advertised=self._advertised(name, port))

    def options(self, ports: Mapping[str, int]) -> tuple[list[str], list[str]]:
        """What ``--listen`` and ``--advertise`` take, each, for a broker in a process of its own."""
        listen = [f"{name}={name}:{self._endpoint(port)}" for name, port in ports.items()]
        told = {name: self._advertised(name, port) for name, port in ports.items()}
        return listen, [f"{name}={at[0]}:{at[1]}" for name, at in told.items() if at is not None]

    def _endpoint(self, port: int) -> str:
        return f"tcp:{port}:interface={self.host}"

    def _advertised(self, name: str, port: int) -> tuple[str, int] | None:
        if name == KAFKA and self.advertised is not None:
            return self.advertised
        return None if self.host == LOOPBACK else ("localhost", port)
