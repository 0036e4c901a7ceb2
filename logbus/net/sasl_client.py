"""
Logs a client in by SASL (Kafka: SaslClientAuthenticator), and again before its session ends (KIP-368).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.errors import ApiError, ErrorCode, LogbusError, error_of
from logbus.net.channel import Channel
from logbus.security.sasl.client_login import ClientLogin
from logbus.security.sasl.mechanism import SaslAuthenticationError
from logbus.timers import Timers
from logbus.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

LIFETIME_USED = 0.85
"""The share of a session's lifetime after which the client logs in again."""

LOGIN_ERRORS = frozenset(
    {
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
    }
)
"""Codes of the errors of a login. None of them is retried: the same credentials would be refused again."""

_log = Logger(namespace="logbus.security")


async def log_in(channel: Channel, login: Callable[[], ClientLogin], timers: Timers) -> None:
    """
    Log in; the session is renewed on the same connection for as long as it is open.

    :param login: the credentials, read for each login: they may have changed.
    :raise ApiError: one of :data:`LOGIN_ERRORS`: the broker refuses, or does not have the mechanism.
    :raise Disconnected: the connection was lost.
    """
    lifetime = await _authenticate(channel, channel.request, login())
    if lifetime:
        _renew_later(channel, login, timers, lifetime)


def _renew_later(channel: Channel, login: Callable[[], ClientLogin], timers: Timers, lifetime: float) -> None:
    def renew() -> None:
        Deferred.fromCoroutine(_renew(channel, login, timers)).addErrback(failed)

    def failed(failure: Failure) -> None:
        if channel.usable:
            _log.failure("the session with {peer} could not be renewed", failure, peer=channel.peer)
            channel.close()

    timer = timers.call_later(lifetime * LIFETIME_USED, renew)
    channel.when_lost().addCallback(lambda _: timer.cancel())


async def _renew(channel: Channel, login: Callable[[], ClientLogin], timers: Timers) -> None:
    """Log in again; requests wait meanwhile, as no others may come in between."""
    channel.hold()
    try:
        lifetime = await _authenticate(channel, channel.request_held, login())
    except LogbusError as e:
        _log.warn("{peer} ends our session: {error}", peer=channel.peer, error=str(e))
        channel.close()
        return
    channel.release()
    if lifetime:
        _renew_later(channel, login, timers, lifetime)


async def _authenticate(channel: Channel, request: Callable[..., Deferred[Any]], login: ClientLogin) -> float:
    """Return for how many seconds the session lasts; 0: for ever."""
    peer = channel.peer
    # Brokers do not ask each other for versions, and all know these.
    version = None if channel.versions else 1
    answer: SaslHandshakeResponse = await request(SaslHandshakeRequest(mechanism=login.mechanism), 1)
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(answer.mechanisms) or "none"
        raise ApiError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"{peer} does not take {login.mechanism}; sasl.mechanism can be: {offered}",
        )
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise error_of(
            answer.error_code, f"{peer} has no logins: its security.protocol is PLAINTEXT, or SSL, without SASL_"
        )
    if answer.error_code:
        raise error_of(answer.error_code, f"{peer} does not let us log in: {error_of(answer.error_code).message}")
    try:
        exchange = login.exchange()
        token, lifetime = next(exchange), 0
        while True:
            reply: SaslAuthenticateResponse = await request(SaslAuthenticateRequest(auth_bytes=token), version)
            if reply.error_code:
                why = reply.error_message or error_of(reply.error_code, None).message
                raise error_of(reply.error_code, f"{peer} refuses {login}: {why}")
            lifetime = reply.session_lifetime_ms
            try:
                token = exchange.send(bytes(reply.auth_bytes))
            except StopIteration:
                return lifetime / 1000
    except SaslAuthenticationError as e:
        raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{peer}, {login}: {e}") from None
