"""Tests of :mod:`logbus.socket_server`: binding, opening, closing."""

from __future__ import annotations

import socket
from typing import Any, cast

from attrs import define, field
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.protocol import ServerFactory
from twisted.internet.testing import MemoryReactor, MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ConfigError
from logbus.ilogbus import Listener
from logbus.socket_server import SocketServer


class Factory(ServerFactory):
    """A factory whose connections take a while to finish."""

    def __init__(self) -> None:
        self.drained: Deferred[None] | None = None

    def drain(self) -> Deferred[None]:
        self.drained = Deferred()
        return self.drained


@define
class Plugin:
    """A protocol that keeps the factories it made."""

    name: str = "lines"
    summary: str = "lines"
    made: list[Factory] = field(factory=list)

    def factory(self, broker: Any, listener: Listener) -> Factory:
        self.made.append(Factory())
        return self.made[-1]


class FullReactor(MemoryReactor):
    """A reactor on which one port is taken."""

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:
        if port == 4444:
            raise CannotListenError(interface, port, OSError(98, "Address already in use"))
        return super().listenTCP(port, factory, backlog, interface)


@define
class PausingPort:
    """A port that may be paused."""

    host: Any
    reading: bool = True

    def getHost(self) -> Any:
        return self.host

    def startReading(self) -> None:
        self.reading = True

    def stopReading(self) -> None:
        self.reading = False

    def stopListening(self) -> None:
        self.reading = False


class PausingReactor(MemoryReactorClock):
    """A reactor with ports that may be paused."""

    def __init__(self) -> None:
        super().__init__()
        self.ports: list[PausingPort] = []

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:
        self.ports.append(PausingPort(IPv4Address("TCP", interface, port)))
        return self.ports[-1]


class SocketServerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.plugin = Plugin()

    def listening(self, *listeners: Listener) -> SocketServer:
        """Listeners without connections."""
        return SocketServer(FullReactor(), {"lines": self.plugin}, listeners)  # type: ignore[dict-item]

    def test_advertised(self) -> None:
        """
        Clients are told what was said they should be; without a port there, the one that was bound; and of every
        interface, this machine's name.
        """
        bound = self.successResultOf(
            self.listening(
                # A memory reactor is always on every interface.
                Listener("plain", "lines", "tcp:1001"),
                Listener("named", "lines", "tcp:1002", ("log.example.org", 9092)),
                Listener("ported", "lines", "tcp:1003:interface=127.0.0.1", ("log.example.org", 0)),
            ).bind(cast(Any, None))
        )
        self.assertEqual((bound["plain"].host, bound["plain"].port), (socket.gethostname(), 1001))
        self.assertEqual((bound["named"].host, bound["named"].port), ("log.example.org", 9092))
        self.assertEqual((bound["ported"].host, bound["ported"].port), ("log.example.org", 1003))

    def test_failures(self) -> None:
        """
        A protocol that is not there, an endpoint that is none, a port that is taken: named, with the listener.
        """
        for listener, words in (
            (Listener("x", "absent", "tcp:1"), "listener x: there is no protocol 'absent'; there are: lines"),
            (Listener("x", "lines", "tcp:port"), "listener x: 'tcp:port' is not a server endpoint"),
            (Listener("x", "lines", "nonsense"), "listener x: 'nonsense' is not a server endpoint"),
            (Listener("x", "lines", "tcp:4444"), "listener x (tcp:4444): "),
        ):
            with self.subTest(words):
                listening = self.listening(Listener("good", "lines", "tcp:1001:interface=127.0.0.1"), listener)
                error = self.failureResultOf(listening.bind(cast(Any, None)), ConfigError).value
                self.assertIn(words, str(error))

    def test_drain_waits_for_connections(self) -> None:
        """
        Draining asks each factory, then releases those who wait, and is over when all connections are.
        """
        listening = self.listening(Listener("a", "lines", "tcp:1001:interface=127.0.0.1"))
        self.successResultOf(listening.bind(cast(Any, None)))
        released: list[bool] = []
        drained = listening.drain(lambda: released.append(self.plugin.made[0].drained is not None))
        self.assertEqual(released, [True])
        self.assertNoResult(drained)
        assert self.plugin.made[0].drained is not None
        self.plugin.made[0].drained.callback(None)
        self.successResultOf(drained)

    def test_pause(self) -> None:
        """A listener that pauses accepts nothing for so long, whoever opens it; the others go on."""
        reactor = PausingReactor()
        listeners = [
            Listener(name, "lines", f"tcp:{port}:interface=127.0.0.1") for name, port in (("a", 1001), ("b", 1002))
        ]
        server = SocketServer(reactor, {"lines": self.plugin}, listeners)  # type: ignore[dict-item]
        self.successResultOf(server.bind(cast(Any, None)))
        a, b = reactor.ports
        server.open()
        self.assertEqual((a.reading, b.reading), (True, True))
        server.pause("a", 2.0)
        self.assertEqual((a.reading, b.reading), (False, True))
        server.open()
        reactor.advance(1.0)
        server.pause("a", 2.0)
        reactor.advance(1.5)
        self.assertEqual((a.reading, b.reading), (False, True))
        reactor.advance(0.5)
        self.assertEqual((a.reading, b.reading), (True, True))
        server.pause("b", 2.0)
        server.close()
        self.assertEqual(reactor.getDelayedCalls(), [])

    def test_closed_without_being_bound(self) -> None:
        """
        Listeners that were never opened close at once.
        """
        listening = self.listening()
        self.successResultOf(listening.close())
        self.successResultOf(listening.drain(lambda: None))
