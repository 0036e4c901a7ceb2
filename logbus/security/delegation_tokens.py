"""The secrets of delegation tokens (KIP-48; Kafka: DelegationTokenManager). Pure."""

from __future__ import annotations

import base64
import hmac

from logbus.security.sasl.scram_credential import ScramCredential, salt_text


def token_hmac(secret: bytes, token_id: str) -> bytes:
    """
    The HMAC of a token; in base64 it is the password.

    :param secret: ``delegation.token.secret.key``.
    """
    return hmac.digest(secret, token_id.encode(), "sha512")


def token_password(code: bytes) -> str:
    """The password with which a client logs in, given the HMAC."""
    return base64.b64encode(code).decode()


def token_credential(secret: bytes, mechanism: str, token_id: str) -> ScramCredential:
    """
    The credential of a token for a mechanism of SCRAM. This takes milliseconds.

    Its salt is the same on all brokers, and after a restart.
    """
    salt = hmac.digest(secret, f"salt\0{mechanism}\0{token_id}".encode(), "sha512")
    return ScramCredential.make(
        mechanism,
        token_password(token_hmac(secret, token_id)),
        salt=salt_text(int.from_bytes(salt, "big") % (1 << 130)),
    )
