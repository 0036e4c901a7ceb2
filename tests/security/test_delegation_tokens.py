"""The secrets of delegation tokens."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from logbus.security.delegation_tokens import token_credential, token_hmac, token_password

SECRET = b"secret"


def test_hmac() -> None:
    """It is Kafka's: HMAC-SHA-512 of the id, whose base64 is the password."""
    code = hmac.new(SECRET, b"id", hashlib.sha512).digest()
    assert token_hmac(SECRET, "id") == code
    assert token_password(code) == base64.b64encode(code).decode()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_credential(mechanism: str) -> None:
    """The password fits, and the salt is the same on all brokers, but another one for each token."""
    credential = token_credential(SECRET, mechanism, "id")
    assert credential.fits(mechanism, token_password(token_hmac(SECRET, "id")))
    assert not credential.fits(mechanism, token_password(token_hmac(SECRET, "other")))
    assert credential == token_credential(SECRET, mechanism, "id")
    assert credential.salt != token_credential(SECRET, mechanism, "other").salt
