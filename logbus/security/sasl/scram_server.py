"""
The server's side of SCRAM (RFC 5802, RFC 7677; Kafka: ScramSaslServer). Pure.

A user who does not exist gets a made-up salt, the same each time, and fails at the end: like somebody with a wrong
password, at the same cost.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Self

from attrs import define, field, frozen

from logbus.security.sasl.mechanism import Login, SaslAuthenticationError, shown
from logbus.security.sasl.scram_credential import MIN_ITERATIONS, SCRAM_DIGESTS, ScramCredential, salt_text
from logbus.security.sasl.scram_syntax import ClientFinal, ClientFirst, ScramSyntaxError, ServerFirst, base64_text


@frozen
class ScramAccount:
    """An account that can log in: the credential, and the principal of the session."""

    credential: ScramCredential
    login: Login


ScramAccounts = Callable[[str, str, bool], ScramAccount | None]
"""
Finds the account of a mechanism and a user's name; if the third is true, of a mechanism and a delegation token's id.
"""


@frozen
class UnknownUsers:
    """
    Makes up credentials that nobody has.

    :param secret: salts depend on it, so that a client cannot calculate them.
    """

    secret: bytes = field(factory=lambda: secrets.token_bytes(32), repr=False)

    @classmethod
    def of_brokers(cls, secret: bytes) -> Self:
        """
        Return those of all brokers of a cluster: a salt that differed between brokers, or after a restart, would tell
        that there is no such user.

        :param secret: what only brokers know.
        """
        return cls(hmac.digest(secret, b"salts of unknown users", "sha512"))

    def credential(self, mechanism: str, user: str) -> ScramCredential:
        """Return a user's credential, always with the same salt; no password fits it."""
        made_up = hmac.digest(self.secret, f"{mechanism}\0{user}".encode(), "sha512")
        size = hashlib.new(SCRAM_DIGESTS[mechanism]).digest_size
        salt = salt_text(int.from_bytes(made_up, "big") % (1 << 130))
        return ScramCredential(salt, made_up[:size], made_up[-size:], MIN_ITERATIONS)


@define(eq=False)
class ScramServer:
    """
    One login.

    :ivar mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
    :param nonce: the server's; printable, without commas.
    """

    mechanism: str
    _accounts: ScramAccounts = field(repr=False)
    _unknown: UnknownUsers
    _nonce: str = field(factory=lambda: secrets.token_hex(16))
    login: Login | None = field(default=None, init=False)
    _first: ClientFirst | None = field(default=None, init=False)
    _sent: ServerFirst = field(init=False)
    _account: ScramAccount | None = field(default=None, init=False, repr=False)
    _credential: ScramCredential = field(init=False, repr=False)

    def evaluate(self, response: bytes) -> bytes:
        """Take the client's first message, then its last."""
        try:
            return self._begin(response) if self._first is None else self._end(self._first, response)
        except ScramSyntaxError as e:
            raise SaslAuthenticationError(f"{self.mechanism}: {e}") from None

    def _begin(self, response: bytes) -> bytes:
        first = ClientFirst.parse(response)
        if first.authzid and first.authzid != first.user:
            raise SaslAuthenticationError(f"user {shown(first.user)} wants to act as {shown(first.authzid)}")
        made_up = self._unknown.credential(self.mechanism, first.user)
        self._account = self._accounts(self.mechanism, first.user, first.extensions.get("tokenauth") == "true")
        self._credential = made_up if self._account is None else self._account.credential
        self._first = first
        self._sent = ServerFirst.of(first.nonce + self._nonce, self._credential.salt, self._credential.iterations)
        return self._sent.text.encode()

    def _end(self, first: ClientFirst, response: bytes) -> bytes:
        final, known = ClientFinal.parse(response), self._credential
        # As in Kafka, the end is enough, which is ours: librdkafka before 2.2 sends its own part twice.
        if not final.nonce.endswith(self._nonce) or final.binding != base64_text(first.header.encode()):
            raise SaslAuthenticationError(f"user {shown(first.user)} answers with another nonce or channel binding")
        digest = SCRAM_DIGESTS[self.mechanism]
        signed = f"{first.bare},{self._sent.text},{final.unsigned}".encode()
        signature = hmac.digest(known.stored_key, signed, digest)
        fits = False
        if len(final.proof) == len(signature):
            key = bytes(a ^ b for a, b in zip(final.proof, signature, strict=True))
            fits = hmac.compare_digest(hashlib.new(digest, key).digest(), known.stored_key)
        if not fits or self._account is None:
            raise SaslAuthenticationError(f"wrong user or password for user {shown(first.user)}")
        self.login = self._account.login
        return f"v={base64_text(hmac.digest(known.server_key, signed, digest))}".encode()
