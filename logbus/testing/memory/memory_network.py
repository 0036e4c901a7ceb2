"""Connections in memory between brokers, and of clients to them; each way can be cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone, ConnectionRefusedError
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.testing.memory.memory_broker import MemoryBroker

__all__ = ["PORT", "MemoryNetwork", "host_of"]

PORT = 9092


def host_of(machine: int) -> str:
    """The address of a machine: of a broker by its id, or of a client by its number."""
    return f"10.1.0.{machine}"


class _End(StringTransport):
    """One end of a connection; what is written arrives in a later turn, unless the way is cut."""

    other: _End
    protocol: Any

    def __init__(self, network: MemoryNetwork, mine: int, theirs: int) -> None:
        super().__init__(IPv4Address("TCP", host_of(mine), PORT), IPv4Address("TCP", host_of(theirs), PORT))
        self.network, self.mine, self.theirs = network, mine, theirs
        self.open = True

    def write(self, data: bytes) -> None:
        if self.open:
            self.network.clock.callLater(0, self.other.receive, bytes(data))

    def writeSequence(self, data: Any) -> None:
        self.write(b"".join(data))

    def receive(self, data: bytes) -> None:
        if self.open and not self.network.is_cut(self.theirs, self.mine):
            self.protocol.dataReceived(data)

    def loseConnection(self) -> None:
        self.network.clock.callLater(0, self.lost)
        self.network.clock.callLater(0, self.other.hear_of_the_end)

    abortConnection = loseConnection

    def hear_of_the_end(self) -> None:
        if not self.network.is_cut(self.theirs, self.mine):
            self.lost()

    def lost(self) -> None:
        if self.open:
            self.open = False
            if self in self.network.ends:
                self.network.ends.remove(self)
            self.protocol.connectionLost(Failure(ConnectionDone()))


@implementer(IStreamClientEndpoint)
@define(eq=False)
class _Endpoint:
    """From a machine to a broker's address."""

    network: MemoryNetwork
    mine: int
    host: str

    def connect(self, protocolFactory: Any) -> Deferred[Any]:
        theirs = next((id for id in self.network.servers if host_of(id) == self.host), None)
        if theirs is None:
            return fail(ConnectionRefusedError(self.host))
        if self.network.is_cut(self.mine, theirs) or self.network.is_cut(theirs, self.mine):
            return Deferred()  # Nobody answers.
        factories = self.network.servers[theirs].plugin.factories
        if not factories:
            return fail(ConnectionRefusedError(self.host))
        client, accepted = _End(self.network, self.mine, theirs), _End(self.network, theirs, self.mine)
        client.other, accepted.other = accepted, client
        client.protocol = protocolFactory.buildProtocol(client.getPeer())
        accepted.protocol = next(iter(factories.values())).buildProtocol(accepted.getPeer())
        self.network.ends += [client, accepted]
        accepted.protocol.makeConnection(accepted)
        client.protocol.makeConnection(client)
        return succeed(client.protocol)


@define(eq=False)
class MemoryNetwork:
    """
    The network that brokers and clients connect over. Machines have numbers: a broker's is its id.

    :ivar servers: the brokers that run, by id.
    :ivar cuts: (from, to) pairs of machines that nothing gets through between.
    :ivar ends: both ends of each open connection.
    """

    clock: MemoryReactorClock
    servers: dict[int, MemoryBroker] = field(factory=dict)
    cuts: set[tuple[int, int]] = field(factory=set)
    ends: list[_End] = field(factory=list)

    def is_cut(self, source: int, target: int) -> bool:
        """Whether nothing gets through from one machine to another."""
        return (source, target) in self.cuts

    def from_machine(self, machine: int) -> Callable[[str, int], IStreamClientEndpoint]:
        """Makes a machine's endpoints for a host and port: the ``endpoint`` of a client's ``Cluster``."""
        return lambda host, port: _Endpoint(self, machine, host)
