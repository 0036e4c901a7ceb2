"""Tests of :mod:`logbus.security.tls.tls_errors`: what the ends of a connection say about a failed handshake."""

from __future__ import annotations

from OpenSSL import SSL
from service_identity import VerificationError
from twisted.trial.unittest import SynchronousTestCase

from logbus.security.tls.tls_errors import describe_tls_error, is_tls_error


def described(words: str) -> str:
    return describe_tls_error(SSL.Error([("SSL routines", "", words)]))


class WordsTests(SynchronousTestCase):
    def test_meanings(self) -> None:
        """OpenSSL's words for what people meet come with what they mean."""
        for words, meaning in (
            ("wrong version number", "the other side does not speak TLS"),
            ("http request", "the other side speaks HTTP"),
            ("tlsv1 alert unknown ca", "ssl.keystore.location, whose authority it does not trust"),
            ("tls alert bad certificate", "of another host"),
            ("ssl/tls alert certificate unknown", "or which is of another host"),
            ("tlsv13 alert certificate required", "demands a certificate"),
            ("peer did not return a certificate", "which ssl.client.auth demands"),
        ):
            self.assertIn(meaning, described(words))
            self.assertTrue(described(words).endswith(f" ({words})"))

    def test_others(self) -> None:
        """Other words stay as they are; a chain that cannot be verified is a matter of the trust store."""
        self.assertEqual(described("no shared cipher"), "no shared cipher")
        unverified = "certificate verify failed"
        self.assertEqual(described(unverified), f"{unverified}; see ssl.truststore.location")

    def test_host(self) -> None:
        """A certificate of another host is told apart, and errors of something else are."""
        wrong = VerificationError([])
        self.assertTrue(is_tls_error(wrong))
        self.assertIn("not of the host connected to", describe_tls_error(wrong))
        self.assertFalse(is_tls_error(OSError()))
        self.assertFalse(is_tls_error(None))
