"""
Connections of an asyncio event loop, for Twisted's protocols: an endpoint, and the transport of what it connects.

Twisted's TLS works above it as above a reactor's transports.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectError, ConnectionDone, ConnectionLost, ConnectionRefusedError, DNSLookupError
from twisted.internet.interfaces import IProtocolFactory, IStreamClientEndpoint, ITCPTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.client.aio.event_loop import EventLoop
from logbus.net.channel import Channel

_RECEIVED_AT_ONCE = 1 << 18
"""The size of the buffer of protocols that receive by ``dataReceived``."""
_NEXT_ADDRESS = 0.25
"""Seconds after which a name's next address is tried beside the first one (RFC 8305)."""


class Address(NamedTuple):
    """One end of a connection."""

    host: str
    port: int


@implementer(IStreamClientEndpoint)
class LoopEndpoint:
    """
    Connects to a host and port by an event loop, which looks up the name.

    :param host: a name, or an address of IPv4 or IPv6.
    """

    def __init__(self, event_loop: EventLoop, host: str, port: int) -> None:
        self._event_loop = event_loop
        self._host, self._port = host, port

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[Any]:
        """
        Connect; cancelling gives up.

        :returns: fires with the protocol, or fails with one of Twisted's errors of connecting.
        """
        task = self._event_loop.loop.create_task(self._connect(protocolFactory))
        connecting: Deferred[Any] = Deferred(lambda _: (task.cancel(), None)[1])

        def done(task: asyncio.Task[Any]) -> None:
            if task.cancelled():
                # By whom the Deferred was cancelled, or with the loop: nobody waits.
                return
            error = task.exception()
            if connecting.called:
                if error is None:
                    task.result().transport.abortConnection()
            elif error is not None:
                connecting.errback(_connect_error(error))
            else:
                connecting.callback(task.result())

        task.add_done_callback(done)
        return connecting

    async def _connect(self, factory: IProtocolFactory) -> Any:
        def build() -> _Receiver:
            protocol = factory.buildProtocol(Address(self._host, self._port))  # type: ignore[arg-type]
            return _ChannelReceiver(protocol) if isinstance(protocol, Channel) else _Receiver(protocol)

        loop = self._event_loop.loop
        # uvloop's has no such option.
        how: dict[str, Any] = {"happy_eyeballs_delay": _NEXT_ADDRESS} if isinstance(loop, asyncio.BaseEventLoop) else {}
        _, receiver = await loop.create_connection(build, self._host, self._port, **how)
        return receiver.protocol


def _connect_error(error: BaseException) -> BaseException:
    found: BaseException
    if isinstance(error, socket.gaierror):
        found = DNSLookupError(str(error))
    elif isinstance(error, OSError):
        kind = ConnectionRefusedError if isinstance(error, ConnectionError) else ConnectError
        found = kind(osError=error.errno, string=error.strerror or str(error))
    else:
        return error
    found.__cause__ = error
    return found


class _Receiver(asyncio.BufferedProtocol):
    """Passes on the events of an asyncio transport to a protocol of Twisted's."""

    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol
        self._transport: LoopTransport | None = None
        self._buffer = memoryview(b"")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = LoopTransport(transport)
        self.protocol.makeConnection(self._transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        if not self._buffer:
            self._buffer = memoryview(bytearray(_RECEIVED_AT_ONCE))
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.protocol.dataReceived(bytes(self._buffer[:nbytes]))

    def pause_writing(self) -> None:
        if self._transport is not None and self._transport.producer is not None:
            self._transport.producer.pauseProducing()

    def resume_writing(self) -> None:
        if self._transport is not None and self._transport.producer is not None:
            self._transport.producer.resumeProducing()

    def connection_lost(self, exc: Exception | None) -> None:
        reason: Exception = ConnectionDone() if exc is None else ConnectionLost(str(exc))
        reason.__cause__ = exc
        self.protocol.connectionLost(Failure(reason))


class _ChannelReceiver(_Receiver):
    """Receives straight into the memory of a channel."""

    def __init__(self, protocol: Channel) -> None:
        super().__init__(protocol)
        self._channel = protocol
        self._wakes_for = 1

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._channel.room()

    def buffer_updated(self, nbytes: int) -> None:
        wakes_for = self._channel.filled(nbytes)
        if wakes_for != self._wakes_for and self._channel.usable:
            self._wakes_for = wakes_for
            assert self._transport is not None
            self._transport.wake_for(wakes_for)


@implementer(ITCPTransport)
class LoopTransport:
    """
    An asyncio transport as one of Twisted's.

    :ivar disconnecting: no more can be written.
    :ivar producer: paused while much is unsent.
    """

    def __init__(self, transport: Any) -> None:
        self._transport: asyncio.Transport = transport
        self.disconnecting = False
        self.producer: Any = None
        # As transports of reactors have it.
        self.write = transport.write

    def writeSequence(self, data: Iterable[bytes]) -> None:
        """Write several pieces."""
        self._transport.write(b"".join(data))

    def loseConnection(self) -> None:
        """Close once everything is sent."""
        self.disconnecting = True
        self._transport.close()

    def loseWriteConnection(self) -> None:
        """Send nothing more."""
        self._transport.write_eof()

    def abortConnection(self) -> None:
        """Close at once."""
        self.disconnecting = True
        self._transport.abort()

    def getPeer(self) -> Any:
        """The address of the other end."""
        return self._address("peername")

    def getHost(self) -> Any:
        """The address of this end."""
        return self._address("sockname")

    def _address(self, name: str) -> Address:
        found = self._transport.get_extra_info(name) or ("?", 0)
        return Address(*found[:2])

    def wake_for(self, count: int) -> None:
        """Let the kernel wake the process when so many bytes are there, not for each segment."""
        handle = self._transport.get_extra_info("socket")
        if handle is not None:
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

    # Producers and consumers.

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Pause it while much is unsent."""
        self.producer = producer

    def unregisterProducer(self) -> None:
        """Pause it no more."""
        self.producer = None

    def pauseProducing(self) -> None:
        """Receive nothing."""
        self._transport.pause_reading()

    def resumeProducing(self) -> None:
        """Receive again."""
        self._transport.resume_reading()

    def stopProducing(self) -> None:
        """Receive nothing more."""
        self.loseConnection()

    # The socket.

    def getTcpNoDelay(self) -> bool:
        """Whether small segments are sent at once."""
        return bool(self._option(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Send small segments at once."""
        self._set_option(socket.IPPROTO_TCP, socket.TCP_NODELAY, enabled)

    def getTcpKeepAlive(self) -> bool:
        """Whether idle peers are probed."""
        return bool(self._option(socket.SOL_SOCKET, socket.SO_KEEPALIVE))

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """Probe idle peers."""
        self._set_option(socket.SOL_SOCKET, socket.SO_KEEPALIVE, enabled)

    def _option(self, level: int, option: int) -> int:
        handle = self._transport.get_extra_info("socket")
        return 0 if handle is None else handle.getsockopt(level, option)

    def _set_option(self, level: int, option: int, enabled: bool) -> None:
        handle = self._transport.get_extra_info("socket")
        if handle is not None:
            handle.setsockopt(level, option, int(enabled))
