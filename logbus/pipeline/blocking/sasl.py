"""
The client side of SASL PLAIN (RFC 4616) and SCRAM (RFC 5802). Pure.

An exchange is a generator: it yields the client's messages and is sent the server's. It returns on success and raises
:class:`~logbus.pipeline.errors.AuthenticationFailed` on failure.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Generator

from logbus.pipeline.errors import AuthenticationFailed

Exchange = Generator[bytes, bytes, None]

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_MAX_ITERATIONS = 1_000_000
"""More iterations would take seconds of processor time."""


def client_exchange(mechanism: str, username: str, password: str, nonce: str) -> Exchange:
    """
    Begin an exchange.

    :param mechanism: one of :data:`logbus.pipeline.blocking.connection_settings.MECHANISMS`.
    :param nonce: random text, for SCRAM: printable, without commas.
    """
    if mechanism == "PLAIN":
        return _plain(username, password)
    return _scram(_HASHES[mechanism], username, password, nonce)


def _plain(username: str, password: str) -> Exchange:
    yield f"\0{username}\0{password}".encode()


def _scram(digest: str, username: str, password: str, nonce: str) -> Exchange:
    name = username.replace("=", "=3D").replace(",", "=2C")
    first_bare = f"n={name},r={nonce}"
    server_first = _text((yield f"n,,{first_bare}".encode()))
    said = _attributes(server_first)
    if "e" in said:
        raise AuthenticationFailed(f"the broker refuses the user {username!r}: {said['e']}")
    server_nonce = said.get("r", "")
    if not server_nonce.startswith(nonce) or server_nonce == nonce:
        raise AuthenticationFailed("the broker violates SCRAM: its nonce does not extend ours")
    salt, iterations = _base64(said.get("s", "")), _iterations(said.get("i", ""))
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = _mac(digest, salted, b"Client Key")
    final_bare = f"c=biws,r={server_nonce}"
    signed = f"{first_bare},{server_first},{final_bare}".encode()
    signature = _mac(digest, hashlib.new(digest, client_key).digest(), signed)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = _text((yield f"{final_bare},p={base64.b64encode(proof).decode()}".encode()))
    said = _attributes(server_final)
    if "e" in said:
        raise AuthenticationFailed(f"the broker refuses the user {username!r}: {said['e']}")
    expected = _mac(digest, _mac(digest, salted, b"Server Key"), signed)
    if not hmac.compare_digest(_base64(said.get("v", "")), expected):
        raise AuthenticationFailed("the broker does not know the password: it may not be the one it seems to be")


def _mac(digest: str, key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, digest).digest()


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("the broker violates SCRAM: its message is not UTF-8") from None


def _attributes(text: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise AuthenticationFailed("the broker violates SCRAM: its message is not base64") from None


def _iterations(text: str) -> int:
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 0 < count <= _MAX_ITERATIONS:
        raise AuthenticationFailed(
            f"the broker asks for {text[:20] or 'no'} iterations of SCRAM; 1 to {_MAX_ITERATIONS} are done here"
        )
    return count
