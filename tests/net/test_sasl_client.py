"""Tests of :mod:`logbus.net.sasl_client`."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, ErrorCode
from logbus.net.channel import Channel
from logbus.net.sasl_client import log_in
from logbus.security.sasl.broker_credentials import BrokerCredentials
from logbus.security.sasl.plain import PlainServer, verifier
from logbus.security.sasl.sasl_session import SaslSession, SaslSettings
from logbus.wire.messages.sasl import SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse


class Server:
    """Answers as a broker with SASL does."""

    def __init__(self, lifetime_ms: int = 0) -> None:
        mechanisms = {"PLAIN": lambda: PlainServer(verifier({"broker": "right"}))}
        self.session = SaslSession(SaslSettings(mechanisms, 16384, lifetime_ms), lambda: 0.0, lambda: 0.0)

    def request(self, message: Any, version: int) -> Deferred[Any]:
        if isinstance(message, SaslHandshakeRequest):
            return succeed(self.session.handshake(message, version).answer)
        return succeed(self.session.authenticate(message).answer)


class Impostor:
    """Says to know every user, and proves nothing."""

    def request(self, message: Any, version: int) -> Deferred[Any]:
        if isinstance(message, SaslHandshakeRequest):
            return succeed(SaslHandshakeResponse(mechanisms=[message.mechanism]))
        return succeed(SaslAuthenticateResponse(error_message=None, auth_bytes=b"v=AAAA"))


def logged_in(server: Server | Impostor, mechanism: str = "PLAIN", password: str = "right") -> Deferred[float]:
    exchange = BrokerCredentials(mechanism, "broker", password).exchange("nonce")
    return Deferred.fromCoroutine(log_in(cast(Channel, server), mechanism, exchange))


class LogInTests(SynchronousTestCase):
    def refusal(self, asked: Deferred[float]) -> ApiError:
        error: ApiError = self.failureResultOf(asked, ApiError).value
        return error

    def test_logged_in(self) -> None:
        """It says how long the session is."""
        server = Server()
        self.assertEqual(self.successResultOf(logged_in(server)), 0)
        self.assertTrue(server.session.is_open)
        self.assertEqual(self.successResultOf(logged_in(Server(lifetime_ms=5000))), 5)

    def test_wrong_password(self) -> None:
        """The server's refusal is said, the password is not."""
        error = self.refusal(logged_in(Server(), password="wrong"))
        self.assertEqual(error.code, ErrorCode.SASL_AUTHENTICATION_FAILED)
        self.assertIn("refuses our login", error.message)
        self.assertNotIn("wrong", error.message)

    def test_mechanism_not_enabled(self) -> None:
        """Those that are enabled are named."""
        error = self.refusal(logged_in(Server(), "SCRAM-SHA-256"))
        self.assertEqual(error.code, ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        self.assertIn("its mechanisms are: PLAIN", error.message)

    def test_impostor(self) -> None:
        """A server of SCRAM that does not know the password is none of ours."""
        error = self.refusal(logged_in(Impostor(), "SCRAM-SHA-256"))
        self.assertEqual(error.code, ErrorCode.SASL_AUTHENTICATION_FAILED)
