"""Tests of :mod:`logbus.net.tls`: connections of a real listener, and who their clients are."""

from __future__ import annotations

import socket
import ssl
import tempfile
from pathlib import Path
from typing import Any

from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.net.listening_reactor import ListeningReactor
from logbus.net.request_context import ANONYMOUS
from logbus.net.tls import CurrentContext, endpoint_context, listener_tls, peer_certificate
from tests.certificates import Authority
from tests.net.fakes import metadata
from tests.net.test_transport import RealCase

ROOT = Authority.new()


class PrincipalTests(RealCase):
    """A listener that asks for certificates."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.tls = listener_tls("SECURE", "SSL", "tcp:0")
        self.tls.load(
            ConfigView.load(
                set={
                    "ssl.keystore.location": str(ROOT.issue().write(self.directory / "server.pem")),
                    "ssl.truststore.location": str(ROOT.write(self.directory / "ca.pem")),
                    "ssl.client.auth": "requested",
                    "ssl.principal.mapping.rules": "RULE:^CN=([a-z]*),OU=users$/$1/U",
                }
            )
        )
        super().setUp()

    def listen(self, endpoint: str) -> Any:
        """Listen with the TLS of the keys on a plain endpoint, and name clients by their certificates."""
        self.factory.principal_builder = lambda transport: self.tls.principal(peer_certificate(transport))
        reactor = ListeningReactor(self.loop.reactor, tls=CurrentContext(self.tls))
        return reactor.listenTCP(0, self.factory, interface="127.0.0.1")

    def asked(self, name: str | None) -> list[str]:
        """The principals of the requests of a client with this certificate; none if it was disconnected."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.directory / "ca.pem")
        if name is not None:
            context.load_cert_chain(ROOT.issue(name).write(self.directory / "client.pem"))
        sock = context.wrap_socket(
            socket.create_connection(("127.0.0.1", self.port.getHost().port)),
            server_hostname="localhost",
            do_handshake_on_connect=False,
        )
        self.addCleanup(sock.close)
        sock.setblocking(False)
        ended = False

        def shaken() -> bool:
            try:
                sock.do_handshake()
            except ssl.SSLWantReadError:
                return False
            return True

        def answered() -> bool:
            nonlocal ended
            try:
                ended = not sock.recv(1 << 16)
            except ssl.SSLWantReadError:
                return False
            except OSError:
                ended = True
            return True

        before = len(self.handler.contexts)
        self.loop.until(shaken)
        sock.send(self.client.ask(metadata()))
        self.loop.until(answered)
        self.assertEqual(ended, len(self.handler.contexts) == before)
        return [context.principal for context in self.handler.contexts[before:]]

    def test_no_delay(self) -> None:
        """The end of a response is sent at once, whether or not the client has acknowledged its beginning."""
        transports: list[Any] = []

        def builder(transport: Any) -> None:
            transports.append(transport)

        self.factory.principal_builder = builder
        self.asked(None)
        (transport,) = transports
        self.assertTrue(transport.getTcpNoDelay())

    def test_named_by_the_certificate(self) -> None:
        """The rules make a user of the certificate's name."""
        self.assertEqual(self.asked("CN=alice,OU=users"), ["User:ALICE"])

    def test_anonymous(self) -> None:
        """Who has no certificate is nobody in particular."""
        self.assertEqual(self.asked(None), [ANONYMOUS])

    def test_no_rule(self) -> None:
        """Whom no rule names is disconnected."""
        self.assertEqual(self.asked("CN=mallory,OU=strangers"), [])


class EndpointTests(RealCase):
    def test_wrong_files(self) -> None:
        """An endpoint whose files are missing or wrong says so."""
        with tempfile.NamedTemporaryFile() as empty:
            for endpoint in ("ssl:0:privateKey=/absent", f"ssl:0:privateKey={empty.name}", "ssl:port"):
                with self.subTest(endpoint):
                    error = self.assertRaises(ConfigError, endpoint_context(endpoint))
                    self.assertIn(endpoint, str(error))
