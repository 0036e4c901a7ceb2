"""
The server's credential of a user for SCRAM (RFC 5802), as Kafka stores it (Kafka: ScramCredential,
ScramCredentialUtils). Pure.

It proves nothing to a server by itself; but who has it can try passwords, and be taken for the server.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import Self

from attrs import field, frozen

from logbus.security.sasl.scram_syntax import base64_text

MIN_ITERATIONS, MAX_ITERATIONS = 4096, 1_000_000
"""More iterations would take seconds of a client's processor time."""

SCRAM_DIGESTS: Mapping[str, str] = MappingProxyType({"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"})
"""The hash functions, by mechanism."""

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


@frozen
class ScramCredential:
    """
    A user's credential for one mechanism.

    :ivar salt: of the password; shown to whoever wants to log in.
    :ivar stored_key: checks what the client sends.
    :ivar server_key: proves to the client that the server knows the credential.
    :ivar iterations: of PBKDF2.
    """

    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def make(cls, mechanism: str, password: str, iterations: int = MIN_ITERATIONS, salt: bytes | None = None) -> Self:
        """
        Return the credential of a password.

        :param salt: None: random.
        """
        if salt is None:
            salt = salt_text(secrets.randbits(130))
        return cls.from_salted(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)

    @classmethod
    def from_salted(cls, mechanism: str, salted: bytes, salt: bytes, iterations: int) -> Self:
        """Return the credential of a salted password, which clients send to alter it (KIP-554)."""
        digest = SCRAM_DIGESTS[mechanism]
        stored_key = hashlib.new(digest, client_key(digest, salted)).digest()
        return cls(salt, stored_key, server_key(digest, salted), iterations)

    def fits(self, mechanism: str, password: str) -> bool:
        """Whether it is that of a password. This takes as long as :func:`salted_password`."""
        digest = SCRAM_DIGESTS[mechanism]
        key = client_key(digest, salted_password(mechanism, password, self.salt, self.iterations))
        return hmac.compare_digest(hashlib.new(digest, key).digest(), self.stored_key)

    def encode(self) -> str:
        """Return Kafka's text, as it is stored."""
        return (
            f"salt={base64_text(self.salt)},stored_key={base64_text(self.stored_key)},server_key={base64_text(self.server_key)},"
            f"iterations={self.iterations}"
        )

    @classmethod
    def decode(cls, text: str) -> Self:
        """
        Read Kafka's text.

        :raises ValueError: it is none; the message does not quote it.
        """
        pairs = dict(part.strip().partition("=")[::2] for part in text.split(","))
        try:
            salt, stored, server = (
                base64.b64decode(pairs[name], validate=True) for name in ("salt", "stored_key", "server_key")
            )
            iterations = int(pairs["iterations"])
        except KeyError as e:
            raise ValueError(f"a SCRAM credential without {e.args[0]}") from None
        except (binascii.Error, ValueError):
            raise ValueError("a SCRAM credential whose keys are not base64, or iterations no number") from None
        if not 0 < iterations <= MAX_ITERATIONS:
            raise ValueError(f"a SCRAM credential of {iterations} iterations; there may be 1 to {MAX_ITERATIONS}")
        return cls(salt, stored, server, iterations)


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """
    Return the salted password. This takes milliseconds of processor time, or seconds, by the iterations.

    The password's bytes are taken as they are, without SASLprep, as Kafka does.
    """
    return hashlib.pbkdf2_hmac(SCRAM_DIGESTS[mechanism], password.encode(), salt, iterations)


def client_key(digest: str, salted: bytes) -> bytes:
    """Return the key by which clients prove that they know the password."""
    return hmac.digest(salted, b"Client Key", digest)


def server_key(digest: str, salted: bytes) -> bytes:
    """Return the key by which servers prove that they know the credential."""
    return hmac.digest(salted, b"Server Key", digest)


def salt_text(number: int) -> bytes:
    """Return a salt of a random number of 130 bits: digits of base 36, as Kafka makes it."""
    digits = []
    while number:
        number, digit = divmod(number, 36)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits)).encode() or b"0"
