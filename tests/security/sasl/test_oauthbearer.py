"""The messages of OAUTHBEARER."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logbus.security.sasl.mechanism import Login, SaslAuthenticationError
from logbus.security.sasl.oauthbearer import OAuthBearerServer, oauthbearer_message


def validate(token: str) -> Login:
    if token != "good":
        raise SaslAuthenticationError("a token that is not valid")
    return Login("alice", 1000.0)


@pytest.mark.parametrize(
    "message",
    [
        oauthbearer_message("good"),
        oauthbearer_message("good", "alice"),
        b"n,,\x01auth=bearer good\x01\x01",
        b"n,,\x01host=server\x01auth=Bearer good\x01traceId=123\x01\x01",
    ],
)
def test_log_in(message: bytes) -> None:
    """The token says who it is; further pairs (KIP-342) do not matter."""
    server = OAuthBearerServer(validate)
    assert server.evaluate(message) == b""
    assert server.login == Login("alice", 1000.0)


def test_a_token_that_is_not_valid() -> None:
    """The client is told by the mechanism's own message; its next one ends the login."""
    server = OAuthBearerServer(validate)
    assert server.evaluate(oauthbearer_message("bad")) == b'{"status":"invalid_token"}'
    for message in (b"\x01", oauthbearer_message("good")):
        with pytest.raises(SaslAuthenticationError, match="not valid"):
            server.evaluate(message)
    assert server.login is None


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "no header"),
        (b"\x01", "no token"),
        (b"p=tls-unique,,\x01auth=Bearer good\x01\x01", "no header"),
        (b"n,,\x01\x01", "no token"),
        (b"n,,\x01auth=Basic good\x01\x01", "no bearer token"),
        (b"n,,\x01auth=Bearer good\x01auth=Bearer good\x01\x01", "several"),
        (b"n,,\x01auth=Bearer good\x01", "no token, or something"),
        (b"n,,\x01auth=Bearer good\x01\x01more", "no token, or something"),
        (b"n,a=bob,\x01auth=Bearer good\x01\x01", "act as 'bob'"),
        (b"n,,\x01auth=Bearer \xff\x01\x01", "UTF-8"),
    ],
)
def test_refused(message: bytes, why: str) -> None:
    """What is refused says why, for the log."""
    server = OAuthBearerServer(validate)
    with pytest.raises(SaslAuthenticationError, match=why):
        server.evaluate(message)
    assert server.login is None


@given(st.binary())
def test_any_bytes(message: bytes) -> None:
    """Whatever a client sends is refused in an orderly way."""
    with pytest.raises(SaslAuthenticationError):
        OAuthBearerServer(validate).evaluate(message)
