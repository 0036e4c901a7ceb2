"""Responses that peers do not take."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.net.connection_limits import ConnectionLimits
from logbus.net.stream_transport import StreamTransport
from tests.net.fakes import (
    LOST,
    Client,
    Handler,
    Server,
    fetch,
    taken,
)


class ResponseSenderTests(SynchronousTestCase):
    def test_peer_that_never_reads(self) -> None:
        """
        While too much is unsent nothing more is served or read; when the peer takes it, everything is answered.
        """
        handler = Handler(records=bytes(10_000))
        server = Server(handler, ConnectionLimits(max_unsent=50_000))
        protocol, transport = server.connect()
        client = Client()
        carrier = transport.producer
        assert isinstance(carrier, StreamTransport)
        carrier.pauseProducing()
        stream = b"".join(client.ask(fetch(tag)) for tag in range(40))
        for at in range(0, len(stream), 100):
            protocol.dataReceived(stream[at : at + 100])
        self.assertEqual(transport.producerState, "paused")
        self.assertEqual(len(handler.seen), 5)
        self.assertLess(carrier.unsent, 70_000)
        self.assertGreaterEqual(server.factory.metrics.throttled_reads, 1)
        for _ in range(50):
            if carrier.unsent:
                carrier.resumeProducing()
            server.turn()
        self.assertEqual(client.tags(taken(transport)), list(range(40)))
        self.assertEqual(transport.producerState, "producing")

    def test_many_peers_that_never_read(self) -> None:
        """
        Together they leave no more unsent than all may, and a little each; every one is answered when it reads.
        """
        limits = ConnectionLimits(max_unsent=500_000, max_unsent_in_all=1_000_000)
        server = Server(Handler(records=bytes(70_000)), limits)
        crowd = []
        for number in range(20):
            protocol, transport = server.connect()
            client = Client()
            carrier = transport.producer
            assert isinstance(carrier, StreamTransport)
            carrier.pauseProducing()
            protocol.dataReceived(b"".join(client.ask(fetch(tag)) for tag in range(10)))
            crowd.append((protocol, transport, client, carrier))
            self.assertLessEqual(carrier.unsent, 600_000 if number < 4 else 160_000)
        unsent = server.factory.shared.unsent
        self.assertEqual(unsent.total, sum(carrier.unsent for *_, carrier in crowd))
        self.assertLess(unsent.total, 1_000_000 + 20 * 160_000)
        for protocol, transport, client, carrier in crowd[:10]:
            for _ in range(30):
                if carrier.unsent:
                    carrier.resumeProducing()
                server.turn()
            self.assertEqual(client.tags(taken(transport)), list(range(10)))
            protocol.connectionLost(LOST)
        for protocol, *_ in crowd[10:]:
            protocol.connectionLost(LOST)
        self.assertEqual(unsent.total, 0)
