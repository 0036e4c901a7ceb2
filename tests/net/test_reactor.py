"""The reactor's direct calls of connections; the tests of the transport run on it, too."""

from __future__ import annotations

import socket
from collections.abc import Callable
from time import monotonic
from typing import Any

from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock

from logbus.net.standstills import Standstills
from logbus.net.turn_times import SHORT, TurnTimes
from logbus.testing.held_ports import HeldPorts
from tests.net.fakes import metadata
from tests.net.test_transport import RealCase


class BrokerReactorTests(RealCase):
    def test_failing_read(self) -> None:
        """
        A bug in the middle of a read is logged and ends its connection; the others go on.
        """
        peer, other = self.connect(), self.connect()
        broken = next(iter(self.factory._connections))

        def fail() -> None:
            raise RuntimeError("a bug")

        broken.frames_ready = fail  # type: ignore[method-assign]
        peer.sock.send(self.client.ask(metadata()))
        self.loop.until(lambda: self.factory.metrics.connections_open == 1)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.loop.until(lambda: (peer.read(), peer.ended)[1])
        self.client = type(self.client)()
        other.sock.send(self.client.ask(metadata()))
        self.answers(other, 1)

    def test_failing_connection_lost(self) -> None:
        """
        A bug in what follows the end of a connection is logged, and the reactor goes on.
        """
        peer, other = self.connect(), self.connect()
        broken = next(iter(self.factory._connections))

        def fail(reason: object) -> None:
            raise RuntimeError("a bug")

        broken.connectionLost = fail  # type: ignore[method-assign, assignment]
        peer.sock.close()
        self.loop.until(lambda: self.flushLoggedErrors(RuntimeError))
        self.factory.closed(broken)
        other.sock.send(self.client.ask(metadata()))
        self.answers(other, 1)

    def test_closed_by_another_connection(self) -> None:
        """
        Of two connections that are ready at once, the first to be served may close the second.
        """
        peers = [self.connect(), self.connect()]
        first, second = self.factory._connections
        served = []

        def close_both() -> None:
            served.append(1)
            first.abort()
            second.abort()

        first.frames_ready = second.frames_ready = close_both  # type: ignore[method-assign]
        for peer in peers:
            peer.sock.send(b"\0")
        self.loop.until(lambda: not self.factory.metrics.connections_open)
        self.assertEqual(served, [1])

    def test_other_work_between_polls(self) -> None:
        """
        What a connection has scheduled, called from a thread, or stopped is done although more is ready to be received.
        """
        peer, reactor = self.connect(), self.loop.reactor
        (connection,) = self.factory._connections
        # As while it runs: between two polls it does nothing else otherwise.
        self.patch(reactor, "_started", True)
        peer.sock.send(b"\0")
        seen: list[str] = []

        def scheduled() -> None:
            reactor.callLater(0, seen.append, "scheduled")
            # One that is due later takes nothing from the first one.
            reactor.callLater(1000, seen.append, "later").cancel()

        def from_thread() -> None:
            reactor.callFromThread(seen.append, "from a thread")

        def serve() -> None:
            # The client always sends at once.
            peer.sock.send(b"\0")
            if left:
                left.pop()()
            seen.append("read")

        connection.frames_ready = serve  # type: ignore[method-assign]
        left: list[Callable[[], None]] = []
        for ready in (scheduled, from_thread):
            left.append(ready)
            seen.clear()
            while len(set(seen)) < 2:
                reactor.iterate(1)
            self.assertLess(seen.index(next(one for one in seen if one != "read")), 3)
        seen.clear()
        reactor.iterate(1)
        self.assertEqual(len(seen), 64)

    def test_timer_between_polls(self) -> None:
        """
        A timer comes when it is due, although there is always something to receive.
        """
        peer, reactor = self.connect(), self.loop.reactor
        (connection,) = self.factory._connections
        self.patch(reactor, "_started", True)
        seen: list[float] = []

        def serve() -> None:
            connection.frames.consume(connection.frames.held)
            peer.sock.send(b"\0")

        connection.frames_ready = serve  # type: ignore[method-assign]
        due = reactor.seconds() + 0.01
        reactor.callLater(0.01, lambda: seen.append(reactor.seconds()))
        peer.sock.send(b"\0")
        while not seen:
            reactor.runUntilCurrent()
            reactor.doIteration(reactor.timeout())
        self.assertGreaterEqual(seen[0], due)

    def test_work_left(self) -> None:
        """
        Connections that are readable at once may leave work until the last was read; a single one may not.
        """
        peers, turn = [self.connect(), self.connect()], self.loop.reactor.turn
        seen: list[object] = []

        def leave() -> None:
            turn.finish = lambda: seen.append("done")
            seen.append(turn.reading)

        def at_once() -> None:
            seen.append(turn.reading)

        connections = list(self.factory._connections)
        for connection in connections:
            connection.frames_ready = leave  # type: ignore[method-assign]
        for peer in peers:
            peer.sock.send(b"\0")
        self.loop.until(lambda: "done" in seen)
        self.assertEqual(seen, [*(connection.transport for connection in connections), "done"])
        self.assertIsNone(turn.reading)
        seen.clear()
        connections[0].frames_ready = at_once  # type: ignore[method-assign]
        peers[0].sock.send(b"\0")
        self.loop.until(lambda: seen)
        self.assertEqual(seen, [None])

    def test_work_left_before_others(self) -> None:
        """
        What is not one of our connections finds the work that was left done.
        """
        peer, turn = self.connect(), self.loop.reactor.turn
        seen: list[object] = []

        class Taker(Protocol):
            def dataReceived(self, data: bytes) -> None:
                seen.append((data, turn.reading, turn.finish))

        port: Any = self.loop.reactor.listenTCP(0, Factory.forProtocol(Taker), interface="127.0.0.1")
        (connection,) = self.factory._connections

        def leave() -> None:
            turn.finish = lambda: seen.append("done")

        connection.frames_ready = leave  # type: ignore[method-assign]
        with socket.create_connection(("127.0.0.1", port.getHost().port)) as taker:
            self.loop.turns()
            peer.sock.send(b"\0")
            taker.send(b"hello")
            self.loop.until(lambda: len(seen) == 2)
        self.assertEqual(set(seen), {"done", (b"hello", None, None)})

    def test_other_descriptors(self) -> None:
        """
        What is not ours is served as by any reactor.
        """
        received: list[bytes] = []

        class Taker(Protocol):
            def dataReceived(self, data: bytes) -> None:
                received.append(data)

        port: Any = self.loop.reactor.listenTCP(0, Factory.forProtocol(Taker), interface="127.0.0.1")
        with socket.create_connection(("127.0.0.1", port.getHost().port)) as peer:
            peer.send(b"hello")
            self.loop.until(lambda: received == [b"hello"])

    def test_clients(self) -> None:
        """
        A bug in what one of our own connections received is logged and ends it; a connection that is refused fails.
        """
        ended: list[object] = []
        results: list[Any] = []

        class Broken(Protocol):
            def dataReceived(self, data: bytes) -> None:
                raise RuntimeError("a bug")

            def connectionLost(self, reason: object = None) -> None:
                ended.append(reason)

        held = HeldPorts()
        self.addCleanup(held.close)
        port = held.free("127.0.0.1")
        with socket.create_server(("127.0.0.1", port)) as server:
            connecting = TCP4ClientEndpoint(self.loop.reactor, "127.0.0.1", port).connect(Factory.forProtocol(Broken))
            self.loop.until(lambda: connecting.called)
            peer, _ = server.accept()
            with peer:
                peer.send(b"hello")
                self.loop.until(lambda: ended)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        TCP4ClientEndpoint(self.loop.reactor, "127.0.0.1", port).connect(Factory.forProtocol(Broken)).addErrback(
            results.append
        )
        self.loop.until(lambda: results)
        results[0].trap(ConnectionRefusedError)

    def test_standstill(self) -> None:
        """
        A standstill, be it in a wait or in a turn, is told before anything that came meanwhile is served.
        """
        peer, reactor, uptime = self.connect(), self.loop.reactor, Clock()
        self.patch(reactor, "standstills", Standstills(uptime.seconds))
        connection = next(iter(self.factory._connections))
        seen: list[float | str] = []
        reactor.standstills.subscribe(seen.append)
        self.patch(connection, "frames_ready", lambda: seen.append("served"))

        def stand_still(seconds: float) -> None:
            uptime.advance(seconds)
            peer.sock.send(b"\0")
            until = monotonic() + 2 * SHORT
            while monotonic() < until:
                pass

        reactor.callLater(0, stand_still, 7.0)
        self.loop.until(lambda: len(seen) == 2)

        class Poller:
            """Is stopped while it waits."""

            def poll(self, *given: Any) -> Any:
                reactor._poller = poller
                stand_still(8.0)
                return poller.poll(*given)

        poller, reactor._poller = reactor._poller, Poller()
        self.loop.until(lambda: len(seen) == 4)
        self.assertEqual(seen, [7.0, "served", 8.0, "served"])

    def test_turns(self) -> None:
        """
        Each turn is measured, without the time in which the reactor has nothing to do.
        """
        turns = TurnTimes()
        self.patch(self.loop.reactor, "turns", turns)
        done: list[float] = []

        def work() -> None:
            begun = monotonic()
            while monotonic() < begun + 0.03:
                pass
            done.append(monotonic() - begun)

        self.loop.reactor.callLater(0.05, work)
        self.loop.until(lambda: done and turns.longest())
        self.assertGreaterEqual(turns.longest(), done[0])
        self.assertEqual(turns.lengths.count, sum(turns.lengths.counts))
        self.assertGreaterEqual(turns.lengths.sum, done[0])
