"""Tests of :mod:`logbus.security.tls.cipher_suites`."""

from __future__ import annotations

import ssl
from unittest import TestCase

from logbus.errors import ConfigError
from logbus.security.tls.cipher_suites import DEFAULT_TLS12, TLS13, CipherSuites


class CipherSuitesTests(TestCase):
    def test_defaults(self) -> None:
        """By default there are suites of both versions, with forward secrecy and authenticated encryption."""
        self.assertEqual(CipherSuites.parse(()), (DEFAULT_TLS12, TLS13))
        for name in DEFAULT_TLS12:
            self.assertRegex(name, "^ECDHE-.*(GCM|POLY1305)")

    def test_names_of_java(self) -> None:
        """A file of Kafka's has the names of the RFCs."""
        suites = CipherSuites.parse(
            [
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
                "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384",
                "ECDHE-RSA-AES128-GCM-SHA256",
                "TLS_AES_128_GCM_SHA256",
            ]
        )
        tls12 = ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-AES256-SHA384")
        self.assertEqual(suites, (tls12, ("TLS_AES_128_GCM_SHA256",)))

    def test_weak_suites(self) -> None:
        """A suite without forward secrecy is refused by its name, like one that does not exist."""
        for name in ("AES128-SHA", "TLS_RSA_WITH_AES_128_CBC_SHA", "NULL-SHA256", "ADH-AES128-SHA", "HIGH", "nonsense"):
            with self.subTest(name), self.assertRaisesRegex(ConfigError, f"key: {name}: not a suite with forward"):
                CipherSuites.parse(["ECDHE-RSA-AES128-GCM-SHA256", name], "key")

    def test_openssl_knows_them(self) -> None:
        """OpenSSL knows all of the default names."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_ciphers(":".join(DEFAULT_TLS12))
        self.assertLessEqual(set(DEFAULT_TLS12), {one["name"] for one in context.get_ciphers()})
