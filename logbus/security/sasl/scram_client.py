"""
The client's side of SCRAM (RFC 5802; Kafka: ScramSaslClient). Pure.

An exchange is a generator: it yields the client's messages, and is sent the server's. It returns when the server has
proved that it knows the password.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Generator, Mapping

from logbus.security.sasl.mechanism import SaslAuthenticationError, shown
from logbus.security.sasl.scram_credential import (
    MAX_ITERATIONS,
    SCRAM_DIGESTS,
    client_key,
    salted_password,
    server_key,
)
from logbus.security.sasl.scram_syntax import (
    ScramSyntaxError,
    ServerFirst,
    attributes,
    base64_bytes,
    base64_text,
    escaped,
)

Exchange = Generator[bytes, bytes, None]


def scram_exchange(
    mechanism: str, user: str, password: str, nonce: str, extensions: Mapping[str, str] | None = None
) -> Exchange:
    """
    Begin a login.

    :param nonce: random text: printable, without commas.
    :param extensions: such as ``tokenauth``, for a delegation token (KIP-48).
    :raises SaslAuthenticationError: (while it runs) the server refuses the user, or is not the one it seems to be.
    """
    try:
        yield from _exchange(mechanism, user, password, nonce, extensions or {})
    except ScramSyntaxError as e:
        raise SaslAuthenticationError(f"the broker violates SCRAM: {e}") from None


def _exchange(mechanism: str, user: str, password: str, nonce: str, extensions: Mapping[str, str]) -> Exchange:
    digest = SCRAM_DIGESTS[mechanism]
    more = "".join(f",{name}={value}" for name, value in extensions.items())
    bare = f"n={escaped(user)},r={nonce}{more}"
    answer = yield f"n,,{bare}".encode()
    _check(answer, user)
    first = ServerFirst.parse(answer)
    if not first.nonce.startswith(nonce) or first.nonce == nonce:
        raise ScramSyntaxError("its nonce does not extend ours")
    if not 0 < first.iterations <= MAX_ITERATIONS:
        raise SaslAuthenticationError(
            f"the broker asks for {first.iterations} iterations of SCRAM; 1 to {MAX_ITERATIONS} are done here"
        )
    salted = salted_password(mechanism, password, first.salt, first.iterations)
    key = client_key(digest, salted)
    unsigned = f"c=biws,r={first.nonce}"
    signed = f"{bare},{first.text},{unsigned}".encode()
    signature = hmac.digest(hashlib.new(digest, key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    answer = yield f"{unsigned},p={base64_text(proof)}".encode()
    said = _check(answer, user)
    expected = hmac.digest(server_key(digest, salted), signed, digest)
    if not hmac.compare_digest(base64_bytes(said.get("v", "")), expected):
        raise SaslAuthenticationError("the broker does not know the password: it may not be the one it seems to be")


def _check(answer: bytes, user: str) -> dict[str, str]:
    """Return the attributes of a server's message, unless it is an error."""
    said = attributes(answer.decode(errors="replace"))
    if "e" in said:
        raise SaslAuthenticationError(f"the broker refuses the user {shown(user)}: {said['e']}")
    return said
