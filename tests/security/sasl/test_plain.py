"""SASL PLAIN."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logbus.security.sasl.mechanism import Login, SaslAuthenticationError
from logbus.security.sasl.plain import PlainServer, plain_message, verifier

WORDS = st.text(min_size=1).filter(lambda text: "\0" not in text)


@given(WORDS, WORDS)
def test_log_in(user: str, password: str) -> None:
    """Any user with any password logs in."""
    server = PlainServer(verifier({user: password}))
    assert server.evaluate(plain_message(user, password)) == b""
    assert server.login == Login(user)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "1 parts"),
        (b"\0a\0b\0c", "4 parts"),
        (b"\0\0secret", "no user"),
        (b"\0alice\0", "no password"),
        (b"bob\0alice\0secret", "act as 'bob'"),
        (b"\0alice\0wrong", "wrong user or password"),
        (b"\0bob\0secret", "wrong user or password"),
        (b"\0alice\0\xff", "UTF-8"),
    ],
)
def test_refused(message: bytes, why: str) -> None:
    """What is refused says why, for the log, without the password."""
    server = PlainServer(verifier({"alice": "secret"}))
    with pytest.raises(SaslAuthenticationError, match=why) as caught:
        server.evaluate(message)
    assert server.login is None
    assert "secret" not in str(caught.value)


def test_authzid() -> None:
    """The identity to act as may be there, if it is the user's own."""
    server = PlainServer(verifier({"alice": "secret"}))
    server.evaluate(b"alice\0alice\0secret")
    assert server.login == Login("alice")
