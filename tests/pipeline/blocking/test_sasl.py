"""Tests SASL against the examples in the RFCs."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.pipeline.blocking.sasl import client_exchange
from logbus.pipeline.errors import AuthenticationFailed

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


class SaslTests(SynchronousTestCase):
    """The client's side of conversations."""

    def test_plain(self) -> None:
        """User and password, in UTF-8 (RFC 4616)."""
        words = client_exchange("PLAIN", "tim", "tanstaafträ", "")
        self.assertEqual(next(words), "\0tim\0tanstaafträ".encode())
        with self.assertRaises(StopIteration):
            words.send(b"")

    def test_token(self) -> None:
        """A token is shown; an error of the server is answered, as RFC 7628 demands, and is the reason."""
        words = client_exchange("OAUTHBEARER", "", "abc", "")
        self.assertEqual(next(words), b"n,,\x01auth=Bearer abc\x01\x01")
        with self.assertRaises(StopIteration):
            words.send(b"")
        words = client_exchange("OAUTHBEARER", "", "abc", "")
        next(words)
        self.assertEqual(words.send(b'{"status":"invalid_token"}'), b"\x01")
        with self.assertRaisesRegex(AuthenticationFailed, "invalid_token"):
            words.send(b"")

    def test_scram(self) -> None:
        """The conversation of RFC 7677, section 3."""
        words = client_exchange("SCRAM-SHA-256", "user", "pencil", NONCE)
        self.assertEqual(next(words), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
        self.assertEqual(
            words.send(SERVER_FIRST),
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        )
        with self.assertRaises(StopIteration):
            words.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")

    def test_names_are_escaped(self) -> None:
        """Commas and equal signs mean something else between the words."""
        self.assertEqual(next(client_exchange("SCRAM-SHA-512", "a=b,c", "p", "n")), b"n,,n=a=3Db=2Cc,r=n")

    def test_server_without_the_password(self) -> None:
        """It is not the one it seems to be: nothing more is told to it."""
        for final in (b"v=" + base64.b64encode(b"x" * 32), b"v=", b"", b"v=?", b"\xff", b"e=invalid-proof"):
            words = client_exchange("SCRAM-SHA-256", "user", "pencil", NONCE)
            next(words)
            words.send(SERVER_FIRST)
            with self.assertRaises(AuthenticationFailed):
                words.send(final)

    def test_server_that_breaks_the_protocol(self) -> None:
        """Another nonce, ours alone, no salt that can be read, work for hours, and what is no text."""
        for first in (
            SERVER_FIRST.replace(b"r=rO", b"r=Or"),
            b"r=%b,s=YQ==,i=4096" % NONCE.encode(),
            SERVER_FIRST.replace(b"W22", b"?"),
            SERVER_FIRST.replace(b"4096", b"999999999"),
            SERVER_FIRST.replace(b"4096", b"0"),
            b"e=unknown-user",
            b"\xff\xfe",
            b"",
        ):
            words = client_exchange("SCRAM-SHA-256", "user", "pencil", NONCE)
            next(words)
            with self.assertRaises(AuthenticationFailed):
                words.send(first)

    @given(st.binary(max_size=60), st.binary(max_size=60))
    def test_arbitrary_server_messages(self, first: bytes, final: bytes) -> None:
        """No words of a server are enough without the password, and none raise anything else."""
        words = client_exchange("SCRAM-SHA-512", "user", "pencil", NONCE)
        next(words)
        with self.assertRaises(AuthenticationFailed):
            words.send(first)
            words.send(final)
