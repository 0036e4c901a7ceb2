"""Tests of :mod:`logbus.net.sasl_client`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, Disconnected, ErrorCode
from logbus.net.channel import Channel
from logbus.net.sasl_client import log_in
from logbus.security.sasl.client_login import ClientLogin
from logbus.security.sasl.plain import PlainServer, verifier
from logbus.security.sasl.sasl_session import SaslSession, SaslSettings
from logbus.timers import Timers
from logbus.wire.connection import api_key_of
from logbus.wire.messages.metadata import MetadataRequest
from logbus.wire.messages.sasl import SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse
from logbus.wire.version_range import VersionRange


class Server:
    """Answers as a broker with SASL does."""

    def __init__(self, lifetime_ms: int = 0) -> None:
        mechanisms = {"PLAIN": lambda: PlainServer(verifier({"broker": "right"}))}
        self.session = SaslSession(SaslSettings(mechanisms, 16384, lifetime_ms), lambda: 0.0, lambda: 0.0)

    peer = "b:9092"
    versions: Mapping[int, VersionRange] = {}

    def request(self, message: Any, version: int) -> Deferred[Any]:
        if isinstance(message, SaslHandshakeRequest):
            return succeed(self.session.handshake(message, version).answer)
        return succeed(self.session.authenticate(message).answer)


class Impostor:
    """Says to know every user, and proves nothing."""

    peer = "b:9092"
    versions: Mapping[int, VersionRange] = {}

    def request(self, message: Any, version: int) -> Deferred[Any]:
        if isinstance(message, SaslHandshakeRequest):
            return succeed(SaslHandshakeResponse(mechanisms=[message.mechanism]))
        return succeed(SaslAuthenticateResponse(error_message=None, auth_bytes=b"v=AAAA"))


def logged_in(server: Server | Impostor, mechanism: str = "PLAIN", password: str = "right") -> Deferred[None]:
    login = ClientLogin(mechanism, "broker", password)
    return Deferred.fromCoroutine(log_in(cast(Channel, server), lambda: login, Timers(Clock())))


class LogInTests(SynchronousTestCase):
    def refusal(self, asked: Deferred[None]) -> ApiError:
        error: ApiError = self.failureResultOf(asked, ApiError).value
        return error

    def test_logged_in(self) -> None:
        """The server knows who it is."""
        server = Server()
        self.successResultOf(logged_in(server))
        self.assertTrue(server.session.is_open)

    def test_wrong_password(self) -> None:
        """The server's refusal is said, the password is not."""
        error = self.refusal(logged_in(Server(), password="wrong"))
        self.assertEqual(error.code, ErrorCode.SASL_AUTHENTICATION_FAILED)
        self.assertIn("refuses PLAIN as 'broker'", error.message)
        self.assertNotIn("wrong", error.message)

    def test_mechanism_not_enabled(self) -> None:
        """Those that are enabled are named."""
        error = self.refusal(logged_in(Server(), "SCRAM-SHA-256"))
        self.assertEqual(error.code, ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        self.assertIn("sasl.mechanism can be: PLAIN", error.message)

    def test_without_logins(self) -> None:
        """A listener without SASL is said to be one."""
        answer: Deferred[Any] = succeed(SaslHandshakeResponse(error_code=34, mechanisms=[]))
        server = Server()
        server.request = lambda message, version: answer  # type: ignore[method-assign]
        error = self.refusal(logged_in(server))
        self.assertEqual(error.code, ErrorCode.ILLEGAL_SASL_STATE)
        self.assertIn("has no logins: its security.protocol is PLAINTEXT", error.message)

    def test_impostor(self) -> None:
        """A server of SCRAM that does not know the password is none of ours."""
        error = self.refusal(logged_in(Impostor(), "SCRAM-SHA-256"))
        self.assertEqual(error.code, ErrorCode.SASL_AUTHENTICATION_FAILED)


HANDSHAKE, AUTHENTICATE, METADATA = 17, 36, 3


class RecordedChannel(Channel):
    """A channel whose requests are answered by the test."""

    def __init__(self, timers: Timers) -> None:
        super().__init__(timers)
        self.asked: list[tuple[Any, Deferred[Any]]] = []
        self.closed = False
        self.versions: Mapping[int, VersionRange] = {}

    @property
    def usable(self) -> bool:
        return not self.closed

    def request_held(self, message: Any, version: int | None = None, timeout: float | None = None) -> Deferred[Any]:
        answer: Deferred[Any] = Deferred()
        self.asked.append((message, answer))
        return answer

    def close(self) -> Deferred[None]:
        self.closed = True
        self._fail(Disconnected("closed here"))
        return self.when_lost()


class RenewalTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.timers = Timers(self.clock)
        self.channel = RecordedChannel(self.timers)
        login = ClientLogin("PLAIN", "alice", "secret")
        self.login = Deferred.fromCoroutine(log_in(self.channel, lambda: login, self.timers))

    def keys(self) -> list[int]:
        """Of the requests that wait for an answer."""
        return [api_key_of(message) for message, _ in self.channel.asked]

    def answer(self, response: Any) -> None:
        _, answer = self.channel.asked.pop(0)
        answer.callback(response)

    def accept(self, lifetime_ms: int = 0) -> None:
        """Accept the login."""
        self.assertEqual(self.keys(), [HANDSHAKE])
        self.answer(SaslHandshakeResponse(mechanisms=["PLAIN"]))
        self.assertEqual(self.keys(), [AUTHENTICATE])
        self.assertEqual(self.channel.asked[0][0].auth_bytes, b"\0alice\0secret")
        self.answer(SaslAuthenticateResponse(error_message=None, auth_bytes=b"", session_lifetime_ms=lifetime_ms))

    def test_accepted(self) -> None:
        """A session without an end is not renewed."""
        self.accept()
        self.successResultOf(self.login)
        self.clock.advance(1e6)
        self.assertEqual(self.keys(), [])

    def test_another_mechanism(self) -> None:
        """The error says what the broker takes."""
        self.answer(SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-512", "OAUTHBEARER"]))
        error = self.failureResultOf(self.login, ApiError).value
        self.assertEqual(error.code, ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        self.assertIn("sasl.mechanism can be: SCRAM-SHA-512, OAUTHBEARER", error.message)

    def test_refused(self) -> None:
        """The error says who was refused, without the password."""
        self.answer(SaslHandshakeResponse(mechanisms=["PLAIN"]))
        self.answer(SaslAuthenticateResponse(error_code=58, error_message="wrong", auth_bytes=b""))
        error = self.failureResultOf(self.login, ApiError).value
        self.assertEqual(error.code, ErrorCode.SASL_AUTHENTICATION_FAILED)
        self.assertIn("refuses PLAIN as 'alice': wrong", error.message)
        self.assertNotIn("secret", str(error))

    def test_renewed(self) -> None:
        """Before the session ends it is renewed, again and again; requests wait meanwhile."""
        self.accept(10_000)
        self.successResultOf(self.login)
        for _ in range(3):
            self.clock.advance(8)
            self.assertEqual(self.keys(), [])
            self.clock.advance(0.6)
            self.assertEqual(self.keys(), [HANDSHAKE])
            waiting = self.channel.request(MetadataRequest(topics=[]))
            dropped = self.channel.request(MetadataRequest(topics=[]))
            dropped.addErrback(lambda _: None)
            dropped.cancel()
            self.assertEqual(self.keys(), [HANDSHAKE])
            self.accept(10_000)
            self.assertEqual(self.keys(), [METADATA])
            self.answer("metadata")
            self.assertEqual(self.successResultOf(waiting), "metadata")

    def test_renewal_is_refused(self) -> None:
        """The connection is closed, and what waits fails."""
        self.accept(10_000)
        self.clock.advance(9)
        waiting = self.channel.request(MetadataRequest(topics=[]))
        self.answer(SaslHandshakeResponse(mechanisms=["PLAIN"]))
        with capturedLogs() as log:
            self.answer(SaslAuthenticateResponse(error_code=58, error_message="gone", auth_bytes=b""))
        self.assertTrue(self.channel.closed)
        self.assertIn("gone", str(log[0]["error"]))
        for _, answer in self.channel.asked:
            answer.errback(Disconnected("closed"))
        self.failureResultOf(waiting, Disconnected)
        self.assertEqual(self.clock.getDelayedCalls(), [])
