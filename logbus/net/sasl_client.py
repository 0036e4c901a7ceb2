"""
Logs a channel in by SASL (Kafka: SaslClientAuthenticator).
"""

from __future__ import annotations

from logbus.errors import ApiError, ErrorCode
from logbus.net.channel import Channel
from logbus.security.sasl.mechanism import SaslAuthenticationError
from logbus.security.sasl.scram_client import Exchange
from logbus.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


async def log_in(channel: Channel, mechanism: str, exchange: Exchange) -> float:
    """
    Log in.

    :return: the seconds of the session; 0: it has no end (KIP-368).
    :raises ApiError: UNSUPPORTED_SASL_MECHANISM, or SASL_AUTHENTICATION_FAILED, also if the server proves nothing.
    """
    offer: SaslHandshakeResponse = await channel.request(SaslHandshakeRequest(mechanism=mechanism), 1)
    if offer.error_code:
        enabled = ", ".join(offer.mechanisms) or "none"
        raise ApiError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"it does not speak {mechanism}; its mechanisms are: {enabled}"
        )
    try:
        token = next(exchange)
        while True:
            answer: SaslAuthenticateResponse = await channel.request(SaslAuthenticateRequest(auth_bytes=token), 1)
            if answer.error_code:
                why = answer.error_message or f"error {answer.error_code}"
                raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"it refuses our login: {why}")
            token = exchange.send(bytes(answer.auth_bytes))
    except StopIteration:
        return answer.session_lifetime_ms / 1000
    except SaslAuthenticationError as e:
        raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, str(e)) from None
    finally:
        exchange.close()
