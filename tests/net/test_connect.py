"""Connecting to a broker."""

from __future__ import annotations

import struct
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from logbus.errors import ApiError, ErrorCode, RequestTimedOut
from logbus.net.connect import connect
from logbus.timers import Timers
from logbus.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from logbus.wire.version_range import VersionRange
from tests.net.fakes import SERVED, Handler, Server, Wire, taken


class ConnectTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.timers = Timers(self.clock)

    def answer(self, wire: Wire, data: bytes) -> None:
        wire.channel.dataReceived(struct.pack(">i", len(data)) + data)

    def test_versions_are_negotiated(self) -> None:
        """
        A channel asks with our highest ApiVersions; a server that does not know it is asked again as it wants.
        """
        wire = Wire(Server())
        connecting = connect(wire, self.timers, client_id="me")
        handler = wire.server.handler if wire.server else Handler()

        def versions(context: Any, request: Any) -> Any:
            if request.unsupported:
                key = ApiVersion(api_key=18, min_version=0, max_version=3)
                return ApiVersionsResponse(error_code=35, api_keys=[key])
            seen.append((request.api_version, request.message.client_software_name))
            return handler.answer(18, 0)

        seen: list[tuple[int, str]] = []
        handler.override = versions
        wire.pump()
        channel = self.successResultOf(connecting)
        self.assertEqual(seen, [(3, "logbus")])
        self.assertEqual(channel.versions[0], VersionRange(*SERVED[0]))
        self.assertEqual(channel.version(3), 9)
        self.assertEqual(handler.contexts[0].client_id, None)
        self.assertEqual(handler.contexts[-1].client_id, "me")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_old_broker_without_a_version_list(self) -> None:
        """
        Error 35 without a list (Kafka before 2.4) makes us ask at version 0.
        """
        wire = Wire()
        connecting = connect(wire, self.timers)
        taken(wire.transport)
        self.answer(wire, struct.pack(">ihi", 0, 35, 0))
        self.assertEqual(struct.unpack_from(">ihh", taken(wire.transport))[1:], (18, 0))
        self.answer(wire, struct.pack(">ihihhh", 1, 0, 1, 3, 0, 5))
        self.assertEqual(self.successResultOf(connecting).versions, {3: VersionRange(0, 5)})

    def test_refusing_broker(self) -> None:
        """
        Any other error ends the attempt, with its code, and closes the connection.
        """
        wire = Wire()
        connecting = connect(wire, self.timers)
        self.answer(wire, struct.pack(">ihiiB", 0, 58, 0, 0, 0)[:6] + b"\1\0\0\0\0\0")
        self.assertEqual(self.failureResultOf(connecting, ApiError).value.code, ErrorCode.SASL_AUTHENTICATION_FAILED)
        self.assertTrue(wire.transport.disconnecting)

    def test_no_answer_to_the_first_question(self) -> None:
        """
        A broker that accepts and then is silent is given up in time.
        """
        wire = Wire()
        connecting = connect(wire, self.timers, timeout=7)
        self.clock.advance(6.9)
        self.assertNoResult(connecting)
        self.clock.advance(0.2)
        self.failureResultOf(connecting, RequestTimedOut)
        self.assertTrue(wire.transport.disconnected or wire.transport.disconnecting)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_no_connection_in_time(self) -> None:
        """
        The time for connecting is part of the time allowed.
        """

        @implementer(IStreamClientEndpoint)
        class Nowhere:
            def connect(self, factory: Any) -> Deferred[Any]:
                return Deferred()

        connecting = connect(Nowhere(), self.timers, timeout=3)
        self.clock.advance(3)
        self.assertIn("3 s", str(self.failureResultOf(connecting, RequestTimedOut).value))

    def test_refused(self) -> None:
        """
        An endpoint's failure is passed on.
        """

        @implementer(IStreamClientEndpoint)
        class Closed:
            def connect(self, factory: Any) -> Deferred[Any]:
                return fail(ConnectionRefusedError())

        self.failureResultOf(connect(Closed(), self.timers), ConnectionRefusedError)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_cancelling(self) -> None:
        """
        Cancelling the attempt closes the connection, and is not a timeout.
        """
        wire = Wire()
        connecting = connect(wire, self.timers)
        connecting.cancel()
        self.failureResultOf(connecting, CancelledError)
        self.assertTrue(wire.transport.disconnecting)
        self.assertEqual(self.clock.getDelayedCalls(), [])
