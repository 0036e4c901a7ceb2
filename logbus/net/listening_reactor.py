"""Makes Twisted's endpoint strings listen with our transport."""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IListeningPort
from twisted.internet.posixbase import PosixReactorBase
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
    """

    def __init__(self, reactor: Any, backlog: int = 50, handshake_seconds: float = 10.0, tls: Any = None) -> None:
        self._reactor = reactor
        self._tls = tls
        self._backlog = backlog
        self._handshake_seconds = handshake_seconds
        directlyProvides(self, providedBy(reactor))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> IListeningPort:
        """Listen; ``backlog`` and ``interface`` as in ``IReactorTCP``."""
        if self._tls is not None:
            return self.listenSSL(port, factory, self._tls, backlog, interface)
        backlog = max(backlog, self._backlog)
        framed: bool = IFrameFactory.providedBy(factory)
        if not framed or not isinstance(self._reactor, PosixReactorBase):
            listening: IListeningPort = self._reactor.listenTCP(port, factory, backlog, interface)
            return listening
        ours = ServerPort(port, factory, backlog, interface, self._reactor)
        ours.startListening()
        return ours

    def listenSSL(
        self, port: int, factory: Any, contextFactory: Any, backlog: int = 50, interface: str = ""
    ) -> IListeningPort:
        """Listen for TLS."""
        from logbus.net.tls import TLSServerFactory

        secure = TLSServerFactory(self._tls or contextFactory, factory, self._reactor, self._handshake_seconds)
        listening: IListeningPort = self._reactor.listenTCP(port, secure, max(backlog, self._backlog), interface)
        return listening
