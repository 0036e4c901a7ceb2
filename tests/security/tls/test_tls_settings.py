"""Tests of :mod:`logbus.security.tls.tls_settings`."""

from __future__ import annotations

from unittest import TestCase

from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.security.tls.tls_settings import TlsSettings, principal_mapper


def settings(*, sasl: bool = False, **given: str) -> TlsSettings:
    """The settings of the listener ``EDGE``; ``_`` stands for a dot."""
    config = ConfigView.load(set={name.replace("_", "."): text for name, text in given.items()})
    return TlsSettings.of(config, "EDGE", sasl=sasl)


class TlsSettingsTests(TestCase):
    def test_a_listener_s_own_keys(self) -> None:
        """A key for the listener alone comes before the one for all, and is named in errors."""
        found = settings(
            ssl_keystore_location="/all.pem",
            listener_name_edge_ssl_keystore_location="/edge.pem",
            ssl_keystore_type="PKCS12",
        )
        self.assertEqual((found.key_store.location, found.key_store.type), ("/edge.pem", "PKCS12"))
        self.assertEqual(found.key_store.names["location"], "listener.name.edge.ssl.keystore.location")
        self.assertEqual(found.key_store.names["type"], "ssl.keystore.type")

    def test_versions_without_suites(self) -> None:
        """As in Java, a version of which no suite is allowed is not spoken."""
        self.assertEqual(settings().versions, {"TLSv1.2", "TLSv1.3"})
        self.assertEqual(settings(ssl_cipher_suites="TLS_AES_128_GCM_SHA256").versions, {"TLSv1.3"})
        self.assertEqual(settings(ssl_enabled_protocols="TLSv1.2").versions, {"TLSv1.2"})
        with self.assertRaisesRegex(ConfigError, "ssl.cipher.suites: none of the suites is of a version"):
            settings(ssl_cipher_suites="TLS_AES_128_GCM_SHA256", ssl_enabled_protocols="TLSv1.2")

    def test_certificates_with_sasl(self) -> None:
        """Who logs in by SASL needs a certificate only if the listener's own key says so (KIP-684)."""
        self.assertEqual(settings(ssl_client_auth="required").client_auth, "required")
        self.assertEqual(settings(ssl_client_auth="required", sasl=True).client_auth, "none")
        own = settings(listener_name_edge_ssl_client_auth="required", sasl=True)
        self.assertEqual(own.client_auth, "required")

    def test_no_secrets(self) -> None:
        """Passwords and keys are not in what is printed."""
        shown = repr(
            settings(ssl_keystore_password="hidden", ssl_key_password="hidden", ssl_keystore_key="hidden"),
        )
        self.assertNotIn("hidden", shown)

    def test_rules(self) -> None:
        """Errors of rules name the listener's key."""
        config = ConfigView.load(set={"listener.name.edge.ssl.principal.mapping.rules": "x"})
        with self.assertRaisesRegex(ConfigError, r"listener\.name\.edge\.ssl\.principal\.mapping\.rules: 'x' is not"):
            principal_mapper(config, "EDGE")
        self.assertEqual(principal_mapper(config, "OTHER").user("CN=a"), "CN=a")
