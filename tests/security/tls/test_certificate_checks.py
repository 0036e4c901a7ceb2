"""Tests of :mod:`logbus.security.tls.certificate_checks`, by listeners that get new certificates."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.security.tls.listener_tls import ListenerTls
from tests.certificates import Authority, Issued

ROOT, STRANGERS = Authority.new(), Authority.new("CN=Strangers")
MIDDLE = Authority.new("CN=Middle", ROOT)
HOST = "broker1.example.com"


class NewCertificateTests(SynchronousTestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name)
        self.trusted = ROOT.write(self.path / "ca.pem")
        self.now = datetime.now(UTC)

    def config(self, *issued: Issued, **settings: str) -> ConfigView:
        """The configuration of a listener with these keys."""
        store = self.path / "server.pem"
        store.write_text("".join(one.pem() for one in issued))
        given = {"ssl.keystore.location": str(store), "ssl.truststore.location": str(self.trusted)}
        return ConfigView.load(set=given | {name.replace("_", "."): text for name, text in settings.items()})

    def listener(self, *, between_brokers: bool, advertised: str | None = HOST) -> ListenerTls:
        """A listener with a certificate that is right."""
        tls = ListenerTls("EDGE", between_brokers=between_brokers, advertised=advertised)
        tls.load(self.config(MIDDLE.issue(hosts=(HOST,))))
        self.assertEqual(tls.warnings(self.now), [])
        return tls

    def refused(self, tls: ListenerTls, config: ConfigView) -> str:
        """What is said about new certificates that are not taken."""
        before = tls.context
        with self.assertRaises(ConfigError) as caught:
            tls.load(config, self.now)
        self.assertIs(tls.context, before)
        return str(caught.exception)

    def test_between_brokers(self) -> None:
        """A certificate that no other broker would accept is not taken, whether by its authority or its host."""
        tls = self.listener(between_brokers=True)
        where = "listener EDGE: ssl.keystore.location: the certificate of CN=localhost"
        said = self.refused(tls, self.config(STRANGERS.issue(hosts=(HOST,))))
        self.assertRegex(said, f"^{where}, issued by CN=Strangers, cannot be verified: .*issuer")
        self.assertEqual(
            self.refused(tls, self.config(ROOT.issue(hosts=("b.example.com", "10.0.0.1")))),
            f"{where} is of 10.0.0.1, b.example.com, and not of {HOST}, which the listener advertises",
        )
        for right in ("*.example.com", HOST.upper()):
            self.assertTrue(tls.load(self.config(ROOT.issue(hosts=(right,))), self.now))

    def test_as_brokers_check(self) -> None:
        """The host does not matter where brokers do not check it, and another key may be for others than brokers."""
        tls = self.listener(between_brokers=True)
        outside = STRANGERS.issue("CN=outside", hosts=("outside.example.org",))
        self.assertTrue(tls.load(self.config(outside, ROOT.issue(hosts=(HOST,))), self.now))
        unchecked = self.config(ROOT.issue(hosts=("b",)), ssl_endpoint_identification_algorithm="")
        self.assertTrue(tls.load(unchecked, self.now))

    def test_no_worse(self) -> None:
        """Where the old certificate is of no use either, another one is taken, with a warning."""
        tls = ListenerTls("EDGE", between_brokers=True, advertised="10.0.0.1")
        tls.load(self.config(STRANGERS.issue(hosts=(HOST,))))
        self.assertEqual(len(tls.warnings(self.now)), 2)
        self.assertTrue(tls.load(self.config(ROOT.issue(hosts=(HOST,))), self.now))
        self.assertEqual(len(tls.warnings(self.now)), 1)
        self.assertTrue(tls.load(self.config(ROOT.issue(hosts=("10.0.0.1",))), self.now))
        self.assertEqual(tls.warnings(self.now), [])

    def test_for_clients(self) -> None:
        """Clients may trust anybody, and know the broker by other names: its host is but a warning."""
        tls = self.listener(between_brokers=False)
        self.assertTrue(tls.load(self.config(STRANGERS.issue(hosts=("b",))), self.now))
        self.assertRegex(" ".join(tls.warnings(self.now)), f"^the certificate of .* is of b, and not of {HOST}, which")
        unknown = self.listener(between_brokers=False, advertised=None)
        self.assertTrue(unknown.load(self.config(STRANGERS.issue(hosts=("b",))), self.now))
        self.assertEqual(unknown.warnings(self.now), [])
