"""One connection of the memory network: its two ends, and the stream of segments in each direction."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IConsumer, IHalfCloseableProtocol, IPushProducer, ITCPTransport
from twisted.python.failure import Failure
from zope.interface import implementer

if TYPE_CHECKING:
    from logbus.testing.simulation.environment.network import Network

WINDOW = 1 << 18
"""Bytes in flight, or not yet read at the other end, before the sender is paused."""


class Stream:
    """
    One direction of a connection.

    :ivar held: segments that wait for a cut link.
    :ivar unread: bytes sent and not yet read.
    """

    __slots__ = ("_last", "_newest", "_sent_at", "held", "link", "network", "source", "target", "unread")

    def __init__(self, network: Network, source: Transport, target: Transport) -> None:
        self.network = network
        self.source = source
        self.target = target
        self.held: deque[tuple[str, list[bytes]]] = deque()
        self.unread = 0
        self._last = 0.0
        self._newest: list[bytes] | None = None
        self._sent_at = -1.0
        self.link = network.links.between(source.reactor.host, target.reactor.host)
        network.streams[self] = None

    def send(self, kind: str, data: bytes = b"") -> None:
        """Send bytes (``data``), or a change of the connection: ``made``, ``end``, ``reset``."""
        network = self.network
        clock = network.clock
        if kind == "data":
            self.unread += len(data)
            if self._newest is not None and self._sent_at == clock.now:
                # Writes of one turn go in one segment.
                self._newest.append(data)
                return
            self._newest = [data]
            self._sent_at = clock.now
            parts = self._newest
        else:
            self._newest = None
            parts = []
        self._last = max(self._last, clock.now + self.link.delay(network.random))
        clock.at(self._last, None, self._arrive, kind, parts)

    def _arrive(self, kind: str, parts: list[bytes]) -> None:
        if self._newest is parts:
            self._newest = None
        target = self.target
        if self.link.cuts or self.held or target.reactor.dead:
            self.held.append((kind, parts))
            if self.link.cuts:
                self.link.stopped += 1
            if target.reactor.dead and self.network.powered.get(target.reactor.host) and not self.link.cuts:
                self.again()
            return
        self._deliver(kind, parts)

    def again(self) -> None:
        """Send the waiting segments again."""
        if self.link.cuts:
            return
        held, self.held = self.held, deque()
        if self.target.reactor.dead:
            # Another process runs there now, without such a connection.
            if held and self.network.powered.get(self.target.reactor.host):
                if self.source.connected and not self.source.reactor.dead:
                    self.target.out.send("reset")
                self.forget()
            else:
                self.held = held
            return
        for kind, parts in held:
            self._deliver(kind, parts)

    def _deliver(self, kind: str, parts: list[bytes]) -> None:
        network, target = self.network, self.target
        data = b"".join(parts)
        network.bytes += len(data)
        network.trace(f"{self.source.reactor.host} {target.reactor.host} {target.local.port} {kind} {len(data)}")
        if target.reactor.frozen:
            network.clock.at(network.clock.now, target.reactor, target.arrived, kind, data)
        else:
            target.arrived(kind, data)

    def read(self, count: int) -> None:
        """The other end has read a number of bytes."""
        self.unread -= count
        source = self.source
        if source.producer_paused and self.unread <= WINDOW // 2:
            clock = self.network.clock
            clock.at(clock.now + self.link.latency, source.reactor, source.drained)

    def forget(self) -> None:
        """Nothing more will be sent."""
        self.network.streams.pop(self, None)


class Handle:
    """The socket of a transport, for socket options."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Keep the timeout for a silent machine; other options have no effect here."""
        if (level, option) == (socket.IPPROTO_TCP, getattr(socket, "TCP_USER_TIMEOUT", None)):
            self._transport.patience = value / 1000


@implementer(ITCPTransport, IConsumer, IPushProducer)
class Transport:
    """
    One end of a connection, as a protocol sees it.

    :ivar patience: seconds of silence of the other machine after which the connection ends; 0: never.
    :ivar made: called at the connecting end when the other end accepted.
    :ivar lost: called after the protocol when the connection is lost.
    """

    def __init__(self, network: Network, reactor: Any, local: IPv4Address, peer: IPv4Address) -> None:
        self.network = network
        self.reactor = reactor
        self.local = local
        self.peer = peer
        self.protocol: Any = None
        self.connected = False
        self.disconnecting = False
        self.patience = 0.0
        self.out: Stream
        self.back: Stream
        self.made: Callable[[], object] = lambda: None
        self.lost: Callable[[Failure], object] = lambda reason: None
        self.producer: Any = None
        self.producer_paused = False
        self._paused = False
        self._early = True
        self._ended = False
        self._inbox: deque[tuple[str, bytes]] = deque()

    def join(self, other: Transport) -> None:
        """Make these two the ends of a connection."""
        self.out = other.back = Stream(self.network, self, other)
        self.back = other.out = Stream(self.network, other, self)

    def begin(self, protocol: Any) -> None:
        """The connection is made."""
        self.protocol = protocol
        self.connected = True
        self._early = False
        protocol.makeConnection(self)
        self._read_on()

    # Called by the network, in this process.

    def arrived(self, kind: str, data: bytes) -> None:
        """A segment arrived."""
        if self.reactor.dead:
            return
        if kind == "made":
            self.made()
        elif self._early:
            # Accepted by the kernel, and not yet by the process.
            self._inbox.append((kind, data))
        elif not self.connected:
            if kind == "data":
                self.out.send("reset")
        elif kind == "reset":
            self._lose(ConnectionLost())
        elif self._paused or self._inbox:
            self._inbox.append((kind, data))
        else:
            self._take(kind, data)

    def drained(self) -> None:
        """There is room in the window again."""
        if self.producer_paused and self.producer is not None and self.connected:
            self.producer_paused = False
            self.producer.resumeProducing()

    def end_if_silent(self, since: float) -> None:
        """Close the connection if the other machine has been silent since a time."""
        links = (self.out.link, self.back.link)
        if self.out.target.reactor.dead or any(link.cuts and link.cut_since <= since for link in links):
            self.break_off()

    def break_off(self) -> None:
        """The network resets the connection."""
        self.network.clock.at(self.network.clock.now, self.reactor, self._lose, ConnectionLost())

    def _take(self, kind: str, data: bytes) -> None:
        if kind == "data":
            self.back.read(len(data))
            self.protocol.dataReceived(data)
        elif kind == "reset":
            self._lose(ConnectionLost())
        elif not self._ended:
            self._ended = True
            if IHalfCloseableProtocol.providedBy(self.protocol):
                self.protocol.readConnectionLost()
            else:
                self._lose(ConnectionDone())

    def _read_on(self) -> None:
        while self._inbox and not self._paused and self.connected:
            self._take(*self._inbox.popleft())

    def _lose(self, reason: Exception) -> None:
        if not self.connected:
            return
        self.connected = False
        self._inbox.clear()
        producer, self.producer = self.producer, None
        if producer is not None:
            producer.stopProducing()
        if not self.out.target.connected:
            self.out.forget()
            self.back.forget()
        if self.protocol is not None:
            self.protocol.connectionLost(Failure(reason))
        self.lost(Failure(reason))

    # Called by protocols.

    def write(self, data: bytes) -> None:
        """Send."""
        if not self.connected or self.disconnecting or self.reactor.dead or not data:
            return
        self.out.send("data", bytes(data))
        if self.out.unread > WINDOW and self.producer is not None and not self.producer_paused:
            self.producer_paused = True
            self.producer.pauseProducing()

    def writeSequence(self, iovec: Iterable[bytes]) -> None:
        """Send these."""
        self.write(b"".join(iovec))

    def loseConnection(self) -> None:
        """Close once all is sent."""
        if self.connected and not self.disconnecting:
            self.disconnecting = True
            if self.producer is None:
                self._close()

    def abortConnection(self) -> None:
        """Close at once."""
        if self.connected:
            self.disconnecting = True
            if not self.reactor.dead:
                self.out.send("reset")
            self.reactor.callLater(0, self._lose, ConnectionAborted())

    def loseWriteConnection(self) -> None:
        """Close this direction."""
        self.out.send("end")

    def _close(self) -> None:
        if not self.reactor.dead:
            self.out.send("end")
        self.reactor.callLater(0, self._lose, ConnectionDone())

    def getHandle(self) -> Handle:
        """The socket, for options."""
        return Handle(self)

    def getPeer(self) -> IPv4Address:
        """The other end."""
        return self.peer

    def getHost(self) -> IPv4Address:
        """This end."""
        return self.local

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Have a push producer paused while too many bytes are in flight."""
        if not streaming:
            raise NotImplementedError("push producers only")
        self.producer = producer
        if not self.connected:
            producer.stopProducing()

    def unregisterProducer(self) -> None:
        """The producer has ended."""
        self.producer = None
        self.producer_paused = False
        if self.disconnecting and self.connected:
            self._close()

    def pauseProducing(self) -> None:
        """Pause reading."""
        self._paused = True

    def resumeProducing(self) -> None:
        """Resume reading."""
        self._paused = False
        if self._inbox:
            self.reactor.callLater(0, self._read_on)

    def stopProducing(self) -> None:
        """The consumer is gone."""
        self.loseConnection()

    def getTcpNoDelay(self) -> bool:
        """Always on: there is no Nagle delay here."""
        return True

    def setTcpNoDelay(self, enabled: bool) -> None:
        """See above."""

    def getTcpKeepAlive(self) -> bool:
        """Off: kernels probe only after hours."""
        return False

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """See above."""
