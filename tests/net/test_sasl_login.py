"""Connections that log in by SASL."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ErrorCode
from logbus.net.connection_limits import ConnectionLimits
from logbus.net.protocol import KafkaServerProtocol
from logbus.net.sasl_login import SaslLogin
from logbus.records.file_slice import joined
from logbus.security.sasl.plain import PlainServer, plain_message, verifier
from logbus.security.sasl.sasl_session import LOGIN_MAX_BYTES, SaslSettings
from logbus.wire.messages.api_versions import ApiVersionsRequest
from logbus.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.net.fakes import LOST, CapturedWarnings, Client, Server, metadata, produce, taken

FRAMES = st.one_of(
    st.binary(max_size=40),
    st.builds(
        lambda key, version, rest: struct.pack(">hhih", key, version, 7, -1) + rest,
        st.sampled_from([0, 1, 3, 17, 18, 36, 1000]),
        st.integers(-1, 5),
        st.one_of(st.binary(max_size=20), st.sampled_from([b"\0\5PLAIN", b"\0\0\0\x0d\0alice\0wrong!"])),
    ),
)
ALICE = plain_message("alice", "secret")


class LoginTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.start()

    def start(self, max_reauth_ms: int = 0, **limits: Any) -> None:
        self.server = Server(limits=ConnectionLimits(**limits))
        self.handler, self.clock, self.metrics = self.server.handler, self.server.clock, self.server.factory.metrics
        settings = SaslSettings(
            {"PLAIN": lambda: PlainServer(verifier({"alice": "secret"}))}, max_reauth_ms=max_reauth_ms
        )
        self.server.factory.login = SaslLogin(lambda: settings, self.clock.seconds, lambda: 0.15)
        self.connect()

    def connect(self) -> None:
        self.client = Client()
        self.protocol: KafkaServerProtocol
        self.transport: StringTransport
        self.protocol, self.transport = self.server.connect()

    def send(self, message: Any, version: int) -> None:
        self.protocol.dataReceived(joined(self.client.wire.request(message, version)[1]))

    def ask(self, message: Any, version: int) -> Any:
        self.send(message, version)
        return self.client.answers(taken(self.transport))[0]

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    def log_in(self, token: bytes = ALICE, version: int = 2) -> Any:
        self.assertEqual(self.handshake().error_code, 0)
        return self.ask(SaslAuthenticateRequest(auth_bytes=token), version)

    def test_log_in(self) -> None:
        """
        After the login requests are served, and their context has the user.
        """
        self.ask(ApiVersionsRequest(), 0)
        self.assertEqual(self.handler.contexts[-1].principal, "User:ANONYMOUS")
        self.assertEqual(self.log_in().error_code, 0)
        self.ask(metadata(), 1)
        self.assertEqual(self.handler.contexts[-1].principal, "User:alice")
        self.assertEqual(self.metrics.authentications, 1)
        self.clock.advance(3600)
        self.assertFalse(self.transport.disconnecting)

    def test_all_at_once(self) -> None:
        """
        A client need not wait for the answers of its login.
        """
        requests = [
            (SaslHandshakeRequest(mechanism="PLAIN"), 1),
            (SaslAuthenticateRequest(auth_bytes=ALICE), 0),
            (metadata(), 1),
        ]
        self.protocol.dataReceived(b"".join(joined(self.client.wire.request(*one)[1]) for one in requests))
        self.assertEqual(len(self.client.answers(taken(self.transport))), 3)

    def test_bare_tokens(self) -> None:
        """
        After a handshake of version 0 the token is a frame by itself, and so is the answer.
        """
        self.handshake(version=0)
        self.protocol.dataReceived(struct.pack(">i", len(ALICE)) + ALICE)
        self.assertEqual(taken(self.transport), b"\0\0\0\0")
        self.ask(metadata(), 1)
        self.assertEqual(self.handler.contexts[-1].principal, "User:alice")

    def test_nothing_before_the_login(self) -> None:
        """
        A request before the login closes the connection, and is not served.
        """
        with CapturedWarnings() as events:
            self.send(metadata(), 1)
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.handler.seen, [])
        self.assertIn("Metadata before the client has logged in by SASL", events[0]["problem"])

    def test_wrong_credentials(self) -> None:
        """
        The client learns after a delay that it failed, and is served no more; the log has the reason, not the password.
        """
        self.handshake()
        with CapturedWarnings() as events:
            self.send(SaslAuthenticateRequest(auth_bytes=plain_message("alice", "wrong!")), 1)
        self.assertIn("authentication failed: wrong user or password for user 'alice'", events[0]["problem"])
        self.assertNotIn("wrong!", str(events))
        self.send(metadata(), 1)
        self.assertEqual(self.transport.producerState, "paused")
        self.clock.advance(0.1)
        self.assertEqual((taken(self.transport), self.transport.disconnecting), (b"", False))
        self.clock.advance(0.1)
        answer = self.client.answers(taken(self.transport))[0]
        self.assertEqual(answer.error_code, ErrorCode.SASL_AUTHENTICATION_FAILED)
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.handler.seen, [])
        self.assertEqual((self.metrics.authentications, self.metrics.authentication_failures), (0, 1))

    def test_gone_before_the_answer(self) -> None:
        """
        A client that hangs up meanwhile leaves nothing behind.
        """
        self.handshake()
        self.send(SaslAuthenticateRequest(auth_bytes=b""), 1)
        self.protocol.connectionLost(LOST)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_unknown_mechanism(self) -> None:
        """
        The answer has the mechanisms that are enabled; the connection is closed.
        """
        self.send(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        self.clock.advance(1)
        answer = self.client.answers(taken(self.transport))[0]
        self.assertEqual((answer.error_code, answer.mechanisms), (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"]))
        self.assertTrue(self.transport.disconnecting)

    def test_long_frames(self) -> None:
        """
        Before the login a frame has 64 KiB at most; after it, as many as the configuration says.
        """
        self.protocol.dataReceived(struct.pack(">i", LOGIN_MAX_BYTES + 1))
        self.assertTrue(self.transport.disconnecting)
        self.connect()
        self.log_in()
        self.protocol.dataReceived(joined(self.client.wire.request(produce(1, b"x" * (LOGIN_MAX_BYTES + 1)), 7)[1]))
        self.assertFalse(self.transport.disconnecting)
        self.assertEqual(self.handler.seen, [(0, 1)])

    def test_time_to_log_in(self) -> None:
        """
        A client has ten seconds, whatever it does meanwhile; then it may be idle for as long as others.
        """
        self.clock.advance(9)
        self.ask(ApiVersionsRequest(), 0)
        self.protocol.check(9.9)
        self.assertFalse(self.transport.disconnecting)
        self.protocol.check(10.0)
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.metrics.connections_expired, 1)
        self.connect()
        self.log_in()
        self.protocol.check(self.clock.seconds() + 100)
        self.assertFalse(self.transport.disconnecting)

    def test_log_in_again(self) -> None:
        """
        A session goes on if the client logs in again in time; else its next request closes the connection.
        """
        self.start(max_reauth_ms=5000)
        self.assertEqual(self.log_in().session_lifetime_ms, 5000)
        self.clock.advance(4)
        self.assertEqual(self.log_in().session_lifetime_ms, 5000)
        self.clock.advance(4)
        self.ask(metadata(), 1)
        self.assertEqual((self.metrics.authentications, self.metrics.reauthentications), (1, 1))
        self.clock.advance(1)
        self.send(metadata(), 1)
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.metrics.sessions_expired, 1)
        self.assertEqual(len(self.handler.seen), 1)

    def test_requests_under_way(self) -> None:
        """
        What was asked before the client logs in again is answered, and in its turn.
        """
        self.start(max_reauth_ms=5000)
        self.log_in()
        self.handler.held = {1}
        self.send(produce(1), 7)
        self.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        self.send(SaslAuthenticateRequest(auth_bytes=ALICE), 1)
        self.assertEqual(taken(self.transport), b"")
        self.handler.release(1)
        self.server.turn()
        self.assertEqual(len(self.client.answers(taken(self.transport))), 3)

    def test_logging_in_again_in_vain(self) -> None:
        """
        A wrong password ends the session, too.
        """
        self.start(max_reauth_ms=5000)
        self.log_in()
        self.handshake()
        self.send(SaslAuthenticateRequest(auth_bytes=plain_message("alice", "wrong")), 1)
        self.clock.advance(1)
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual((self.metrics.authentication_failures, self.metrics.reauthentication_failures), (0, 1))

    def test_repeated_produce_requests(self) -> None:
        """
        Also requests that are recognized by their bytes end with the session.
        """
        self.start(max_reauth_ms=5000)
        runs: list[int] = []

        def coalesced(context: Any, run: Any) -> bytes | None:
            runs.append(len(run.batches))
            return None

        self.server.factory.coalesced_router = coalesced
        self.log_in()
        for _ in range(4):
            self.send(produce(7), 7)
        self.assertTrue(runs)
        runs.clear()
        self.clock.advance(5)
        self.send(produce(7), 7)
        self.assertEqual(runs, [])
        self.assertTrue(self.transport.disconnecting)

    @given(st.lists(FRAMES, max_size=6))
    def test_any_frames(self, frames: list[bytes]) -> None:
        """
        Whatever is sent without the password, nothing but ApiVersions is served, and nobody has logged in.
        """
        self.start()
        with CapturedWarnings():
            for frame in frames:
                self.protocol.dataReceived(struct.pack(">i", len(frame)) + frame)
            self.clock.advance(1)
        self.assertLessEqual({key for key, _ in self.handler.seen}, {18})
        self.assertEqual((self.metrics.authentications, self.metrics.failures), (0, 0))
        self.assertEqual({context.principal for context in self.handler.contexts} - {"User:ANONYMOUS"}, set())

    def test_a_broker_that_stops(self) -> None:
        """
        A connection whose failed login is still to be answered does not delay the stop.
        """
        self.handshake()
        self.send(SaslAuthenticateRequest(auth_bytes=b""), 1)
        self.protocol.drain()
        self.assertTrue(self.transport.disconnecting)
