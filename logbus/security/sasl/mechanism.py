"""The interface of a server's SASL mechanism, and its errors. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from attrs import frozen

from logbus.errors import LogbusError


class SaslAuthenticationError(LogbusError):
    """
    A login failed. The text is for the log: it names the user, but has no secrets. The client learns only that it
    failed.
    """


@frozen
class Login:
    """
    A completed login.

    :ivar user: the name of the principal.
    :ivar expires_ms: when the credential ends, in milliseconds since the epoch; None: never.
    :ivar by_delegation_token: whether the credential was a delegation token (KIP-48).
    """

    user: str
    expires_ms: float | None = None
    by_delegation_token: bool = False


class SaslServer(Protocol):
    """
    The server's side of one login (Java: javax.security.sasl.SaslServer).

    :ivar login: who the client is; None until that is proved.
    """

    login: Login | None

    def evaluate(self, response: bytes) -> bytes:
        """
        Take a message of the client, and return that of the server.

        :raises SaslAuthenticationError: the login failed.
        """


Mechanisms: TypeAlias = Mapping[str, Callable[[], SaslServer]]
"""By name, what begins a login."""


def shown(user: str) -> str:
    """A name as shown in logs: clients choose what it is."""
    return repr(user if len(user) <= 60 else user[:60] + "…")
