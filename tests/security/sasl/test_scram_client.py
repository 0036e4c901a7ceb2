"""SCRAM: what the client's side refuses."""

from __future__ import annotations

import pytest

from logbus.security.sasl.mechanism import SaslAuthenticationError
from logbus.security.sasl.scram_client import scram_exchange


def test_rfc_7677() -> None:
    """The example of RFC 7677, byte by byte."""
    exchange = scram_exchange("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.send(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    ).endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    with pytest.raises(StopIteration):
        exchange.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"e=unknown-user", "unknown-user"),
        (b"r=other,s=YQ==,i=4096", "nonce"),
        (b"r=abc,s=YQ==,i=4096", "nonce"),
        (b"r=abcx,s=YQ==,i=0", "0 iterations"),
        (b"r=abcx,s=YQ==,i=9999999", "9999999 iterations"),
        (b"r=abcx,s=YQ==,i=x", "iterations"),
        (b"\xff", "UTF-8"),
    ],
)
def test_refused_first_messages(answer: bytes, why: str) -> None:
    """A broker that breaks the rules, or asks for too much work, is not answered."""
    exchange = scram_exchange("SCRAM-SHA-256", "user", "pencil", "abc")
    next(exchange)
    with pytest.raises(SaslAuthenticationError, match=why):
        exchange.send(answer)


def test_a_server_that_does_not_know_the_password() -> None:
    """A server must prove that it knows the credential."""
    exchange = scram_exchange("SCRAM-SHA-256", "user", "pencil", "abc")
    next(exchange)
    exchange.send(b"r=abcx,s=YQ==,i=4096")
    with pytest.raises(SaslAuthenticationError, match="does not know the password"):
        exchange.send(b"v=YQ==")
