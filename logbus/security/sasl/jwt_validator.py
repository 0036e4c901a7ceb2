"""
Checks JSON web tokens (RFC 7519) of an issuer (Kafka: BrokerJwtValidator). Pure; needs PyJWT with cryptography.

Only signatures by a private key count: with a symmetric algorithm everybody who can check a token could make one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jwt
from attrs import frozen

from logbus.errors import ConfigError
from logbus.security.sasl.mechanism import Login, SaslAuthenticationError

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
MAX_KEYS = 100
MAX_KEYS_BYTES = 1 << 20
_MAX_NAME = 1024

JwtKeys = Mapping[str | None, jwt.PyJWK]
"""The keys of an issuer, by ``kid``."""


def parse_keys(text: bytes) -> dict[str | None, jwt.PyJWK]:
    """
    Read a set of keys (RFC 7517); those for other purposes are left out.

    :raises ConfigError: there is none that can be used.
    """
    if len(text) > MAX_KEYS_BYTES:
        raise ConfigError(f"a set of keys of {len(text)} bytes; at most {MAX_KEYS_BYTES} are read")
    try:
        keys = jwt.PyJWKSet.from_json(text.decode()).keys
    except (jwt.PyJWTError, ValueError, AttributeError, TypeError) as e:
        raise ConfigError(f"no set of keys (JWKS): {e}") from None
    found = {
        key.key_id: key
        for key in keys
        if key.key_type in ("RSA", "EC") and key.public_key_use in (None, "sig") and key.algorithm_name in ALGORITHMS
    }
    if not found or len(found) > MAX_KEYS:
        raise ConfigError(f"a set with {len(found)} keys for signatures by RSA or ECDSA; there may be 1 to {MAX_KEYS}")
    return found


@frozen
class JwtRules:
    """
    The claims that a token must have.

    :ivar issuer: its ``iss``.
    :ivar audiences: its ``aud`` must have one of them.
    :ivar skew_seconds: by which the issuer's clock may differ.
    :ivar user_claim: names the claim that has the user's name.
    :ivar scope_claim: names the claim that has the scope: if it is there, it must be text, or a list of it.
    """

    issuer: str
    audiences: Sequence[str]
    skew_seconds: int = 30
    user_claim: str = "sub"
    scope_claim: str = "scope"


class UnknownKey(SaslAuthenticationError):
    """A token is signed by a key that is not known: the issuer may have a new one."""


def validate(token: str, keys: JwtKeys, rules: JwtRules) -> Login:
    """
    Return who has a token.

    :raises SaslAuthenticationError: it is not valid.
    """
    try:
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            raise SaslAuthenticationError(
                f"a token signed by {str(algorithm)[:20]!r}; {', '.join(ALGORITHMS)} are taken"
            )
        kid = header.get("kid")
        key = keys.get(kid) if kid is not None or len(keys) != 1 else next(iter(keys.values()))
        if key is None:
            raise UnknownKey(f"a token signed by the key {str(kid)[:60]!r}, which is none of the issuer's")
        claims: dict[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=[algorithm],
            audience=list(rules.audiences),
            issuer=rules.issuer,
            leeway=rules.skew_seconds,
            options={"require": ["exp", "iss", "aud", rules.user_claim]},
        )
    except (jwt.PyJWTError, ValueError, TypeError) as e:
        raise SaslAuthenticationError(f"a token that is not valid: {str(e)[:200]}") from None
    user, scope = claims[rules.user_claim], claims.get(rules.scope_claim, "")
    if not isinstance(user, str) or not 0 < len(user) <= _MAX_NAME:
        raise SaslAuthenticationError(f"a token whose {rules.user_claim} is no name")
    if not isinstance(scope, str) and not (isinstance(scope, list) and all(isinstance(one, str) for one in scope)):
        raise SaslAuthenticationError(f"a token whose {rules.scope_claim} is neither text nor a list of it")
    return Login(user, float(claims["exp"]) * 1000)
