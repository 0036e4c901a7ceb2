"""JSON web tokens."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import jwt
import pytest

from logbus.errors import ConfigError
from logbus.security.sasl.jwt_validator import JwtRules, UnknownKey, parse_keys, validate
from logbus.security.sasl.mechanism import SaslAuthenticationError
from tests.security.sasl.tokens import AUDIENCE, ISSUER, Issuer

RULES = JwtRules(ISSUER, (AUDIENCE, "other"))
EC, RSA = Issuer(), Issuer("key-2", "RS256")


@pytest.mark.parametrize("issuer", [EC, RSA])
def test_a_valid_token(issuer: Issuer) -> None:
    """A token says who has it, and until when."""
    ends = int(time.time()) + 60
    login = validate(issuer.token(exp=ends, scope="read write"), parse_keys(issuer.jwks), RULES)
    assert (login.user, login.expires_ms) == ("alice", ends * 1000)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": 1}, "expired"),
        ({"exp": None}, "exp"),
        ({"nbf": int(time.time()) + 3600}, "not yet valid"),
        ({"iss": "https://other.example"}, "ssuer"),
        ({"iss": None}, "iss"),
        ({"aud": "elsewhere"}, "udience"),
        ({"aud": None}, "aud"),
        ({"sub": None}, "sub"),
        ({"sub": ""}, "no name"),
        ({"scope": 5}, "scope"),
    ],
)
def test_claims_that_do_not_fit(claims: dict[str, Any], why: str) -> None:
    """Each claim is checked, and must be there."""
    with pytest.raises(SaslAuthenticationError, match=why):
        validate(EC.token(**claims), parse_keys(EC.jwks), RULES)


def test_other_claim_names() -> None:
    """The claim that names the user is configured."""
    rules = JwtRules(ISSUER, (AUDIENCE,), user_claim="email")
    assert validate(EC.token(email="alice@example"), parse_keys(EC.jwks), rules).user == "alice@example"
    with pytest.raises(SaslAuthenticationError, match="email"):
        validate(EC.token(), parse_keys(EC.jwks), rules)


def test_skew() -> None:
    """Clocks may differ by the skew."""
    token = EC.token(exp=int(time.time()) - 600)
    assert validate(token, parse_keys(EC.jwks), JwtRules(ISSUER, (AUDIENCE,), skew_seconds=100_000)).user == "alice"


def test_algorithms() -> None:
    """No signature, and one that everybody can make who can check it, are refused; so is a signature by another."""
    keys = parse_keys(EC.jwks)
    claims = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 60}
    symmetric = jwt.encode(claims, "s" * 32, "HS256", headers={"kid": EC.kid})
    unsigned = jwt.encode(claims, None, "none", headers={"kid": EC.kid})
    for token, name in ((symmetric, "HS256"), (unsigned, "none")):
        with pytest.raises(SaslAuthenticationError, match=f"signed by '{name}'"):
            validate(token, keys, RULES)
    for forged in (Issuer().token(), Issuer(algorithm="RS256").token()):
        with pytest.raises(SaslAuthenticationError):
            validate(forged, keys, RULES)


def test_another_key() -> None:
    """A key that is not known is told from other errors, as the issuer may have a new one."""
    with pytest.raises(UnknownKey, match="key-9"):
        validate(Issuer("key-9").token(), parse_keys(EC.jwks), RULES)


def test_no_token() -> None:
    """Text that is no token is refused."""
    for text in ("", "a.b.c", "a" * 5000, base64.b64encode(b"{}").decode() + "..", "🔑"):
        with pytest.raises(SaslAuthenticationError):
            validate(text, parse_keys(EC.jwks), RULES)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"keys": []}',
        json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}]}).encode(),
        b" " * (1 << 20) + b"{}",
    ],
)
def test_no_keys(text: bytes) -> None:
    """A set without a key that can be used is an error."""
    with pytest.raises(ConfigError, match="set"):
        parse_keys(text)
