"""
Connects over TLS, as clients do, and brokers among themselves.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any, Protocol

from attrs import define
from OpenSSL import SSL
from service_identity.pyopenssl import verify_hostname, verify_ip_address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer


class IClientTls(Protocol):
    """The TLS of connections to others."""

    @property
    def client_context(self) -> SSL.Context:
        """The context of the next connection."""

    @property
    def check_host(self) -> bool:
        """Whether the certificate of the other end must name the host that is connected to."""


@implementer(IOpenSSLClientConnectionCreator)
@define(eq=False)
class _ClientConnections:
    """
    Makes connections that check the certificate of the other end.

    :ivar host: the name or the address that the certificate must name.
    """

    tls: IClientTls
    host: str

    def clientConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        """Return OpenSSL's part of a connection."""
        connection = SSL.Connection(self.tls.client_context, None)
        is_address = _is_address(self.host)
        if not is_address:
            connection.set_tlsext_host_name(self.host.encode("idna"))
        if self.tls.check_host:
            verify: Any = verify_ip_address if is_address else verify_hostname

            def shaken(connection: SSL.Connection, where: int, result: int) -> None:
                if where & SSL.SSL_CB_HANDSHAKE_DONE:
                    try:
                        verify(connection, self.host)
                    except Exception:
                        tlsProtocol.failVerification(Failure())

            connection.set_info_callback(shaken)
        return connection


@implementer(IStreamClientEndpoint)
@define(eq=False)
class TLSClientEndpoint:
    """
    Connects over TLS.

    :param endpoint: connects without it.
    :param host: the name or the address connected to.
    """

    _endpoint: IStreamClientEndpoint
    _tls: IClientTls
    _host: str
    _clock: IReactorTime

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """Connect; fires before the handshake is over, with which the first bytes wait."""
        connections = _ClientConnections(self._tls, self._host)
        secure = TLSMemoryBIOFactory(connections, True, protocolFactory, self._clock)
        secure.noisy = False
        connecting: Deferred[Any] = self._endpoint.connect(secure)
        return connecting.addCallback(lambda protocol: protocol.wrappedProtocol)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
