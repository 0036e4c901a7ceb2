"""The connections between the brokers of a cluster in one process, which can be cut, one way or both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, fail
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from zope.interface import implementer

from logbus.cluster.peers import ConnectTo

Way = tuple[int, int]
"""From a broker to a broker: their ids."""


@define(eq=False)
class BrokerLinks:
    """
    The links of all brokers. In the thread of these only.

    :param broker_at: the id of the broker that listens at a port; None: there is none.
    :param accepted: the transports of the connections that a broker has accepted.
    """

    _broker_at: Callable[[int], int | None]
    _accepted: Callable[[int], Iterable[Any]]
    _cut: set[Way] = field(factory=set, init=False)
    _open: dict[Way, list[Any]] = field(factory=dict, init=False)
    _deaf: dict[Way, list[_Deaf]] = field(factory=dict, init=False)

    def from_broker(self, number: int, plain: ConnectTo) -> ConnectTo:
        """What makes a broker's endpoints to others."""

        def endpoint(host: str, port: int) -> IStreamClientEndpoint:
            other = self._broker_at(port)
            made = plain(host, port)
            return made if other is None else _Endpoint(self, (number, other), made)

        return endpoint

    def cut(self, ways: Iterable[Way]) -> None:
        """
        Let nothing through until these ways are mended.

        Connections of brokers that cannot reach each other either way are closed.  Of those that can in one, what is
        sent the other way is held.  No new ones are made, as TCP needs answers for that.
        """
        for way in ways:
            if way in self._cut:
                continue
            self._cut.add(way)
            if way[::-1] in self._cut:
                self._close(way)
            else:
                self._deaf[way] = [_Deaf(transport) for transport in self._receiving(way)]

    def mend(self, number: int) -> None:
        """End all cuts of a broker; what was held comes through."""
        self._cut = {way for way in self._cut if number not in way}
        for way in [way for way in self._deaf if number in way]:
            for each in self._deaf.pop(way):
                each.hear()

    def connect(self, way: Way, endpoint: IStreamClientEndpoint, factory: IProtocolFactory) -> Deferred[IProtocol]:
        """Connect the first broker of a way to the second, if their link is whole."""
        if self._is_cut(way):
            return fail(ConnectError(string="the link is cut"))
        connecting: Deferred[IProtocol] = endpoint.connect(factory)
        return connecting.addCallback(self._connected, way)

    def _connected(self, protocol: IProtocol, way: Way) -> IProtocol:
        transport: Any = protocol.transport  # type: ignore[attr-defined]
        if self._is_cut(way):
            transport.abortConnection()
        self._open[way] = [*self._connections(way), protocol]
        return protocol

    def _is_cut(self, way: Way) -> bool:
        return way in self._cut or way[::-1] in self._cut

    def _connections(self, way: Way) -> list[Any]:
        """Those that are open."""
        return [each for each in self._open.get(way, []) if each.transport.connected]

    def _close(self, way: Way) -> None:
        for each in (way, way[::-1]):
            for deaf in self._deaf.pop(each, []):
                deaf.hear()
            for protocol in self._open.pop(each, []):
                protocol.transport.abortConnection()

    def _receiving(self, way: Way) -> list[Any]:
        """The ends of connections that receive what the first broker of a way sends to the second."""
        made_here = {each.transport.getHost().port for each in self._connections(way)}
        accepted = [each for each in self._accepted(way[1]) if getattr(each.getPeer(), "port", None) in made_here]
        return [*accepted, *(each.transport for each in self._connections(way[::-1]))]


class _Deaf:
    """A transport that reads nothing, whatever its protocol asks for, until it hears again."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._wanted = transport in transport.reactor.getReaders()
        transport.stopReading()
        transport.startReading = lambda: self._want(True)
        transport.stopReading = lambda: self._want(False)

    def _want(self, wanted: bool) -> None:
        self._wanted = wanted

    def hear(self) -> None:
        """Read again, if its protocol would."""
        del self._transport.startReading, self._transport.stopReading
        if self._wanted and self._transport.connected:
            self._transport.startReading()


@implementer(IStreamClientEndpoint)
@frozen
class _Endpoint:
    _links: BrokerLinks
    _way: Way
    _endpoint: IStreamClientEndpoint

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        return self._links.connect(self._way, self._endpoint, protocolFactory)
