"""The connections between the brokers of a cluster in one process, which can be cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, fail
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from zope.interface import implementer

from logbus.cluster.peers import ConnectTo

Link = frozenset[int]
"""The ids of two brokers."""


@define(eq=False)
class BrokerLinks:
    """
    The links of all brokers. In the thread of these only.

    :param broker_at: the id of the broker that listens at a port; None: there is none.
    """

    _broker_at: Callable[[int], int | None]
    _cut: set[Link] = field(factory=set, init=False)
    _open: dict[Link, list[Any]] = field(factory=dict, init=False)

    def from_broker(self, number: int, plain: ConnectTo) -> ConnectTo:
        """What makes a broker's endpoints to others."""

        def endpoint(host: str, port: int) -> IStreamClientEndpoint:
            other = self._broker_at(port)
            made = plain(host, port)
            return made if other is None else _Endpoint(self, frozenset((number, other)), made)

        return endpoint

    def cut(self, links: Iterable[Link]) -> None:
        """Close the connections of links, and let none be made until they are mended."""
        for link in links:
            self._cut.add(link)
            for protocol in self._open.pop(link, []):
                protocol.transport.abortConnection()

    def mend(self, number: int) -> None:
        """End all cuts of a broker."""
        self._cut = {link for link in self._cut if number not in link}

    def connect(self, link: Link, endpoint: IStreamClientEndpoint, factory: IProtocolFactory) -> Deferred[IProtocol]:
        """Connect, if the link is whole."""
        if link in self._cut:
            return fail(ConnectError(string="the link is cut"))
        connecting: Deferred[IProtocol] = endpoint.connect(factory)
        return connecting.addCallback(self._connected, link)

    def _connected(self, protocol: IProtocol, link: Link) -> IProtocol:
        transport: Any = protocol.transport  # type: ignore[attr-defined]
        if link in self._cut:
            transport.abortConnection()
        known = [each for each in self._open.get(link, []) if each.transport.connected]
        self._open[link] = [*known, protocol]
        return protocol


@implementer(IStreamClientEndpoint)
@frozen
class _Endpoint:
    _links: BrokerLinks
    _link: Link
    _endpoint: IStreamClientEndpoint

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        return self._links.connect(self._link, self._endpoint, protocolFactory)
