"""
A client's mechanism and credentials of SASL, from Kafka's ``sasl.*`` properties. Pure, but for reading a token's file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

from attrs import field, frozen

from logbus.errors import ConfigError
from logbus.security.sasl.jaas import parse_jaas
from logbus.security.sasl.mechanism import SaslAuthenticationError
from logbus.security.sasl.oauthbearer import OAUTHBEARER, oauthbearer_message
from logbus.security.sasl.plain import PLAIN, plain_message
from logbus.security.sasl.scram_client import Exchange, scram_exchange
from logbus.security.sasl.scram_credential import SCRAM_DIGESTS

MECHANISMS = (PLAIN, *SCRAM_DIGESTS, OAUTHBEARER)
"""The mechanisms that a client can use."""

Token = Callable[[], str]
"""Returns a JSON web token for the next login."""

_MODULES = ("PlainLoginModule", "ScramLoginModule", "OAuthBearerLoginModule")
_URL = "sasl.oauthbearer.token.endpoint.url"


@frozen
class ClientLogin:
    """
    The credentials of a client.

    :ivar mechanism: one of :data:`MECHANISMS`.
    :ivar is_token: ``user`` and ``password`` are the id and the HMAC of a delegation token (KIP-48).
    :ivar token: of OAUTHBEARER.
    """

    mechanism: str
    user: str = ""
    password: str = field(default="", repr=False)
    is_token: bool = False
    token: Token | None = field(default=None, repr=False)

    @classmethod
    def of(cls, properties: Mapping[str, str], token: Token | None = None) -> Self:
        """
        Read ``sasl.mechanism``, and the credentials in ``sasl.jaas.config``, in ``sasl.username`` and
        ``sasl.password``, or for OAUTHBEARER in the file that ``sasl.oauthbearer.token.endpoint.url`` names.

        :param token: gives the token for OAUTHBEARER.
        :raise ConfigError: names the key, and what would be right; never shows a secret.
        """
        mechanism = properties.get("sasl.mechanism", "").strip()
        if mechanism not in MECHANISMS:
            given = f"{mechanism}: not a mechanism that is known here" if mechanism else "it is missing"
            raise ConfigError(f"sasl.mechanism: {given}; accepted: {', '.join(MECHANISMS)}")
        if mechanism == OAUTHBEARER:
            return cls(mechanism, token=token or _token_file(properties.get(_URL, "").strip()))
        user, password, is_token = properties.get("sasl.username"), properties.get("sasl.password"), False
        if "sasl.jaas.config" in properties:
            if user is not None or password is not None:
                raise ConfigError("sasl.jaas.config: give it, or sasl.username and sasl.password, not both")
            try:
                entry = parse_jaas(properties["sasl.jaas.config"])
            except ValueError as e:
                raise ConfigError(f"sasl.jaas.config: {e}") from None
            if not entry.module.endswith(_MODULES):
                raise ConfigError(f"sasl.jaas.config: the login module {entry.module} is not known here")
            user, password = entry.options.get("username"), entry.options.get("password")
            is_token = entry.options.get("tokenauth", "").lower() == "true"
        if not user or not password:
            missing = "password" if user else "user"
            raise ConfigError(
                f"{mechanism} needs a user and a password, and the {missing} is missing: give sasl.jaas.config, or "
                "sasl.username and sasl.password"
            )
        return cls(mechanism, user, password, is_token)

    @property
    def principal(self) -> str:
        """Who logs in, such as ``User:alice``."""
        if self.mechanism == OAUTHBEARER:
            return "the owner of the OAUTHBEARER token"
        return f"the owner of delegation token {self.user}" if self.is_token else f"User:{self.user}"

    def exchange(self) -> Exchange:
        """
        Begin a login: a generator that yields the client's messages, and is sent the server's.

        :raises SaslAuthenticationError: (while it runs) the server is not the one it seems to be, or there is no token.
        """
        if self.mechanism == OAUTHBEARER:
            return self._show_token()
        if self.mechanism == PLAIN:
            return _send(plain_message(self.user, self.password))
        extensions = {"tokenauth": "true"} if self.is_token else None
        return scram_exchange(self.mechanism, self.user, self.password, os.urandom(18).hex(), extensions)

    def _show_token(self) -> Exchange:
        assert self.token is not None, "OAUTHBEARER has one"
        try:
            token = self.token()
        except OSError as e:
            raise SaslAuthenticationError(f"the token cannot be read: {e}") from None
        if (yield oauthbearer_message(token)):
            # An error, as JSON. The server ends the login after this message.
            yield b"\x01"

    def __str__(self) -> str:
        return f"{self.mechanism} as {self.user!r}" if self.user else self.mechanism


def _send(message: bytes) -> Exchange:
    yield message


def _token_file(url: str) -> Token:
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc or not parts.path:
        raise ConfigError(
            f"{_URL}: {url or 'it is missing'}: OAUTHBEARER needs a token: file:///path/of/a/file with one, which is "
            "read at each login"
        )
    path = Path(unquote(parts.path))
    return lambda: path.read_text(encoding="ascii").strip()
