"""A connection in memory: what one end writes the other receives at once, or when it is let through."""

from __future__ import annotations

from collections import deque
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectError, ConnectionAborted
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure


@define(eq=False)
class End:
    """
    The transport of one end.

    :ivar producer: what it has registered.
    """

    wire: Wire
    protocol: Any = None
    other: Any = None
    producer: Any = None
    _paused: bool = False
    _unread: list[bytes] = field(factory=list)

    def arrived(self, data: bytes) -> None:
        if self._paused:
            self._unread.append(data)
        else:
            self.protocol.dataReceived(data)

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.producer = producer

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._paused = False
        data, self._unread = b"".join(self._unread), []
        self.wire.carry(self, data)

    def write(self, data: bytes) -> None:
        self.wire.carry(self.other, data)

    def abortConnection(self) -> None:
        self.wire.cut()


@define(eq=False)
class Wire:
    """
    :ivar held: nothing gets through for now.
    """

    client: End = field(init=False)
    server: End = field(init=False)
    held: bool = False
    lost: bool = False
    _under_way: deque[tuple[End, bytes]] = field(factory=deque, init=False)
    _carrying: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.client, self.server = End(self), End(self)
        self.client.other, self.server.other = self.server, self.client

    def carry(self, to: End, data: bytes) -> None:
        self._under_way.append((to, data))
        if self._carrying:
            return
        self._carrying = True
        try:
            while self._under_way and not self.held and not self.lost:
                to, data = self._under_way.popleft()
                to.arrived(data)
        finally:
            self._carrying = False

    def release(self) -> None:
        self.held = False
        self.carry(self.client, b"")

    def cut(self) -> None:
        """Both ends lose the connection; what is under way is lost."""
        if not self.lost:
            self.lost = True
            for end in (self.server, self.client):
                end.protocol.connectionLost(Failure(ConnectionAborted()))


@define(eq=False)
class MemoryEndpoint:
    """Connects to what a server's factory makes, unless it is down."""

    factory: Factory[Any]
    down: bool = False
    wires: list[Wire] = field(factory=list)

    def connect(self, factory: Factory[Any]) -> Deferred[Any]:
        if self.down:
            return fail(ConnectError())
        wire = Wire()
        self.wires.append(wire)
        for end, maker in ((wire.server, self.factory), (wire.client, factory)):
            end.protocol = maker.buildProtocol(None)
            end.protocol.makeConnection(end)
        return succeed(wire.client.protocol)
