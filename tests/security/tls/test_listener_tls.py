"""Tests of :mod:`logbus.security.tls.listener_tls` and :mod:`logbus.security.tls.tls_context`, in memory."""

from __future__ import annotations

import ssl
import tempfile
import warnings
from pathlib import Path
from unittest import TestCase

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from OpenSSL import SSL

from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.security.tls.listener_tls import ListenerTls
from logbus.security.tls.tls_errors import reason
from tests.certificates import Authority
from tests.security.tls.handshakes import MemoryClient, Refused, client_context

ROOT = Authority.new()
MIDDLE = Authority.new("CN=Middle", ROOT)
STRANGERS = Authority.new("CN=Strangers")


class ListenerTlsCase(TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name)
        self.key_store = MIDDLE.issue().write(self.path / "server.pem")
        self.trust_store = ROOT.write(self.path / "ca.pem")

    def config(self, **settings: str) -> ConfigView:
        """A configuration; ``_`` stands for a dot."""
        given = {name.replace("_", "."): text for name, text in settings.items()}
        return ConfigView.load(
            set={
                "ssl.keystore.location": str(self.key_store),
                "ssl.truststore.location": str(self.trust_store),
                **given,
            }
        )

    def listening(self, **settings: str) -> ListenerTls:
        tls = ListenerTls("EDGE")
        tls.load(self.config(**settings))
        return tls

    def client(self, tls: ListenerTls, context: ssl.SSLContext, host: str | None = None) -> MemoryClient:
        return MemoryClient(tls.context, context, host).shake()

    def own(self, authority: Authority, name: str = "CN=alice,OU=x", **more: object) -> ssl.SSLContext:
        """A client with a certificate."""
        path = authority.issue(name, **more).write(self.path / "client.pem")
        return client_context(own=str(path))


class HandshakeTests(ListenerTlsCase):
    def test_today_s_practice(self) -> None:
        """A client checks the broker's chain, and speaks TLS 1.3, or 1.2 with forward secrecy."""
        tls = self.listening()
        context = client_context(trusted=ROOT.pem)
        context.check_hostname = True
        made = self.client(tls, context, "localhost")
        self.assertEqual(made.tls.version(), "TLSv1.3")
        self.assertEqual(made.say(b"hello"), b"hello")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        made = self.client(tls, context, "localhost")
        cipher = made.tls.cipher()
        assert cipher is not None
        self.assertRegex(cipher[0], "^ECDHE-ECDSA-")
        self.assertIsNone(made.tls.selected_alpn_protocol())
        self.assertIsNone(made.tls.compression())

    def test_weak_clients(self) -> None:
        """A client that can do no more than an old version, or no forward secrecy, is refused."""
        tls = self.listening()
        old = client_context()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        weak = client_context()
        weak.maximum_version = ssl.TLSVersion.TLSv1_2
        weak.set_ciphers("AES128-SHA:AES128-GCM-SHA256:DHE-RSA-AES128-SHA")
        for context, words in ((old, "unsupported protocol|no protocols"), (weak, "no shared cipher")):
            with self.subTest(words), self.assertRaisesRegex((Refused, ssl.SSLError), words):
                self.client(tls, context)

    def test_chosen_suites(self) -> None:
        """``ssl.cipher.suites`` and ``ssl.enabled.protocols`` hold, for the listener alone if they say so."""
        tls = self.listening(
            listener_name_edge_ssl_cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256"
        )
        context = client_context()
        self.assertEqual(self.client(tls, context).tls.cipher()[0], "TLS_AES_128_GCM_SHA256")  # type: ignore[index]
        tls = self.listening(ssl_enabled_protocols="TLSv1.2")
        self.assertEqual(self.client(tls, context).tls.version(), "TLSv1.2")
        with self.assertRaisesRegex(
            ConfigError, "listener EDGE: ssl.cipher.suites: AES128-SHA: not a suite with forward"
        ):
            self.listening(ssl_cipher_suites="AES128-SHA")

    def test_other_server_names(self) -> None:
        """A client that asks for another name gets the same certificate: it may know the broker under an alias."""
        made = self.client(self.listening(), client_context(trusted=ROOT.pem), "alias.example.org")
        self.assertEqual(made.server.get_servername(), b"alias.example.org")

    def test_resumed_sessions(self) -> None:
        """A session is resumed by its ticket, with the client's certificate; new certificates end that."""
        tls = self.listening(ssl_client_auth="required")
        context = self.own(ROOT)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        first = self.client(tls, context)
        again = MemoryClient(tls.context, context, session=first.tls.session).shake()
        self.assertTrue(again.tls.session_reused)
        self.assertEqual(tls.principal(again.server.get_peer_certificate(as_cryptography=True)), "User:CN=alice,OU=x")
        self.key_store.write_text(MIDDLE.issue("CN=next").pem())
        tls.load(self.config(ssl_client_auth="required"))
        again = MemoryClient(tls.context, context, session=first.tls.session).shake()
        self.assertFalse(again.tls.session_reused)

    def test_renegotiation(self) -> None:
        """A client cannot have the broker negotiate again and again."""
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        context.set_max_proto_version(SSL.TLS1_2_VERSION)
        client, server = SSL.Connection(context, None), SSL.Connection(self.listening().context, None)
        client.set_connect_state()
        server.set_accept_state()
        ends = ((client, server), (server, client))

        def turn(act: str) -> list[str]:
            said = []
            for end, other in ends:
                try:
                    getattr(end, act)(*([100] if act == "recv" else []))
                except SSL.WantReadError:
                    pass
                except SSL.Error as e:
                    said.append(reason(e))
                try:
                    other.bio_write(end.bio_read(1 << 16))
                except SSL.WantReadError:
                    pass
            return said

        for _ in range(4):
            turn("do_handshake")
        self.assertEqual(server.get_cipher_version(), "TLSv1.2")
        client.renegotiate()
        said = turn("recv") + turn("do_handshake") + turn("do_handshake")
        self.assertIn("no renegotiation", " ".join(said))
        self.assertEqual(server.total_renegotiations(), 0)


class ClientCertificateTests(ListenerTlsCase):
    def test_required(self) -> None:
        """With ``required``, only clients with a valid certificate of the trusted authority are let in."""
        tls = self.listening(ssl_client_auth="required")
        for context, words in (
            (client_context(), "peer did not return a certificate"),
            (self.own(STRANGERS), "certificate verify failed"),
            (self.own(ROOT, days=-1), "certificate verify failed"),
            (self.own(ROOT, usage=[ExtendedKeyUsageOID.SERVER_AUTH]), "certificate verify failed"),
        ):
            with self.subTest(words), self.assertRaisesRegex(Refused, words):
                self.client(tls, context)
        for authority in (ROOT, MIDDLE):
            made = self.client(tls, self.own(authority))
            certificate = made.server.get_peer_certificate(as_cryptography=True)
            assert isinstance(certificate, x509.Certificate)
            self.assertEqual(tls.principal(certificate), "User:CN=alice,OU=x")

    def test_requested(self) -> None:
        """With ``requested``, a client may have none, but no wrong one."""
        tls = self.listening(ssl_client_auth="requested")
        self.assertIsNone(tls.principal(self.client(tls, client_context()).server.get_peer_certificate()))  # type: ignore[arg-type]
        with self.assertRaisesRegex(Refused, "certificate verify failed"):
            self.client(tls, self.own(STRANGERS))

    def test_none(self) -> None:
        """Without client authentication a client's certificate is not asked for, and names nobody."""
        tls = self.listening()
        made = self.client(tls, self.own(ROOT))
        self.assertIsNone(made.server.get_peer_certificate())

    def test_mapped_names(self) -> None:
        """``ssl.principal.mapping.rules`` give the user's name."""
        tls = self.listening(ssl_principal_mapping_rules="RULE:^CN=([a-z]+),.*$/$1/U")
        self.assertEqual(tls.principal(ROOT.issue("CN=alice,OU=x").certificate), "User:ALICE")

    def test_sasl(self) -> None:
        """Who logs in by SASL is not named by a certificate."""
        tls = ListenerTls("EDGE", sasl=True)
        tls.load(self.config(listener_name_edge_ssl_client_auth="required"))
        made = self.client(tls, self.own(ROOT))
        self.assertIsNone(tls.principal(made.server.get_peer_certificate(as_cryptography=True)))  # type: ignore[arg-type]


class LoadTests(ListenerTlsCase):
    def test_new_certificates(self) -> None:
        """New connections use new certificates; the same ones are not loaded again."""
        tls, config = self.listening(), self.config()
        before = tls.context
        self.assertFalse(tls.load(config))
        self.assertIs(tls.context, before)
        MIDDLE.issue("CN=next").write(self.key_store)
        tls.check(config)
        self.assertIs(tls.context, before)
        self.assertTrue(tls.load(config))
        made = self.client(tls, client_context(trusted=ROOT.pem))
        self.assertEqual(made.tls.getpeercert()["subject"], ((("commonName", "next"),),))  # type: ignore[index]

    def test_wrong_ones(self) -> None:
        """Wrong ones are refused, and the old ones stay."""
        tls, config = self.listening(), self.config()
        before = tls.context
        for wrong in ("", MIDDLE.issue().key_pem() + MIDDLE.issue().chain_pem):
            self.key_store.write_text(wrong)
            for act in (tls.check, tls.load):
                with self.assertRaisesRegex(ConfigError, "listener EDGE: ssl.keystore.location: "):
                    act(config)
            self.assertIs(tls.context, before)

    def test_what_is_missing(self) -> None:
        """A listener without a key store, or with client authentication but no trust store, says what is missing."""
        for settings, words in (
            ({}, "listener EDGE: TLS needs a key and its certificate: set ssl.keystore.location"),
            (
                {"ssl.keystore.location": str(self.key_store), "listener.name.edge.ssl.client.auth": "requested"},
                "listener.name.edge.ssl.client.auth=requested needs ssl.truststore.location",
            ),
        ):
            with self.subTest(words), self.assertRaisesRegex(ConfigError, words):
                ListenerTls("EDGE").load(ConfigView.load(set=settings))

    def test_weak_keys(self) -> None:
        """OpenSSL refuses a key that is too short; its words are the reason."""
        self.key_store.write_text(ROOT.issue(key=rsa.generate_private_key(65537, 1024)).pem())
        with self.assertRaisesRegex(ConfigError, "OpenSSL refuses the key or its certificate: .*key too small"):
            self.listening()

    def test_an_endpoint_s_own_key(self) -> None:
        """An endpoint with a key of its own gets the same restrictions, and client authentication."""

        def own() -> SSL.Context:
            context = SSL.Context(SSL.TLS_METHOD)
            context.use_certificate_file(str(self.key_store))
            context.use_privatekey_file(str(self.key_store))
            return context

        tls = ListenerTls("EDGE", endpoint_context=own)
        config = ConfigView.load(set={"ssl.client.auth": "required", "ssl.truststore.location": str(self.trust_store)})
        self.assertTrue(tls.load(config))
        self.assertTrue(tls.load(config), "its files may have changed")
        self.client(tls, self.own(ROOT))
        with self.assertRaisesRegex(Refused, "did not return a certificate"):
            self.client(tls, client_context())


class ServerNameTests(ListenerTlsCase):
    """A PEM file with several keys."""

    def test_chosen_by_name(self) -> None:
        """A client gets the certificate of the host that it asks for, with its chain; otherwise the first."""
        issued = [
            ROOT.issue("CN=first", hosts=("first.test",)),
            MIDDLE.issue("CN=second", hosts=("second.test", "*.wild.test")),
            ROOT.issue("CN=third", hosts=("third.test", "second.test")),
        ]
        self.key_store.write_text("".join(one.pem() for one in issued))
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            tls = self.listening(ssl_client_auth="required")
            for host, name in (
                ("first.test", "first"),
                ("SECOND.test", "second"),
                ("x.wild.test", "second"),
                ("x.y.wild.test", "first"),
                ("wild.test", "first"),
                ("third.test", "third"),
                ("unknown.test", "first"),
                (None, "first"),
            ):
                context = self.own(ROOT)
                context.maximum_version = version
                context.load_verify_locations(cadata=ROOT.pem)
                context.verify_mode = ssl.CERT_REQUIRED
                made = self.client(tls, context, host)
                self.assertEqual(made.say(b"hello"), b"hello")
                certificate = made.tls.getpeercert()
                assert certificate is not None
                self.assertEqual(certificate["subject"], ((("commonName", name),),), host)
            for host in ("first.test", "third.test"):
                with self.assertRaises(Refused):
                    self.client(tls, self.own(STRANGERS), host).say(b"hello")
                with self.assertRaises(Refused):
                    context = client_context()
                    context.maximum_version = ssl.TLSVersion.TLSv1_2
                    self.client(tls, context, host)

    def test_wrong_files(self) -> None:
        """Each key needs a certificate, and the first certificate a key."""
        first, second = ROOT.issue(), ROOT.issue()
        for content, why in (
            (first.pem() + second.key_pem(), "1 of its 2 private keys have no certificate"),
            (ROOT.pem + first.pem() + second.pem(), "first certificate, of CN=Test CA, belongs to none"),
            (first.pem() * 101, "101 private keys"),
        ):
            self.key_store.write_text(content)
            with self.assertRaisesRegex(ConfigError, why):
                self.listening()
