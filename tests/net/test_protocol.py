"""One connection: errors, half-closing, and its end."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import fail, succeed
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ProtocolError
from logbus.net.connection_limits import ConnectionLimits
from logbus.wire.messages.api_versions import ApiVersionsRequest
from tests.net.fakes import (
    LOST,
    CapturedWarnings,
    Client,
    Handler,
    Server,
    TemporaryFile,
    fetch,
    metadata,
    produce,
    produced,
    taken,
)


class EndTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.server = Server()
        self.handler = self.server.handler
        self.protocol, self.transport = self.server.connect()
        self.client = Client()

    def test_losing_the_connection_cancels_reads_only(self) -> None:
        """
        A long poll is cancelled with its connection; a Produce runs on, and its answer is dropped.
        """
        self.handler.held = {1, 2}
        self.protocol.dataReceived(self.client.ask(produce(1)) + self.client.ask(fetch(2)))
        self.protocol.connectionLost(LOST)
        self.assertEqual(self.handler.cancelled, [2])
        self.handler.release(1)
        self.assertEqual(taken(self.transport), b"")
        metrics = self.server.factory.metrics
        self.assertEqual((metrics.connections_open, metrics.requests_pending, metrics.failures), (0, 0, 0))
        self.assertEqual(self.server.clock.getDelayedCalls(), [])

    def test_lost_in_the_middle_of_a_turn(self) -> None:
        """
        What was put off to a later turn does not happen after the connection is gone.
        """
        server = Server(limits=ConnectionLimits(turn_requests=1))
        protocol, _ = server.connect()
        protocol.dataReceived(self.client.ask(produce(1)) + self.client.ask(produce(2)))
        protocol.connectionLost(LOST)
        self.assertEqual(server.clock.getDelayedCalls(), [])

    def test_broken_framing(self) -> None:
        """
        What was asked before is answered; then the connection is closed, counted, and said once a second for an
        address.
        """
        garbage = b"GET / HTTP/1.1\r\n\r\n"
        with CapturedWarnings() as events:
            self.protocol.dataReceived(self.client.ask(metadata()) + garbage)
            for _ in range(3):
                self.server.connect()[0].dataReceived(garbage)
            self.server.clock.advance(1.1)
            self.server.connect()[0].dataReceived(garbage)
        self.assertEqual(self.client.tags(taken(self.transport)), [-1])
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.server.factory.metrics.broken_frames, 5)
        self.assertEqual([event["more"] for event in events], ["", " (3 more warnings suppressed)"])
        self.assertIn("HTTP", events[0]["problem"])

    def test_nothing_is_served_after_broken_framing(self) -> None:
        """
        More bytes on a connection that is being closed are ignored.
        """
        self.protocol.dataReceived(b"\xff" * 8)
        self.protocol.dataReceived(self.client.ask(metadata()))
        self.assertEqual(self.handler.seen, [])

    def test_a_request_not_served(self) -> None:
        """
        An API or a version we do not serve closes the connection (clients see EOF), and is no failure of ours.
        """
        self.protocol.dataReceived(self.client.ask(metadata(), version=12))
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.server.factory.metrics.failures, 0)

    def test_an_unknown_version_of_api_versions(self) -> None:
        """
        ApiVersions of a version we do not know reaches the router, and the connection lives.
        """
        self.protocol.dataReceived(self.client.ask(ApiVersionsRequest(), version=4))
        self.assertEqual(self.handler.seen, [(18, 0)])
        self.assertFalse(self.transport.disconnecting)

    def test_a_bug_in_the_router(self) -> None:
        """
        An exception is logged and counted, earlier answers leave, and the connection is closed.
        """

        def explode(context: Any, request: Any) -> Any:
            if len(self.handler.seen) == 2:
                raise RuntimeError("a bug")
            return produced(1)

        self.handler.override = explode
        self.protocol.dataReceived(b"".join(self.client.ask(produce(tag)) for tag in range(3)))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertEqual(self.client.tags(taken(self.transport)), [1])
        self.assertEqual(len(self.handler.seen), 2)
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.server.factory.metrics.failures, 1)

    def test_a_bug_found_out_later(self) -> None:
        """
        A Deferred that fails closes the connection too, and so does an answer that cannot be encoded.
        """
        wrong: list[Any] = [fail(RuntimeError("a bug")), succeed(object()), object()]
        for answer in wrong:
            self.handler.override = lambda context, request, answer=answer: answer
            protocol, transport = self.server.connect()
            protocol.dataReceived(Client().ask(produce()))
            self.assertTrue(transport.disconnecting)
        self.assertEqual(len(self.flushLoggedErrors()), 3)
        self.assertEqual(self.server.factory.metrics.failures, 3)

    def test_protocol_error_of_a_handler(self) -> None:
        """
        A ProtocolError from a handler, now or later, closes the connection without being called a bug.
        """

        def refuse(context: Any, request: Any) -> Any:
            raise ProtocolError("acks=0 and no such topic")

        for override in (refuse, lambda context, request: fail(ProtocolError("no"))):
            self.handler.override = override
            protocol, transport = self.server.connect()
            protocol.dataReceived(Client().ask(produce()))
            self.assertTrue(transport.disconnecting)
        self.assertEqual(self.server.factory.metrics.failures, 0)

    def test_half_close(self) -> None:
        """
        A peer that has sent everything and only listens gets all its answers, then the connection closes.
        """
        server = Server(Handler(held={3}), ConnectionLimits(turn_requests=2))
        protocol, transport = server.connect()
        protocol.dataReceived(b"".join(self.client.ask(produce(tag)) for tag in range(5)))
        protocol.readConnectionLost()
        self.assertFalse(transport.disconnecting)
        for _ in range(3):
            server.turn()
        server.handler.release(3)
        self.assertEqual(self.client.tags(taken(transport)), [0, 1, 2, 3, 4])
        self.assertTrue(transport.disconnecting)

    def test_half_close_does_not_wait_for_a_poll(self) -> None:
        """
        The end of a peer's stream looks like its death: a long poll does not outlive it.
        """
        self.handler.held = {1}
        self.protocol.dataReceived(self.client.ask(fetch(1)))
        self.protocol.readConnectionLost()
        self.assertTrue(self.transport.disconnecting)

    def test_half_a_frame_then_the_end(self) -> None:
        """
        A frame that can never be completed is not waited for.
        """
        self.protocol.dataReceived(self.client.ask(produce())[:-1])
        self.protocol.readConnectionLost()
        self.assertTrue(self.transport.disconnecting)

    def test_slices_through_a_plain_transport(self) -> None:
        """
        Where there is no sendfile, slices are read piece by piece and arrive whole.
        """
        content = bytes(range(256)) * 3000
        self.handler.records = TemporaryFile(content).slice()
        self.protocol.dataReceived(self.client.ask(fetch(1)))
        [answer] = self.client.answers(taken(self.transport))
        self.assertEqual(bytes(answer.responses[0].partitions[0].records), content)

    def test_done_is_done(self) -> None:
        """
        A connection closed in order leaves nothing on the clock.
        """
        self.protocol.dataReceived(self.client.ask(metadata()))
        self.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(self.server.clock.getDelayedCalls(), [])
