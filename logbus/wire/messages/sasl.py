"""Who is asking: SaslHandshake (17), SaslAuthenticate (36)."""

from __future__ import annotations

from logbus.wire.schema import Bytes, Int16, Int64, String, field, message


@message(17, versions="0-1", flexible="none")
class SaslHandshakeRequest:
    """Choose a mechanism. After version 1 its words go in SaslAuthenticate requests (KIP-152), after 0 bare."""

    mechanism: String


@message(17, versions="0-1", flexible="none")
class SaslHandshakeResponse:
    """The answer to :class:`SaslHandshakeRequest`, with the mechanisms that there are."""

    error_code: Int16 = 0
    mechanisms: list[String]


@message(36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """One word of the client in the mechanism's conversation."""

    auth_bytes: Bytes


@message(36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """The server's word; after ``session_lifetime_ms`` it wants to hear the client's again (KIP-368), 0: never."""

    error_code: Int16 = 0
    error_message: String | None
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = field("1+", default=0, ignorable=True)
