"""
SaslHandshake and SaslAuthenticate where there is nothing to log in for.

On listeners with SASL these requests are part of the login, and do not get here (:mod:`logbus.net.sasl_login`). Kafka
serves them everywhere, so that clients can tell by the versions advertised that a broker knows them.
"""

from __future__ import annotations

from typing import Self

from logbus.errors import ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import serves
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.sasl import SaslAuthenticateResponse, SaslHandshakeResponse


class SaslHandlers:
    """Refuses to authenticate."""

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls()

    @serves(17, 0, 1)
    def handshake(self, context: RequestContext, request: Request) -> SaslHandshakeResponse:
        """ILLEGAL_SASL_STATE, without mechanisms."""
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])

    @serves(36, 0, 2)
    def authenticate(self, context: RequestContext, request: Request) -> SaslAuthenticateResponse:
        """ILLEGAL_SASL_STATE; the message says why."""
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message=f"the listener {context.listener} has no SASL: clients are served without logging in",
            auth_bytes=b"",
        )
