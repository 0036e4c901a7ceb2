"""TLS handshakes in memory, between OpenSSL's server and Python's client."""

from __future__ import annotations

import ssl

from OpenSSL import SSL


class Refused(Exception):
    """The server ended the handshake."""


class MemoryClient:
    """
    A client whose bytes go to a server in memory.

    :ivar tls: the client's side.
    :ivar server: the server's side.
    """

    def __init__(
        self,
        server: SSL.Context,
        context: ssl.SSLContext,
        host: str | None = None,
        session: ssl.SSLSession | None = None,
    ) -> None:
        self.server = SSL.Connection(server, None)
        self.server.set_accept_state()
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_hostname=host, session=session)

    def shake(self) -> MemoryClient:
        """
        Complete the handshake.

        :raises Refused: the server refuses; the message has OpenSSL's words.
        """
        client_done = server_done = False
        while not (client_done and server_done):
            if not client_done:
                try:
                    self.tls.do_handshake()
                    client_done = True
                except ssl.SSLWantReadError:
                    pass
            self._carry()
            if not server_done:
                try:
                    self.server.do_handshake()
                    server_done = True
                except SSL.WantReadError:
                    pass
                except SSL.Error as e:
                    raise Refused(str(e)) from None
            self._answer()
        return self

    def say(self, data: bytes) -> bytes:
        """Send bytes to the server, which sends them back."""
        self.tls.write(data)
        self._carry()
        self.server.sendall(self.server.recv(len(data)))
        self._answer()
        return self.tls.read(len(data))

    def _carry(self) -> None:
        if self._out.pending:
            self.server.bio_write(self._out.read())

    def _answer(self) -> None:
        try:
            self._in.write(self.server.bio_read(1 << 16))
        except SSL.WantReadError:
            pass


def client_context(*, trusted: str | None = None, own: str | None = None) -> ssl.SSLContext:
    """
    A client's context.

    :param trusted: certificates as PEM; None: the server's is not checked.
    :param own: path of the client's key and certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if trusted is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=trusted)
    if own is not None:
        context.load_cert_chain(own)
    return context
