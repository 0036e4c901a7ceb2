"""The keys of token issuers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.client import ResponseDone

from logbus.errors import ConfigError
from logbus.net.jwt_keys import JwtLogins
from logbus.security.sasl.jwt_validator import MAX_KEYS_BYTES
from logbus.security.sasl.mechanism import SaslAuthenticationError
from logbus.security.sasl.oauthbearer import oauthbearer_message
from logbus.security.sasl.sasl_config import JwtSettings
from tests.net.fakes import CapturedWarnings
from tests.security.sasl.tokens import AUDIENCE, ISSUER, Issuer

URL = "https://issuer.example/keys"
SETTINGS = JwtSettings(URL, 60_000, ISSUER, (AUDIENCE,), 30, "sub", "scope")
OLD, NEW = Issuer("old"), Issuer("new")


class Response:
    """A response with a body."""

    def __init__(self, body: bytes, code: int = 200) -> None:
        self.code, self.body, self.aborted = code, body, False

    def deliverBody(self, protocol: Any) -> None:
        protocol.transport = self
        protocol.dataReceived(self.body)
        protocol.connectionLost(Failure(ResponseDone()))

    def abortConnection(self) -> None:
        self.aborted = True


class FakeAgent:
    """Requests wait until the test answers them."""

    def __init__(self) -> None:
        self.asked: list[Deferred[Any]] = []

    def request(self, method: bytes, url: bytes, headers: object) -> Deferred[Any]:
        assert (method, url) == (b"GET", URL.encode())
        self.asked.append(Deferred())
        return self.asked[-1]


def log_in(logins: JwtLogins, issuer: Issuer) -> bool:
    """Whether a token of an issuer is accepted."""
    server = logins.server()
    try:
        server.evaluate(oauthbearer_message(issuer.token()))
    except SaslAuthenticationError:
        return False
    return server.login is not None


class HttpsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.agent = Clock(), FakeAgent()
        self.logins = JwtLogins(self.clock, SETTINGS, self.agent)
        self.logins.start()
        self.addCleanup(self.logins.stop)

    def answer(self, body: bytes, code: int = 200) -> None:
        self.agent.asked[-1].callback(Response(body, code))

    def test_read_and_read_again(self) -> None:
        """
        Nobody logs in before the keys are there; later they are replaced from time to time.
        """
        self.assertFalse(log_in(self.logins, OLD))
        self.answer(OLD.jwks)
        self.assertTrue(log_in(self.logins, OLD))
        self.clock.advance(60)
        self.answer(NEW.jwks)
        self.assertTrue(log_in(self.logins, NEW))
        self.assertFalse(log_in(self.logins, OLD))

    def test_an_unknown_key(self) -> None:
        """
        A token with a new key makes the keys be read soon, but not for each such token.
        """
        self.answer(OLD.jwks)
        for _ in range(5):
            self.assertFalse(log_in(self.logins, NEW))
        self.clock.advance(9)
        self.assertEqual(len(self.agent.asked), 1)
        self.clock.advance(1)
        self.answer(NEW.jwks)
        self.assertTrue(log_in(self.logins, NEW))

    def test_errors(self) -> None:
        """
        An issuer that answers nonsense, or nothing, leaves the old keys, and is asked again.
        """
        self.answer(OLD.jwks)
        wrong: list[Callable[[], object]] = [
            lambda: self.answer(b"", 500),
            lambda: self.answer(b"{}"),
            lambda: self.answer(b" " * (MAX_KEYS_BYTES + 1)),
            lambda: self.agent.asked[-1].errback(OSError("refused")),
            lambda: self.clock.advance(10),
        ]
        self.clock.advance(60)
        for number, go_wrong in enumerate(wrong, 2):
            self.assertEqual(len(self.agent.asked), number)
            with CapturedWarnings() as events:
                go_wrong()
            self.assertEqual(len(events), 1)
            self.assertTrue(log_in(self.logins, OLD))
            self.clock.advance(10)

    def test_stop(self) -> None:
        """
        A stop ends the request, and no timer is left.
        """
        self.logins.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])


class FileTests(SynchronousTestCase):
    def test_a_file(self) -> None:
        """
        Keys in a file are there at once, and read again; without a file there is no start.
        """
        clock = Clock()
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "the keys.json"
            logins = JwtLogins(clock, evolve(SETTINGS, keys_url=path.as_uri()))
            with self.assertRaisesRegex(ConfigError, "the keys.json: No such file"):
                logins.start()
            path.write_bytes(OLD.jwks)
            logins.start()
            self.assertTrue(log_in(logins, OLD))
            path.write_bytes(NEW.jwks)
            clock.advance(60)
            self.assertTrue(log_in(logins, NEW))
            logins.stop()
            self.assertEqual(clock.getDelayedCalls(), [])
