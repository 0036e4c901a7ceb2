"""Tests of :mod:`logbus.admin.authorization_header`."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.authorization_header import PasswordCredentials, TokenCredentials, read_authorization
from logbus.security.sasl.mechanism import SaslAuthenticationError

NAMES = st.text(st.characters(exclude_characters=":", exclude_categories=["Cs"]), min_size=1)
PASSWORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def basic(text: bytes) -> str:
    return "Basic " + base64.b64encode(text).decode()


class ReadAuthorizationTests(SynchronousTestCase):
    """The header's two forms, and all others."""

    @given(NAMES, PASSWORDS)
    def test_password(self, user: str, password: str) -> None:
        """Any user and password come through; only a name cannot have a colon."""
        found = read_authorization([basic(f"{user}:{password}".encode())])
        self.assertEqual(found, PasswordCredentials(user, password))
        self.assertEqual(repr(found), f"PasswordCredentials(user={user!r})")

    def test_schemes(self) -> None:
        """The scheme is any case, as RFC 9110 says."""
        self.assertEqual(read_authorization(["bearer  a.b-c_d=="]), TokenCredentials("a.b-c_d=="))
        self.assertEqual(read_authorization(["BASIC YTpi"]), PasswordCredentials("a", "b"))
        self.assertEqual(repr(TokenCredentials("secret")), "TokenCredentials()")

    def test_wrong(self) -> None:
        """All else is a login that fails, whose reason quotes nothing."""
        for values in (
            ["Basic YTpi", "Basic YTpi"],
            [""],
            ["Basic"],
            ["Basic hunter2"],
            ["Basic aHVudGVyMg=="],
            [basic(b":hunter2")],
            [basic(b"hunter2:")],
            [basic(b"hunter2\xff:x")],
            ["Bearer"],
            ["Bearer hunter2 hunter2"],
            ["Digest hunter2"],
            ["hunter2"],
        ):
            error = self.assertRaises(SaslAuthenticationError, read_authorization, values)
            self.assertNotIn("hunter2", str(error))

    @given(st.text(st.characters(max_codepoint=255)))
    def test_anything(self, text: str) -> None:
        """Whatever the header says is read, or a login that fails."""
        try:
            read_authorization([text])
        except SaslAuthenticationError:
            pass
