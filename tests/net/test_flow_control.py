"""When a connection serves requests, and when it receives."""

from __future__ import annotations

from twisted.internet.defer import succeed
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.connection_limits import ConnectionLimits
from tests.net.fakes import (
    Client,
    Handler,
    Server,
    fetch,
    metadata,
    produce,
    taken,
)


class FlowControlTests(SynchronousTestCase):
    def test_too_many_pending(self) -> None:
        """
        With max_pending answers missing no further request is begun and nothing more is read, until one is there.
        """
        handler = Handler(held=set(range(10)))
        server = Server(handler, ConnectionLimits(max_pending=3))
        protocol, transport = server.connect()
        client = Client()
        protocol.dataReceived(b"".join(client.ask(produce(tag)) for tag in range(5)))
        self.assertEqual(len(handler.seen), 3)
        self.assertEqual(server.factory.metrics.requests_pending, 3)
        self.assertEqual(transport.producerState, "paused")
        handler.release(0)
        server.turn()
        self.assertEqual(len(handler.seen), 4)
        for tag in (1, 2, 3):
            handler.release(tag)
            server.turn()
        handler.release(4)
        self.assertEqual(client.tags(taken(transport)), [0, 1, 2, 3, 4])
        self.assertEqual(transport.producerState, "producing")

    def test_reading_resumes_below_the_limit(self) -> None:
        """
        Answers that are there at once leave no connection paused, however low the limit.
        """
        handler = Handler()
        handler.override = lambda context, request: succeed(handler.answer(*handler.seen[-1]))
        server = Server(handler, ConnectionLimits(max_pending=1))
        protocol, transport = server.connect()
        client = Client()
        protocol.dataReceived(b"".join(client.ask(produce(tag)) for tag in range(5)))
        self.assertEqual(client.tags(taken(transport)), [0, 1, 2, 3, 4])
        self.assertEqual(transport.producerState, "producing")

    def test_responses_behind_a_waiting_one_are_bounded(self) -> None:
        """
        Behind a Produce without its acks no more answers are collected than a peer may leave unsent.
        """
        handler = Handler(held={0}, records=bytes(30_000))
        server = Server(handler, ConnectionLimits(max_unsent=100_000))
        protocol, transport = server.connect()
        client = Client()
        protocol.dataReceived(client.ask(produce(0)) + b"".join(client.ask(fetch(tag)) for tag in range(1, 20)))
        self.assertEqual(len(handler.seen), 5)
        handler.release(0)
        for _ in range(20):
            server.turn()
        self.assertEqual(client.tags(taken(transport)), list(range(20)))

    def test_a_turn_is_bounded(self) -> None:
        """
        After a turn's worth of requests, or of bytes, the reactor has its turn; nothing is lost.
        """
        for limits in (ConnectionLimits(turn_requests=4), ConnectionLimits(turn_bytes=200)):
            server = Server(limits=limits)
            protocol, transport = server.connect()
            client = Client()
            protocol.dataReceived(b"".join(client.ask(produce(tag)) for tag in range(10)))
            self.assertTrue(3 <= len(server.handler.seen) <= 5, server.handler.seen)
            self.assertEqual(len(client.tags(taken(transport))), len(server.handler.seen))
            server.turn()
            server.turn()
            self.assertEqual(len(server.handler.seen), 10)
            self.assertEqual(server.clock.getDelayedCalls(), [])

    def test_small_requests_faster_than_they_are_served(self) -> None:
        """
        A transport that has memory of its own brings no more than a little ahead of what is served, turn after turn:
        neither requests that take their time in turns nor those behind answers that are not ready pile up.
        """
        for held in (set(), set(range(1000))):
            server = Server(Handler(held=held))
            protocol, transport = server.connect()
            client = Client()
            chunk = b"".join(client.ask(metadata() if not held else fetch(n % 1000)) for n in range(1000))
            most = 0
            for _ in range(200):
                if transport.producerState == "producing":
                    protocol.dataReceived(chunk[: 1 << 16] if not most else chunk)
                for waiting in list(server.handler.waiting):
                    server.handler.release(waiting)
                server.turn()
                most = max(most, protocol.frames.held)
            self.assertLess(most, (1 << 16) + 2 * len(chunk))
