"""
SASL OAUTHBEARER (RFC 7628): the client shows a token that somebody else has issued. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from logbus.security.sasl.mechanism import Login, SaslAuthenticationError, shown

OAUTHBEARER = "OAUTHBEARER"

TokenValidator = Callable[[str], Login]
"""Returns who has a token; raises SaslAuthenticationError for one that is not valid."""

_HEADER = re.compile(r"[ny],(?:a=(?P<authzid>[^,\x01]+))?,\x01")
_PAIR = re.compile(r"(?P<key>[A-Za-z]+)=(?P<value>[\x21-\x7e \t\r\n]*)\x01")
_BEARER = re.compile(r"bearer +(?P<token>[A-Za-z0-9\-._~+/]+=*)", re.IGNORECASE)
_REFUSED = b'{"status":"invalid_token"}'
_ABORT = b"\x01"


def oauthbearer_message(token: str, authzid: str = "") -> bytes:
    """Return the message of a client."""
    acting_as = f"a={authzid}" if authzid else ""
    return f"n,{acting_as},\x01auth=Bearer {token}\x01\x01".encode()


class OAuthBearerServer:
    """
    The server's side of a login (Kafka: OAuthBearerSaslServer).

    A token that is not valid is answered by a message of the mechanism's own; the login fails with the client's next
    message.
    """

    def __init__(self, validate: TokenValidator) -> None:
        self.login: Login | None = None
        self._validate = validate
        self._refused: SaslAuthenticationError | None = None

    def evaluate(self, response: bytes) -> bytes:
        """Check the token."""
        if self._refused is not None:
            raise self._refused
        authzid, token = _parse(response)
        try:
            login = self._validate(token)
        except SaslAuthenticationError as e:
            self._refused = e
            return _REFUSED
        if authzid and authzid != login.user:
            raise SaslAuthenticationError(f"user {shown(login.user)} wants to act as {shown(authzid)}")
        self.login = login
        return b""


def _parse(response: bytes) -> tuple[str, str]:
    """Return whom the client wants to act as, and its token."""
    if response == _ABORT:
        raise SaslAuthenticationError("the client has no token")
    try:
        text = response.decode()
    except UnicodeDecodeError:
        raise SaslAuthenticationError("the OAUTHBEARER message is not UTF-8") from None
    header = _HEADER.match(text)
    if header is None:
        raise SaslAuthenticationError("the OAUTHBEARER message has no header")
    pos, token = header.end(), None
    while pair := _PAIR.match(text, pos):
        pos = pair.end()
        if pair["key"].lower() == "auth":
            bearer = _BEARER.fullmatch(pair["value"])
            if bearer is None or token is not None:
                raise SaslAuthenticationError("the OAUTHBEARER message has no bearer token, or several")
            token = bearer["token"]
    if text[pos:] != "\x01" or token is None:
        raise SaslAuthenticationError("the OAUTHBEARER message has no token, or something after its end")
    return header["authzid"] or "", token
