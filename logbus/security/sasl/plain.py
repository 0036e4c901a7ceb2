"""
SASL PLAIN (RFC 4616): user and password in clear. Pure.

Whether the user or the password was wrong takes the same time, and the client is not told.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping

from logbus.security.sasl.mechanism import Login, SaslAuthenticationError, shown

PLAIN = "PLAIN"

Verifier = Callable[[str, str], bool]
"""Returns whether a user has a password."""


def verifier(passwords: Mapping[str, str]) -> Verifier:
    """Return the check of passwords against those of a table, by user."""
    digests = {user: _digest(password) for user, password in passwords.items()}
    nobody = b"\0" * hashlib.sha256().digest_size

    def verify(user: str, password: str) -> bool:
        return hmac.compare_digest(digests.get(user, nobody), _digest(password))

    return verify


def plain_message(user: str, password: str) -> bytes:
    """Return the message of a client."""
    return f"\0{user}\0{password}".encode()


class PlainServer:
    """The server's side of a login (Kafka: PlainSaslServer)."""

    def __init__(self, verify: Verifier) -> None:
        self.login: Login | None = None
        self._verify = verify

    def evaluate(self, response: bytes) -> bytes:
        """Check the client's only message."""
        try:
            parts = response.decode().split("\0")
        except UnicodeDecodeError:
            raise SaslAuthenticationError("the PLAIN message is not UTF-8") from None
        if len(parts) != 3:
            raise SaslAuthenticationError(f"the PLAIN message has {len(parts)} parts instead of 3")
        authzid, user, password = parts
        if not user or not password:
            raise SaslAuthenticationError(f"the PLAIN message has no {'password' if user else 'user'}")
        if authzid and authzid != user:
            raise SaslAuthenticationError(f"user {shown(user)} wants to act as {shown(authzid)}")
        if not self._verify(user, password):
            raise SaslAuthenticationError(f"wrong user or password for user {shown(user)}")
        self.login = Login(user)
        return b""


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
