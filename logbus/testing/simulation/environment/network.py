"""
A TCP network in memory, over links that can be slow, cut in one direction or both, or reset.

Each connection keeps its order; different connections may overtake each other. Segments wait for a cut link, as TCP
sends them again. Segments to a machine that lost power are answered by a reset once it is back.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import CannotListenError, ConnectionRefusedError, TimeoutError, UserError
from twisted.internet.interfaces import IConnector, IListeningPort
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.testing.simulation.environment.network_links import Links
from logbus.testing.simulation.environment.transport import Stream, Transport
from logbus.testing.simulation.environment.virtual_clock import Call, Process, VirtualClock

_FIRST_PORT = 40_000


class Network:
    """
    All hosts, ports and connections.

    :ivar powered: whether the machine at an address is on; one without power does not answer.
    :ivar trace: called for each segment that arrives: its number of bytes, source and destination.
    """

    def __init__(self, clock: VirtualClock, random: Random, trace: Callable[[str], None] = lambda line: None) -> None:
        self.clock = clock
        self.random = random
        self.trace = trace
        self.links = Links()
        self.powered: dict[str, bool] = {}
        self.ports: dict[tuple[str, int], Port] = {}
        self.streams: dict[Stream, None] = {}
        self.bytes = 0
        self._last_port = _FIRST_PORT

    def new_port(self) -> int:
        """An unused port."""
        self._last_port += 1
        return self._last_port

    # Faults.

    def cut(self, source: str, target: str) -> None:
        """Cut one direction, until :meth:`mend` was called as often."""
        link = self.links.between(source, target)
        link.cuts += 1
        if link.cuts == 1:
            link.cut_since = self.clock.now
            for stream in list(self.streams):
                if link in (stream.link, stream.source.back.link):
                    self._lose_patience(stream)

    def mend(self, source: str, target: str) -> None:
        """End a cut; waiting segments are sent again."""
        link = self.links.between(source, target)
        link.cuts -= 1
        if link.cuts:
            return
        outage = self.clock.now - link.cut_since
        for stream in list(self.streams):
            if stream.held and (stream.source.reactor.host, stream.target.reactor.host) == (source, target):
                self.clock.at(self.clock.now + self.random.uniform(0.01, 0.2 + outage / 2), None, stream.again)

    def reset(self, one: str, other: str) -> int:
        """Reset the connections between two hosts; return their number."""
        count = 0
        for stream in list(self.streams):
            if (stream.source.reactor.host, stream.target.reactor.host) == (one, other):
                count += stream.source.connected
                stream.source.break_off()
                stream.target.break_off()
        return count

    def started(self, process: Any) -> None:
        """A process runs at an address; segments to the one before it are answered by a reset."""
        self.powered[process.host] = True
        for stream in list(self.streams):
            if stream.target.reactor.dead and stream.target.reactor.host == process.host:
                self.clock.at(self.clock.now + self.random.uniform(0.01, 3), None, stream.again)

    def ended(self, process: Any, *, silently: bool) -> None:
        """
        A process ended.

        :param silently: its machine stopped, too. Otherwise the kernel closes its connections.
        """
        self.powered[process.host] = not silently
        for key in [key for key, port in self.ports.items() if port.reactor is process]:
            del self.ports[key]
        for stream in list(self.streams):
            if stream.source.reactor is process:
                if not silently and stream.source.connected:
                    stream.send("reset" if self.random.random() < 0.5 else "end")
                stream.source.connected = False
            elif silently and stream.target.reactor is process:
                self._lose_patience(stream)

    def _lose_patience(self, stream: Stream) -> None:
        """One direction is cut: both ends may time out the connection later."""
        if stream.source.patience:
            now = self.clock.now
            self.clock.at(now + stream.source.patience, None, stream.source.end_if_silent, now)


@implementer(IListeningPort)
class Port:
    """A listening port; new connections wait while reading is stopped."""

    def __init__(self, network: Network, reactor: Any, port: int, factory: Any) -> None:
        self._network = network
        self.reactor = reactor
        self.factory = factory
        self.port = port or network.new_port()
        self._reading = True
        self._waiting: list[Transport] = []

    def startListening(self) -> None:
        """:raise CannotListenError: the port is taken."""
        key = (self.reactor.host, self.port)
        if key in self._network.ports:
            raise CannotListenError(self.reactor.host, self.port, OSError("address in use"))
        self._network.ports[key] = self
        self.factory.doStart()

    def stopListening(self) -> Deferred[None]:
        """Stop listening; waiting connections are reset."""
        key = (self.reactor.host, self.port)
        if self._network.ports.get(key) is self:
            del self._network.ports[key]
            self.factory.doStop()
        waiting, self._waiting = self._waiting, []
        for transport in waiting:
            transport.out.send("reset")
            transport.connected = False
        return succeed(None)

    def getHost(self) -> IPv4Address:
        """Its address."""
        return IPv4Address("TCP", self.reactor.host, self.port)

    def stopReading(self) -> None:
        """Pause accepting."""
        self._reading = False

    def startReading(self) -> None:
        """Accept again."""
        self._reading = True
        waiting, self._waiting = self._waiting, []
        for transport in waiting:
            self.reactor.callLater(0, self.accept, transport)

    def accept(self, transport: Transport) -> None:
        """Accept a connection, in the listening process."""
        if not self._reading:
            self._waiting.append(transport)
            return
        protocol = self.factory.buildProtocol(transport.getPeer())
        if protocol is None:
            transport.connected = True
            transport.abortConnection()
            return
        transport.begin(protocol)


@implementer(IConnector)
class Connector:
    """An attempt to connect, and the connection made by it."""

    def __init__(self, network: Network, reactor: Any, host: str, port: int, factory: Any, timeout: float) -> None:
        self._network = network
        self._reactor = reactor
        self._at = (host, port)
        self._factory = factory
        self._timeout = timeout
        self._state = "disconnected"
        self._expiry: Call | None = None
        self._attempt = 0
        self.transport: Transport | None = None

    def connect(self) -> None:
        """Begin."""
        if self._state != "disconnected":
            raise RuntimeError("it is connecting or connected")
        self._state = "connecting"
        self._factory.doStart()
        self._factory.startedConnecting(self)
        self._attempt += 1
        self._expiry = self._reactor.callLater(self._timeout, self._failed, self._attempt, TimeoutError())
        self._knock(self._attempt, 1.0)

    def getDestination(self) -> IPv4Address:
        """The address."""
        return IPv4Address("TCP", *self._at)

    def stopConnecting(self) -> None:
        """Give up."""
        self._failed(self._attempt, UserError())

    def disconnect(self) -> None:
        """Give up, or close the connection."""
        if self._state == "connecting":
            self.stopConnecting()
        elif self.transport is not None:
            self.transport.loseConnection()

    def _knock(self, attempt: int, again: float) -> None:
        """Send the opening segment; it is repeated until it gets through."""
        if attempt != self._attempt or self._state != "connecting" or self._reactor.dead:
            return
        network, clock = self._network, self._network.clock
        delay = network.links.between(self._reactor.host, self._at[0]).delay(network.random)
        clock.at(clock.now + delay, None, self._arrived, attempt, clock.now + again, again)

    def _arrived(self, attempt: int, retry_at: float, again: float) -> None:
        network, clock = self._network, self._network.clock
        if attempt != self._attempt or self._state != "connecting":
            return
        here, there = self._reactor.host, self._at[0]
        forth, back = network.links.between(here, there), network.links.between(there, here)
        if forth.cuts or back.cuts:
            (forth if forth.cuts else back).stopped += 1
        if forth.cuts or back.cuts or not network.powered.get(there):
            clock.at(retry_at, None, self._knock, attempt, again * 2)
            return
        port = network.ports.get(self._at)
        delay = back.delay(network.random)
        if port is None:
            clock.at(clock.now + delay, self._reactor, self._failed, attempt, ConnectionRefusedError())
            return
        mine = Transport(network, self._reactor, IPv4Address("TCP", here, network.new_port()), self.getDestination())
        theirs = Transport(network, port.reactor, mine.getPeer(), mine.getHost())
        mine.join(theirs)
        clock.at(clock.now, port.reactor, port.accept, theirs)
        mine.made = lambda: self._made(attempt, mine)
        theirs.out.send("made")

    def _made(self, attempt: int, transport: Transport) -> None:
        if attempt != self._attempt or self._state != "connecting":
            transport.out.send("reset")
            return
        self._end_expiry()
        self._state = "connected"
        self.transport = transport
        protocol = self._factory.buildProtocol(self.getDestination())
        if protocol is None:
            transport.connected = True
            transport.abortConnection()
            return
        transport.lost = self._lost
        transport.begin(protocol)

    def _failed(self, attempt: int, error: Exception) -> None:
        if attempt == self._attempt and self._state == "connecting":
            self._end_expiry()
            self._state = "disconnected"
            self._factory.clientConnectionFailed(self, Failure(error))
            if self._state == "disconnected":
                self._factory.doStop()

    def _end_expiry(self) -> None:
        if self._expiry is not None and self._expiry.active():
            self._expiry.cancel()

    def _lost(self, reason: Failure) -> None:
        self._state = "disconnected"
        self._factory.clientConnectionLost(self, reason)
        if self._state == "disconnected":
            self._factory.doStop()


__all__ = ["Connector", "Network", "Port", "Process"]
