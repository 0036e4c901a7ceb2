"""Tests of :mod:`logbus.net.tls_client`: one broker's connection to another's listener."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from service_identity import VerificationError
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.python.failure import Failure

from logbus.config import ConfigView
from logbus.errors import LogbusError
from logbus.net.channel import Channel
from logbus.net.connect import connect
from logbus.net.keepalive import enable_keepalive
from logbus.net.listening_reactor import ListeningReactor
from logbus.net.tls import CurrentContext, listener_tls, peer_certificate
from logbus.net.tls_client import TLSClientEndpoint
from logbus.security.tls.listener_tls import ListenerTls
from logbus.timers import Timers
from logbus.wire.messages.metadata import MetadataRequest
from tests.certificates import Authority
from tests.net.test_transport import RealCase

ROOT = Authority.new()
STRANGERS = Authority.new("CN=Strangers")


class TLSClientTests(RealCase):
    """A listener for brokers, which demands certificates."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.tls = self.broker(ROOT, ("localhost", "127.0.0.1"))
        super().setUp()

    def broker(self, authority: Authority, hosts: tuple[str, ...], **settings: str) -> ListenerTls:
        """The TLS of a broker whose certificate names these hosts."""
        more = {name.replace("_", "."): text for name, text in settings.items()}
        tls = listener_tls("INSIDE", "SSL", "tcp:0", between_brokers=True)
        tls.load(
            ConfigView.load(
                set={
                    "ssl.keystore.location": str(authority.issue(hosts=hosts).write(self.directory / "own.pem")),
                    "ssl.truststore.location": str(authority.write(self.directory / "ca.pem")),
                    "ssl.client.auth": "required",
                    **more,
                }
            )
        )
        return tls

    def listen(self, endpoint: str) -> Any:
        self.factory.principal_builder = lambda transport: self.tls.principal(peer_certificate(transport))
        reactor = ListeningReactor(self.loop.reactor, tls=CurrentContext(self.tls))
        return reactor.listenTCP(0, self.factory, interface="127.0.0.1")

    def connected(self, tls: ListenerTls, host: str = "127.0.0.1") -> Any:
        """The channel to the listener, or the failure."""
        port, reactor = self.port.getHost().port, self.loop.reactor
        timers = Timers(reactor)
        self.addCleanup(timers.close)
        plain = TCP4ClientEndpoint(reactor, "127.0.0.1", port)

        async def begin(channel: Channel) -> None:
            await channel.request(MetadataRequest(topics=None), 9)

        return self.done(connect(TLSClientEndpoint(plain, tls, host, reactor), timers, lends=True, begin=begin))

    def done(self, waiting: Deferred[Any]) -> Any:
        results: list[Any] = []
        waiting.addBoth(results.append)
        self.loop.until(lambda: results)
        return results[0]

    def test_each_proves_itself(self) -> None:
        """Requests are answered, and the listener knows who asked; the kernel looks after the connection."""
        channel = self.connected(self.tls)
        enable_keepalive(channel.transport, 5)
        self.assertEqual({context.principal for context in self.handler.contexts}, {"User:CN=localhost"})
        self.done(channel.close())

    def test_wrong_host(self) -> None:
        """A certificate for other hosts is refused, by address and by name, unless the check is turned off."""
        self.tls = listening = self.broker(ROOT, ("other.example.org", "10.0.0.1"))
        self.port.stopListening()
        self.port = self.listen("")
        for host in ("127.0.0.1", "localhost"):
            failure = self.connected(listening, host)
            assert isinstance(failure, Failure)
            failure.trap(LogbusError, VerificationError)
            self.assertIn("its certificate is not of the host connected to", str(failure.value))
            self.assertEqual(self.handler.contexts, [])
        self.tls = self.broker(ROOT, ("other",), ssl_endpoint_identification_algorithm="")
        channel = self.connected(self.tls)
        self.done(channel.close())

    def test_strangers(self) -> None:
        """A broker of another authority trusts nobody here, and is not trusted."""
        failure = self.connected(self.broker(STRANGERS, ("127.0.0.1",)))
        assert isinstance(failure, Failure)
        self.assertRegex(str(failure.value), r"was lost: certificate verify failed; see ssl.truststore.location$")
        self.assertEqual(self.handler.contexts, [])
