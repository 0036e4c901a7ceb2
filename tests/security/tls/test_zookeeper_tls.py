"""Tests of :mod:`logbus.security.tls.zookeeper_tls`: handshakes in memory, as ZooKeeper would make them."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.security.tls.zookeeper_tls import ZooKeeperTls
from tests.certificates import Authority, Issued


class ZooKeeperTlsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.authority = Authority.new()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.trusted = self.authority.write(self.directory / "ca.pem")
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(self.authority.issue("CN=zk").write(self.directory / "zk.pem"))
        self.server.load_verify_locations(self.trusted)
        self.server.verify_mode = ssl.CERT_OPTIONAL

    def tls(self, **more: object) -> ZooKeeperTls:
        """What these settings make, with the authority as the trust store."""
        settings = {"truststore_location": self.trusted, **more}
        return ZooKeeperTls.of(
            ConfigView.load(set={f"zookeeper.ssl.{name.replace('_', '.')}": str(one) for name, one in settings.items()})
        )

    def handshake(self, context: ssl.SSLContext, host: str = "localhost") -> ssl.SSLObject:
        """The server's side after a handshake."""
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(to_client, to_server, server_hostname=host)
        server = self.server.wrap_bio(to_server, to_client, server_side=True)
        waiting = [client, server]
        for turn in range(8):
            side = waiting[turn % 2]
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
        client.do_handshake()
        server.do_handshake()
        return server

    def subject(self, server: ssl.SSLObject) -> object:
        """Of the client's certificate."""
        found = server.getpeercert()
        return None if not found else dict(part[0] for part in found["subject"])["commonName"]  # type: ignore[index, misc]

    def written(self, name: str, issued: Issued, password: str) -> Path:
        """A key store in PKCS12."""
        path = self.directory / name
        path.write_bytes(issued.pkcs12(password))
        return path

    def test_stores(self) -> None:
        """PEM with an encrypted key, PKCS12 by its name, or by the type; no key store is no certificate."""
        alice = self.authority.issue("CN=alice")
        pem = alice.write(self.directory / "alice.pem", "secret")
        p12, other = self.written("alice.p12", alice, "secret"), self.written("alice.bin", alice, "secret")
        for settings in (
            {"keystore_location": pem},
            {"keystore_location": p12},
            {"keystore_location": other, "keystore_type": "PKCS12"},
        ):
            tls = self.tls(**settings, keystore_password="secret")
            self.assertTrue(tls.has_certificate)
            self.assertEqual(self.subject(self.handshake(tls.last)), "alice")
        anonymous = self.tls()
        self.assertFalse(anonymous.has_certificate)
        self.assertIsNone(self.subject(self.handshake(anonymous.last)))

    def test_trust_store(self) -> None:
        """PKCS12, too; others' certificates and other hosts are refused."""
        path = self.directory / "ca.p12"
        path.write_bytes(self.authority.pkcs12("changeit"))
        self.handshake(self.tls(truststore_location=path, truststore_password="changeit").last)
        other = Authority.new("CN=Other").write(self.directory / "other.pem")
        for tls, host in ((self.tls(truststore_location=other), "localhost"), (self.tls(), "elsewhere")):
            self.assertRaises(ssl.SSLCertVerificationError, self.handshake, tls.last, host)
        self.handshake(self.tls(endpoint_identification_algorithm="").last, "elsewhere")

    def test_versions_and_suites(self) -> None:
        """As the settings say."""
        self.assertEqual(self.handshake(self.tls().last).version(), "TLSv1.3")
        for settings in (
            {"enabled_protocols": "TLSv1.2"},
            {"cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"},
        ):
            server = self.handshake(self.tls(**settings).last)
            self.assertEqual(server.version(), "TLSv1.2")
            cipher = server.cipher()
            assert cipher is not None
            self.assertEqual(cipher[0], "ECDHE-ECDSA-AES256-GCM-SHA384")
        none = {"enabled_protocols": "TLSv1.3", "cipher_suites": "ECDHE-RSA-AES256-GCM-SHA384"}
        self.assertIn("zookeeper.ssl.cipher.suites: none", str(self.assertRaises(ConfigError, self.tls, **none)))

    def test_renewal(self) -> None:
        """New files are taken; wrong ones leave the last that were fine."""
        path = self.authority.issue("CN=old").write(self.directory / "key.pem")
        tls = self.tls(keystore_location=path)
        self.authority.issue("CN=new").write(path)
        self.assertEqual(self.subject(self.handshake(tls.renew())), "new")
        path.write_text("nothing")
        error = self.assertRaises(ConfigError, tls.renew)
        self.assertIn("zookeeper.ssl.keystore.location", str(error))
        self.assertEqual(self.subject(self.handshake(tls.last)), "new")

    def test_wrong_stores(self) -> None:
        """Errors name the key; secrets are not in them."""
        p12 = self.written("a.p12", self.authority.issue(), "right")
        for settings, words in (
            ({"keystore_location": p12, "keystore_password": "guess"}, "zookeeper.ssl.keystore.password is wrong"),
            ({"keystore_location": p12}, "zookeeper.ssl.keystore.password is missing"),
            ({"keystore_location": p12, "keystore_type": "PEM"}, "set zookeeper.ssl.keystore.type=PKCS12"),
        ):
            said = str(self.assertRaises(ConfigError, self.tls, **settings))
            self.assertIn(words, said)
            self.assertNotIn("guess", said)
        self.assertNotIn("guess", repr(self.tls(truststore_password="guess")))
