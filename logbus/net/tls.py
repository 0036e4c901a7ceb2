"""
TLS for listeners, with a deadline for the handshake.

Twisted waits for a handshake forever, and the protocol above is not called before it is over.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.protocols.tls import BufferingTLSTransport, TLSMemoryBIOFactory
from twisted.python.failure import Failure

from logbus.net.itransport import IFrameFactory


class TLSServerTransport(BufferingTLSTransport):
    """A connection that is closed if its handshake takes too long."""

    factory: TLSServerFactory
    _deadline: IDelayedCall | None = None
    _log = Logger()

    def makeConnection(self, transport: Any) -> None:
        """Begin the handshake."""
        factory = self.factory
        self._deadline = factory.clock.callLater(factory.handshake_seconds, self._handshake_expired)
        super().makeConnection(transport)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Cancel the deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        super().connectionLost(reason)

    def _handshake_expired(self) -> None:
        self._deadline = None
        if self._handshakeDone:
            return
        transport: Any = self.transport
        self._log.info(
            "closing {peer}: its TLS handshake was not complete after {seconds:g} s",
            peer=transport.getPeer(),
            seconds=self.factory.handshake_seconds,
        )
        wrapped: Any = self.factory.wrappedFactory
        is_framed: bool = IFrameFactory.providedBy(wrapped)
        if is_framed:
            wrapped.metrics.connections_expired += 1
        self.abortConnection()


class TLSServerFactory(TLSMemoryBIOFactory):
    """
    Makes the connections of a TLS listener.

    :ivar clock: measures the handshakes.
    :ivar handshake_seconds: deadline of a handshake.
    """

    protocol = TLSServerTransport

    def __init__(self, context_factory: Any, factory: Any, clock: IReactorTime, handshake_seconds: float) -> None:
        super().__init__(context_factory, False, factory, clock)
        self.clock = clock
        self.handshake_seconds = handshake_seconds
