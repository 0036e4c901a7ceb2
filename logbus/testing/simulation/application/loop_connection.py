"""A connection of the memory network as a transport of asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from twisted.internet.error import ConnectionLost
from twisted.internet.protocol import ClientFactory
from twisted.python.failure import Failure

from logbus.testing.simulation.environment.transport import Transport


class LoopConnection(asyncio.Transport):
    """
    An end of a connection.

    :param transport: of the memory network.
    """

    def __init__(self, transport: Transport, protocol: asyncio.BaseProtocol) -> None:
        super().__init__({"peername": _address(transport.getPeer()), "sockname": _address(transport.getHost())})
        self._transport = transport
        self._protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send."""
        self._transport.write(bytes(data))

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Have another protocol receive what comes."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol."""
        return self._protocol

    def is_closing(self) -> bool:
        """Whether it is closed, or being closed."""
        return self._transport.disconnecting or not self._transport.connected

    def close(self) -> None:
        """Close it once everything is sent."""
        self._transport.unregisterProducer()
        self._transport.loseConnection()

    def abort(self) -> None:
        """Close it at once."""
        self._transport.abortConnection()

    def can_write_eof(self) -> bool:
        """One direction can be closed."""
        return True

    def write_eof(self) -> None:
        """Close this direction."""
        self._transport.loseWriteConnection()

    def pause_reading(self) -> None:
        """Receive nothing for now."""
        self._transport.pauseProducing()

    def resume_reading(self) -> None:
        """Receive again."""
        self._transport.resumeProducing()

    def is_reading(self) -> bool:
        """Whether it is open."""
        return not self.is_closing()

    def get_write_buffer_size(self) -> int:
        """Bytes that the other end has not read."""
        return self._transport.out.unread

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The window of the memory network stays as it is."""


class _Receiver:
    """Passes on events of the memory network to a protocol of asyncio, in the context of its loop."""

    def __init__(self, run: Callable[..., None], protocol: Any, made: Callable[[LoopConnection, Any], object]) -> None:
        self._run = run
        self._protocol = protocol
        self._made = made
        self._connection: LoopConnection

    def makeConnection(self, transport: Transport) -> None:
        self._connection = LoopConnection(transport, self._protocol)
        transport.registerProducer(self, True)
        self._run(self._protocol.connection_made, self._connection)
        self._run(self._made, self._connection, self._protocol)

    def dataReceived(self, data: bytes) -> None:
        protocol: Any = self._connection.get_protocol()
        if isinstance(protocol, asyncio.BufferedProtocol):
            self._run(self._fill, protocol, memoryview(data))
        else:
            self._run(protocol.data_received, data)

    def _fill(self, protocol: asyncio.BufferedProtocol, data: memoryview) -> None:
        while data and not self._connection.is_closing():
            buffer = memoryview(protocol.get_buffer(len(data)))
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            protocol.buffer_updated(count)
            data = data[count:]

    def connectionLost(self, reason: Failure) -> None:
        protocol: Any = self._connection.get_protocol()
        error = None
        if reason.check(ConnectionLost):
            error = ConnectionResetError("the connection was reset")
        elif not self._connection.is_closing():
            self._run(protocol.eof_received)
        self._run(protocol.connection_lost, error)

    def pauseProducing(self) -> None:
        protocol: Any = self._connection.get_protocol()
        self._run(protocol.pause_writing)

    def resumeProducing(self) -> None:
        protocol: Any = self._connection.get_protocol()
        self._run(protocol.resume_writing)

    def stopProducing(self) -> None:
        """The connection is lost, as the protocol is told."""


class LoopFactory(ClientFactory):
    """
    Connects a protocol of asyncio.

    :param run: calls a function in the context of the loop.
    :param made: called with the connection and the protocol; ``failed``: with the reason why there is none.
    """

    noisy = False

    def __init__(
        self,
        run: Callable[..., None],
        build: Callable[[], asyncio.BaseProtocol],
        made: Callable[[LoopConnection, Any], object],
        failed: Callable[[BaseException], object],
    ) -> None:
        self._run, self._build, self._made, self._failed = run, build, made, failed

    def buildProtocol(self, addr: object) -> Any:
        """The network's protocol."""
        return _Receiver(self._run, self._build(), self._made)

    def clientConnectionFailed(self, connector: object, reason: Failure) -> None:
        """There is no connection."""
        self._run(self._failed, reason.value)


def _address(address: Any) -> tuple[str, int]:
    return address.host, address.port
