"""The connections of one listener."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.connection_limits import ConnectionLimits
from logbus.net.factory import RefusedConnection
from logbus.net.protocol import KafkaServerProtocol
from logbus.quotas.connection_rates import ConnectionRates
from tests.net.fakes import Client, Handler, Server, fetch, metadata, produce, taken


class SweepTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.server = Server(limits=ConnectionLimits(idle_seconds=60, frame_seconds=30))
        self.server.factory.doStart()
        self.client = Client()

    def advance(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.server.clock.advance(1)

    def test_an_idle_connection_is_closed(self) -> None:
        """
        A connection on which nothing moves is closed in time; one that asks now and then is not.
        """
        (_, idle), (busy, transport) = self.server.connect(), self.server.connect()
        for _ in range(7):
            self.advance(10)
            busy.dataReceived(self.client.ask(metadata()))
        self.assertTrue(idle.disconnected)
        self.assertFalse(transport.disconnected)
        self.assertEqual(self.server.factory.metrics.connections_expired, 1)

    def test_frame_timeout(self) -> None:
        """
        A frame has its time from its beginning to its end, though bytes trickle in.
        """
        protocol, transport = self.server.connect()
        self.advance(25)
        request = self.client.ask(produce(1, bytes(100)))
        for at in range(25):
            protocol.dataReceived(request[at : at + 1])
            self.advance(1)
        self.assertFalse(transport.disconnected)
        self.advance(15)
        self.assertTrue(transport.disconnected)

    def test_requests_in_between_renew_the_time(self) -> None:
        """
        A client that is always in the middle of some frame, but completes them, lives.
        """
        protocol, transport = self.server.connect()
        request = self.client.ask(produce(1))
        protocol.dataReceived(request[:10])
        for _ in range(12):
            self.advance(10)
            following = self.client.ask(produce(1))
            protocol.dataReceived(request[10:] + following[:10])
            request = following
        self.assertFalse(transport.disconnected)

    def test_frame_timeout_during_a_long_poll(self) -> None:
        """
        Behind a long poll an unfinished frame waits as long as the poll does, and the connection is not idle.
        """
        self.server.handler.held = {1}
        protocol, transport = self.server.connect()
        protocol.dataReceived(self.client.ask(fetch(1)) + self.client.ask(produce(2))[:-1])
        self.advance(120)
        self.assertFalse(transport.disconnected)
        self.server.handler.release(1)
        self.advance(40)
        self.assertTrue(transport.disconnected)

    def test_closing_with_unread_responses(self) -> None:
        """
        A connection that is to be closed does not wait for ever for its peer to read.
        """
        protocol, transport = self.server.connect()
        carrier: Any = transport.producer
        carrier.pauseProducing()
        protocol.dataReceived(self.client.ask(metadata()) + b"\xff\xff\xff\xff")
        self.assertFalse(transport.disconnected)
        self.advance(45)
        self.assertTrue(transport.disconnected)

    def test_many_connections_are_looked_at_in_parts(self) -> None:
        """
        A sweep looks at a fifth of the connections a second, at each of them every five seconds.
        """
        seen: list[int] = []
        for _ in range(50):
            protocol, _ = self.server.connect()
            number = protocol.context.connection_id
            protocol.check = lambda now, number=number: seen.append(number)  # type: ignore[misc,assignment]
        self.advance(1)
        self.assertEqual(len(seen), 10)
        self.advance(4)
        self.assertEqual(len(set(seen)), 50)

    def test_the_sweep_releases_buffers(self) -> None:
        """
        Memory of large frames that no connection needed for a second is not kept.
        """
        pool = self.server.factory.shared.buffers
        self.server.connect()
        pool.give_back(pool.take(1))
        self.assertTrue(pool.fits(1))
        self.server.clock.pump([1, 1])
        self.assertFalse(pool.fits(1))

    def test_the_sweep_ends_with_the_last_connection(self) -> None:
        """
        After the port is closed connections are looked after until none is left; then nothing is on the clock.
        """
        protocol, transport = self.server.connect()
        self.server.factory.doStop()
        self.advance(70)
        self.assertTrue(transport.disconnected)
        protocol.connectionLost(Failure(ConnectionLost()))
        self.assertEqual(self.server.clock.getDelayedCalls(), [])


class AdmissionTests(SynchronousTestCase):
    def test_ipv4_on_a_socket_of_ipv6(self) -> None:
        """A client of IPv4 has the same address on each listener, by which ACLs and limits know it."""
        server = Server(limits=ConnectionLimits(per_ip_overrides={"10.0.0.1": 1}))
        protocol = server.factory.buildProtocol(IPv6Address("TCP", "::ffff:10.0.0.1", 4000))
        assert isinstance(protocol, KafkaServerProtocol)
        self.assertEqual(protocol.context.host, "10.0.0.1")
        self.assertIsInstance(server.factory.buildProtocol(IPv4Address("TCP", "10.0.0.1", 1)), RefusedConnection)

    def test_refused_connection(self) -> None:
        """
        One connection too many from an address is refused; others are not.
        """
        server = Server(limits=ConnectionLimits(max_connections_per_ip=1))
        protocol, _ = server.connect("10.0.0.1")
        refused, transport = server.factory.buildProtocol(IPv4Address("TCP", "10.0.0.1", 1)), StringTransport()
        refused.makeConnection(transport)
        self.assertTrue(transport.disconnected)
        server.connect("10.0.0.2")
        metrics = server.factory.metrics
        self.assertEqual((metrics.connections_refused, metrics.connections_open), (1, 2))
        protocol.connectionLost(Failure(ConnectionDone()))
        server.connect("10.0.0.1")
        self.assertEqual((metrics.connections_open, metrics.connections_accepted), (2, 3))
        self.assertEqual(server.factory.shared.arrivals.lately, 3)


class DrainTests(SynchronousTestCase):
    def connect(self, server: Server) -> tuple[KafkaServerProtocol, StringTransport]:
        protocol, transport = server.connect()
        close = transport.loseConnection

        def lose() -> None:
            close()
            protocol.connectionLost(Failure(ConnectionDone()))

        transport.loseConnection = lose  # type: ignore[method-assign]
        transport.abortConnection = lose  # type: ignore[method-assign]
        return protocol, transport

    def test_drain_without_connections(self) -> None:
        """
        Without connections the drain is over at once.
        """
        self.assertIsNone(self.successResultOf(Server().factory.drain()))

    def test_drain_with_requests_in_flight(self) -> None:
        """
        Requests in flight are answered, later ones are not begun, and the drain ends with the last connection.
        """
        server = Server(Handler(held={1, 2}))
        client = Client()
        (busy, transport), (_, idle), (polling, _) = (self.connect(server) for _ in range(3))
        busy.dataReceived(client.ask(produce(1)))
        polling.dataReceived(Client().ask(fetch(2)))
        drained = server.factory.drain()
        self.assertTrue(idle.disconnecting)
        busy.dataReceived(client.ask(produce(3)))
        self.assertNoResult(drained)
        server.handler.release(2)
        server.handler.release(1)
        self.successResultOf(drained)
        self.assertEqual(client.tags(taken(transport)), [1])
        self.assertEqual(server.handler.seen, [(0, 1), (1, 2)])
        self.assertEqual(server.clock.getDelayedCalls(), [])

    def test_grace_ends(self) -> None:
        """
        What is not finished in time is cut off.
        """
        server = Server(Handler(held={1}))
        protocol, _ = self.connect(server)
        protocol.dataReceived(Client().ask(produce(1)))
        drained = server.factory.drain(grace=5)
        server.clock.advance(4.9)
        self.assertNoResult(drained)
        server.clock.advance(0.2)
        self.successResultOf(drained)


class RateTests(SynchronousTestCase):
    """Rates of new connections (KIP-612)."""

    def setUp(self) -> None:
        self.server = Server()
        self.pauses: list[tuple[str, float]] = []
        self.rates = ConnectionRates(self.server.clock.seconds)

        def pause(listener: str, seconds: float) -> None:
            self.pauses.append((listener, seconds))

        self.server.factory.shared = evolve(self.server.factory.shared, rates=self.rates, pause=pause)

    def refused(self, host: str) -> bool:
        return isinstance(self.server.factory.buildProtocol(IPv4Address("TCP", host, 4000)), RefusedConnection)

    def test_address(self) -> None:
        """An address with too many new connections is refused, others are not; its turn comes again."""
        self.rates.set_address("10.0.0.1", 2.0)
        self.assertEqual([self.refused("10.0.0.1") for _ in range(4)], [False, False, True, True])
        self.assertFalse(self.refused("10.0.0.2"))
        self.assertEqual(self.server.factory.metrics.connections_refused, 2)
        self.server.clock.advance(0.5)
        self.assertEqual([self.refused("10.0.0.1") for _ in range(2)], [False, True])
        self.assertEqual(self.pauses, [])

    def test_listener(self) -> None:
        """A listener with too many serves them, and pauses."""
        self.rates.set_listeners(2.0, {})
        self.assertEqual([self.refused("10.0.0.1") for _ in range(4)], 4 * [False])
        self.assertEqual(self.pauses, [("PLAINTEXT", 0.5), ("PLAINTEXT", 1.0)])
