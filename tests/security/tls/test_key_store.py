"""Tests of :mod:`logbus.security.tls.key_store`."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import TestCase

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from logbus.errors import ConfigError
from logbus.security.tls.key_store import KeyPair, load_key_pair, load_trusted, read_store
from logbus.security.tls.tls_settings import StoreSettings
from tests.certificates import Authority

ROOT = Authority.new()
MIDDLE = Authority.new("CN=Middle", ROOT)
SERVER = MIDDLE.issue()

FIELDS = {
    "type": "ssl.keystore.type",
    "location": "ssl.keystore.location",
    "password": "ssl.keystore.password",
    "certificates": "ssl.keystore.certificate.chain",
    "key": "ssl.keystore.key",
    "key_password": "ssl.key.password",
}
NAMES_OF_TRUST = {
    "type": "ssl.truststore.type",
    "location": "ssl.truststore.location",
    "password": "ssl.truststore.password",
    "certificates": "ssl.truststore.certificates",
}


class KeyStoreCase(TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name) / "store"

    def store(
        self,
        content: str | bytes | None = None,
        type: str = "PEM",
        password: str | None = None,
        certificates: str | None = None,
        key: str | None = None,
        key_password: str | None = None,
        names: dict[str, str] = FIELDS,
    ) -> StoreSettings:
        """Settings of a store, whose file has this content."""
        if content is not None:
            self.path.write_bytes(content if isinstance(content, bytes) else content.encode())
        location = None if content is None else str(self.path)
        return StoreSettings(names, type, location, password, certificates, key, key_password)

    def loaded(self, settings: StoreSettings) -> KeyPair:
        return load_key_pair(settings, read_store(settings).content)

    def assert_server(self, settings: StoreSettings) -> None:
        """The key store has the server's key and chain."""
        pair = self.loaded(settings)
        self.assertEqual(pair.key.private_numbers(), SERVER.key.private_numbers())
        self.assertEqual((pair.certificate, pair.chain), (SERVER.certificate, (MIDDLE.issued.certificate,)))


class KeyPairTests(KeyStoreCase):
    def test_pem(self) -> None:
        """A PEM file has the key and the certificates, in either order."""
        self.assert_server(self.store(SERVER.pem()))
        self.assert_server(self.store("words before\n" + SERVER.chain_pem + SERVER.key_pem()))
        self.assert_server(self.store(SERVER.pem("secret"), key_password="secret"))
        self.assert_server(self.store(SERVER.pem(), key_password="not needed"))

    def test_texts(self) -> None:
        """Key and certificates may be in the configuration, each on one line."""
        for change in (str, lambda text: text.replace("\n", " ").strip()):
            key, chain = change(SERVER.key_pem("secret")), change(SERVER.chain_pem)
            self.assert_server(self.store(key=key, certificates=chain, key_password="secret"))

    def test_pkcs12(self) -> None:
        """A PKCS12 file, by its password."""
        self.assert_server(self.store(SERVER.pkcs12("secret"), "PKCS12", "secret"))

    def test_old_rsa_keys(self) -> None:
        """Keys in OpenSSL's old format work, encrypted or not."""
        key = rsa.generate_private_key(65537, 2048)
        issued = ROOT.issue(key=key)
        old = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"pw")).decode()
        self.assertIn("Proc-Type", old)
        self.assertEqual(
            self.loaded(self.store(old + issued.chain_pem, key_password="pw")).certificate, issued.certificate
        )

    def test_errors(self) -> None:
        """Each error names the key of the configuration, and nothing secret."""
        key, chain, wrong_key = SERVER.key_pem(), SERVER.chain_pem, SERVER.pem().replace("MI", "XX", 1)
        where = f"ssl.keystore.location: {self.path}"
        for given, words in (
            ((key,), f"{where}: it has no PEM certificates"),
            ((chain,), f"{where}: it has no PEM private key"),
            ((key + MIDDLE.issue().chain_pem,), f"{where}: the private key does not belong to the certificate of CN="),
            ((key + ROOT.pem + chain,), "the key's own certificate must be the first"),
            ((SERVER.pem("pw"),), "is encrypted; set ssl.key.password"),
            ((SERVER.pem("pw"), "PEM", None, None, None, "hidden"), "ssl.key.password is wrong"),
            ((wrong_key,), "the private key cannot be read"),
            ((key + chain.replace("MI", "XX", 1),), "certificate 1 cannot be read"),
            ((SERVER.pkcs12("pw"), "PKCS12", "hidden"), "ssl.keystore.password is wrong"),
            ((SERVER.pkcs12("pw"), "PKCS12"), "ssl.keystore.password is missing"),
            ((ROOT.pkcs12("pw"), "PKCS12", "pw"), "no private key with a certificate"),
            ((SERVER.pkcs12("pw"),), "is not PEM; if it is PKCS12, set ssl.keystore.type=PKCS12"),
            ((SERVER.pem(), "PKCS12", "pw"), "is PEM, but ssl.keystore.type is PKCS12"),
            ((b"\xfe\xed\xfe\xed\0\0\0\2",), "use PEM or PKCS12"),
            ((None, "PEM", None, None, key), "ssl.keystore.certificate.chain is missing"),
            ((None, "PEM", None, chain, None), "ssl.keystore.key is missing"),
            ((None, "PEM", None, chain, SERVER.key_pem("pw"), "hidden"), "ssl.keystore.key: the private key cannot be"),
        ):
            with self.subTest(words), self.assertRaises(ConfigError) as caught:
                self.loaded(self.store(*given))
            self.assertIn(words, str(caught.exception))
            self.assertNotIn("hidden", str(caught.exception))

    def test_missing_file(self) -> None:
        """A file that is not there is named with its key."""
        settings = self.store("")
        self.path.unlink()
        with self.assertRaisesRegex(ConfigError, f"ssl.keystore.location: {self.path} cannot be read: No such file"):
            read_store(settings)

    def test_warnings(self) -> None:
        """Expired certificates are named."""
        now = datetime.now(UTC)
        pair = self.loaded(self.store(ROOT.issue("CN=old", days=-1).pem()))
        (said,) = pair.warnings(now)
        self.assertIn("the certificate of CN=old expired on", said)
        (said,) = pair.warnings(now - timedelta(days=100))
        self.assertIn("is not valid before", said)

    def test_digest(self) -> None:
        """The digest tells whether anything has changed."""
        first = read_store(self.store(SERVER.pem())).digest
        self.assertEqual(first, read_store(self.store(SERVER.pem())).digest)
        self.assertNotEqual(first, read_store(self.store(SERVER.pem() + "\n")).digest)
        self.assertNotEqual(first, read_store(self.store(SERVER.pem(), key_password="x")).digest)


class TrustStoreTests(KeyStoreCase):
    def trusted(self, settings: StoreSettings) -> list[str]:
        return [one.subject.rfc4514_string() for one in load_trusted(settings, read_store(settings).content)]

    def test_formats(self) -> None:
        """PEM files, PKCS12 files and texts."""
        both = ROOT.pem + MIDDLE.pem
        self.assertEqual(self.trusted(self.store(both, names=NAMES_OF_TRUST)), ["CN=Test CA", "CN=Middle"])
        self.assertEqual(self.trusted(self.store(certificates=both, names=NAMES_OF_TRUST)), ["CN=Test CA", "CN=Middle"])
        pkcs12 = self.store(ROOT.pkcs12("pw"), "PKCS12", "pw", names=NAMES_OF_TRUST)
        self.assertEqual(self.trusted(pkcs12), ["CN=Test CA"])

    def test_errors(self) -> None:
        """A store without certificates, and a wrong password."""
        for content, type, password, words in (
            ("-----BEGIN nothing", "PEM", None, "has no PEM certificates"),
            (ROOT.pkcs12("pw"), "PKCS12", "x", "ssl.truststore.password is wrong"),
        ):
            with self.subTest(words), self.assertRaisesRegex(ConfigError, words):
                self.trusted(self.store(content, type, password, names=NAMES_OF_TRUST))
