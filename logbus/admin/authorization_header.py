"""
Reads the ``Authorization`` of a request: a password (RFC 7617) or a token (RFC 6750). Pure.

Errors quote nothing of it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence

from attrs import field, frozen

from logbus.security.sasl.mechanism import SaslAuthenticationError

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


@frozen
class PasswordCredentials:
    """A user's name and password."""

    user: str
    password: str = field(repr=False)


@frozen
class TokenCredentials:
    """A token of an issuer."""

    token: str = field(repr=False)


def read_authorization(values: Sequence[str]) -> PasswordCredentials | TokenCredentials:
    """
    Read the values of the header.

    :raises SaslAuthenticationError: there are several, or it is of neither form.
    """
    if len(values) != 1:
        raise SaslAuthenticationError(f"{len(values)} Authorization headers")
    scheme, _, given = values[0].strip().partition(" ")
    given = given.strip()
    if scheme.lower() == "bearer":
        if not _TOKEN.fullmatch(given):
            raise SaslAuthenticationError("what follows Bearer is no token")
        return TokenCredentials(given)
    if scheme.lower() != "basic":
        raise SaslAuthenticationError("the Authorization is neither Basic nor Bearer")
    try:
        user, colon, password = base64.b64decode(given, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise SaslAuthenticationError("what follows Basic is not the base64 of UTF-8") from None
    if not (user and colon and password):
        raise SaslAuthenticationError("what follows Basic is not the base64 of user:password")
    return PasswordCredentials(user, password)
