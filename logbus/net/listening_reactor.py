"""Makes Twisted's endpoint strings listen with our transport."""

from __future__ import annotations

import socket
from typing import Any

from twisted.internet.interfaces import IListeningPort
from twisted.internet.posixbase import PosixReactorBase
from twisted.internet.tcp import Port
from zope.interface import directlyProvides, providedBy

from logbus.net.itransport import IFrameFactory
from logbus.net.transport import ServerPort


class ListeningReactor:
    """
    A reactor for ``serverFromString`` that listens with our transport, and otherwise is the given one.

    TCP ports of factories that provide :class:`logbus.net.itransport.IFrameFactory` are :class:`ServerPort`; TLS uses
    this reactor's clock instead of the global one's.

    :param tls: makes TLS connections: also of endpoints that are not ``ssl:``; None: TLS as the endpoint says.
    :param backlog: least length of the kernel's queue of new connections (``socket.listen.backlog.size``).
    :param handshake_seconds: deadline of a TLS handshake (``ssl.handshake.timeout.ms``).
    :param reuse_port: other processes listen on the same port (SO_REUSEPORT).
    :param receive_buffer: bytes that the kernel buffers of what a client sends; −1: it adapts that to the connection.
    """

    def __init__(
        self,
        reactor: Any,
        backlog: int = 50,
        handshake_seconds: float = 10.0,
        tls: Any = None,
        *,
        reuse_port: bool = False,
        receive_buffer: int = -1,
    ) -> None:
        self._reactor = reactor
        self._tls = tls
        self._reuse_port = reuse_port
        self._receive_buffer = receive_buffer
        self._backlog = backlog
        self._handshake_seconds = handshake_seconds
        directlyProvides(self, providedBy(reactor))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> IListeningPort:
        """Listen; ``backlog`` and ``interface`` as in ``IReactorTCP``."""
        if self._tls is not None:
            return self.listenSSL(port, factory, self._tls, backlog, interface)
        return self._listen(port, factory, backlog, interface, framed=IFrameFactory.providedBy(factory))

    def listenSSL(
        self, port: int, factory: Any, contextFactory: Any, backlog: int = 50, interface: str = ""
    ) -> IListeningPort:
        """Listen for TLS."""
        from logbus.net.tls import TLSServerFactory

        secure = TLSServerFactory(self._tls or contextFactory, factory, self._reactor, self._handshake_seconds)
        return self._listen(port, secure, backlog, interface, framed=False)

    def _listen(self, port: int, factory: Any, backlog: int, interface: str, *, framed: bool) -> IListeningPort:
        backlog = max(backlog, self._backlog)
        is_usual = not framed and not self._reuse_port and self._receive_buffer < 0
        if is_usual or not isinstance(self._reactor, PosixReactorBase):
            listening: IListeningPort = self._reactor.listenTCP(port, factory, backlog, interface)
            return listening
        ours = (TunedServerPort if framed else TunedPort)(port, factory, backlog, interface, self._reactor)
        ours.reuse_port, ours.receive_buffer = self._reuse_port, self._receive_buffer
        ours.startListening()
        return ours


class TunedPort(Port):
    """
    A listening TCP port with options of its socket.

    :ivar reuse_port: other processes listen there, too.
    :ivar receive_buffer: bytes; connections inherit it, and announce their windows by it; −1: as the kernel likes.
    """

    reuse_port = False
    receive_buffer = -1

    def createInternetSocket(self) -> socket.socket:
        made: socket.socket = super().createInternetSocket()
        if self.reuse_port:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if self.receive_buffer >= 0:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer)
        return made


class TunedServerPort(TunedPort, ServerPort):
    """One whose connections are :class:`logbus.net.transport.ServerTransport`."""
