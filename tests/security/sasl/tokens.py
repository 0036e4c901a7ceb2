"""An issuer of JSON web tokens."""

from __future__ import annotations

import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

ISSUER, AUDIENCE = "https://issuer.example", "logbus"


class Issuer:
    """Signs tokens by a key of its own."""

    def __init__(self, kid: str = "key-1", algorithm: str = "ES256") -> None:
        self.kid, self.algorithm = kid, algorithm
        self.key: Any
        if algorithm.startswith("ES"):
            self.key = ec.generate_private_key(ec.SECP256R1())
        else:
            self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def jwks(self) -> bytes:
        """The public key, as a set."""
        kind: Any = jwt.algorithms.ECAlgorithm if self.algorithm.startswith("ES") else jwt.algorithms.RSAAlgorithm
        public = kind.to_jwk(self.key.public_key(), as_dict=True)
        return json.dumps({"keys": [{**public, "kid": self.kid, "use": "sig", "alg": self.algorithm}]}).encode()

    def token(self, *, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token; a claim of None is left out."""
        said = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 3600, **claims}
        kept = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(kept, self.key, self.algorithm, headers={"kid": self.kid, **(headers or {})})
