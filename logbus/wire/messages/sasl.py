"""SASL authentication: SaslHandshake (17), SaslAuthenticate (36)."""

from __future__ import annotations

from logbus.wire.schema import Bytes, Int16, Int64, String, field, message


@message(17, versions="0-1", flexible="none")
class SaslHandshakeRequest:
    """
    Choose a mechanism. After version 1 its tokens are sent in SaslAuthenticate requests (KIP-152), after version 0
    bare.
    """

    mechanism: String


@message(17, versions="0-1", flexible="none")
class SaslHandshakeResponse:
    """The response to :class:`SaslHandshakeRequest`, with the supported mechanisms."""

    error_code: Int16 = 0
    mechanisms: list[String]


@message(36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """One token of the client."""

    auth_bytes: Bytes


@message(36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """The server's token; the client must authenticate again within ``session_lifetime_ms`` (KIP-368), 0: never."""

    error_code: Int16 = 0
    error_message: String | None
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = field("1+", default=0, ignorable=True)
