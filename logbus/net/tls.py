"""
TLS for listeners, with a deadline for the handshake.

Twisted waits for a handshake forever, and the protocol above gets no data before it is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cryptography.x509 import Certificate
from OpenSSL import SSL, crypto
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IDelayedCall, IOpenSSLServerConnectionCreator, IReactorTime, ITCPTransport
from twisted.internet.protocol import Factory, connectionDone
from twisted.logger import Logger
from twisted.protocols.tls import BufferingTLSTransport, TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.addresses import unmapped_address
from logbus.errors import ConfigError
from logbus.net.connection_limits import WarningLimiter, more_suppressed
from logbus.net.itransport import IFrameFactory
from logbus.security.tls.listener_tls import ListenerTls
from logbus.security.tls.tls_errors import describe_tls_error, reason

SSL_ENDPOINT = "ssl:"


class TLSServerTransport(BufferingTLSTransport):
    """A connection that is closed if its handshake takes too long."""

    factory: TLSServerFactory
    _deadline: IDelayedCall | None = None
    _log = Logger()

    def makeConnection(self, transport: Any) -> None:
        """Begin the handshake."""
        factory = self.factory
        if ITCPTransport.providedBy(transport):
            # Otherwise the end of each large response waits until the client acknowledges what came before.
            transport.setTcpNoDelay(True)
        self._deadline = factory.clock.callLater(factory.handshake_seconds, self._handshake_expired)
        super().makeConnection(transport)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Cancel the deadline; log why a handshake failed."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        failed: Failure | None = self._reason
        if not self._handshakeDone and failed is not None and isinstance(failed.value, SSL.Error):
            self._handshake_failed(failed.value)
        super().connectionLost(reason)

    def _handshake_failed(self, error: Exception) -> None:
        transport: Any = self.transport
        peer = transport.getPeer()
        host = unmapped_address(getattr(peer, "host", ""))
        suppressed = self.factory.warning_limiter.admit(host)
        if suppressed is not None:
            self._log.warn(
                "the TLS handshake of {host}:{port} on listener {listener} failed: {reason}{more}",
                host=host,
                port=getattr(peer, "port", 0),
                listener=self.factory.listener,
                reason=describe_tls_error(error),
                more=more_suppressed(suppressed),
            )

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
    :ivar listener: the listener's name.
    """

    protocol = TLSServerTransport

    def __init__(self, context_factory: Any, factory: Any, clock: IReactorTime, handshake_seconds: float) -> None:
        super().__init__(context_factory, False, factory, clock)
        self.clock = clock
        self.handshake_seconds = handshake_seconds
        self.listener = context_factory.listener if isinstance(context_factory, CurrentContext) else ""
        self.warning_limiter = WarningLimiter(clock.seconds)


@implementer(IOpenSSLServerConnectionCreator)
class CurrentContext:
    """Makes each new connection of a listener with its current context."""

    def __init__(self, tls: ListenerTls) -> None:
        self._tls = tls
        self.listener = tls.listener

    def serverConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        """Return OpenSSL's part of a connection."""
        return SSL.Connection(self._tls.context, None)


def listener_tls(
    name: str, security_protocol: str, endpoint: str, *, between_brokers: bool = False, advertised: str | None = None
) -> ListenerTls:
    """
    Return the TLS of a listener; nothing is loaded yet.

    :param endpoint: an endpoint ``ssl:…`` has a key of its own.
    :param advertised: the host that others connect to.
    """
    own = endpoint_context(endpoint) if endpoint.startswith(SSL_ENDPOINT) else None
    return ListenerTls(name, security_protocol.startswith("SASL_"), own, between_brokers, advertised)


def endpoint_context(endpoint: str) -> Callable[[], SSL.Context]:
    """Return a function that makes a context with the key of an endpoint ``ssl:…``."""

    def context() -> SSL.Context:
        capture = _ContextCapture()
        try:
            serverFromString(capture, endpoint).listen(Factory())
            made: SSL.Context = capture.factory.getContext()
        except (OSError, ValueError, TypeError, KeyError) as e:
            raise ConfigError(f"{endpoint}: {e}") from None
        except (SSL.Error, crypto.Error) as e:
            raise ConfigError(f"{endpoint}: {reason(e)}") from None
        return made

    return context


class _ContextCapture:
    """A reactor that keeps the context factory of an endpoint instead of listening."""

    factory: Any = None

    def listenSSL(
        self, port: int, factory: object, contextFactory: object, backlog: int = 50, interface: str = ""
    ) -> None:
        self.factory = contextFactory


def peer_certificate(transport: Any) -> Certificate | None:
    """Return the certificate that the client of a connection has shown; None without one."""
    found: Certificate | None = transport.getHandle().get_peer_certificate(as_cryptography=True)
    return found
