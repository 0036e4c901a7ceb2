"""
The seams plugins are written against.

A *protocol plugin* turns a listener of the broker into something that speaks a protocol (``kafka`` and ``admin`` are
built in; ``docs/howto/protocol-plugin.rst`` builds a line protocol).  An *admin resource* adds a page or a REST service
to the admin listener.  Both are found through :mod:`twisted.plugin`: put a file into ``twisted/plugins/`` of your
distribution with an instance that provides :class:`twisted.plugin.IPlugin` and one of these interfaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import frozen
from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred
    from twisted.internet.interfaces import IProtocolFactory
    from twisted.web.resource import IResource

    from logbus.records.batch import Record


@frozen
class Listener:
    """
    One place where the broker listens.

    :ivar name: how listeners are told apart; the protocol's name unless the operator gave one.
    :ivar protocol: name of the protocol plugin.
    :ivar endpoint: Twisted server endpoint string, such as ``tcp:9092:interface=127.0.0.1``.
    :ivar advertised: host and port that clients are told, or None for what was bound.
    """

    name: str
    protocol: str
    endpoint: str
    advertised: tuple[str, int] | None = None


class IBroker(Interface):
    """What a broker offers to its plugins."""

    broker_id: int = Attribute("This broker's id.")
    cluster_id: str = Attribute("The cluster's id, 22 characters.")
    reactor: object = Attribute("The broker's reactor; plugins never use the global one.")

    def append(
        topic: str, records: Sequence[tuple[bytes | None, bytes | None]], partition: int | None = None, acks: int = 1
    ) -> Deferred[tuple[int, int]]:
        """
        Append key/value pairs as one batch to ``topic``, created on first use where the broker allows it.

        :param partition: None takes the partitions in turn, a batch each.
        :param acks: 1 (written by the leader) or −1 (durable on all in-sync replicas).
        :return: fires with the partition and the offset of the first record.
        :raise ApiError: through the Deferred, with Kafka's code for the reason.
        """

    def read(topic: str, partition: int, offset: int, max_bytes: int = 1_048_576) -> list[Record]:
        """
        The committed records from ``offset`` on, about ``max_bytes`` of them; empty at the end.

        :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE, …
        """

    def create_topic(name: str, partitions: int = -1, configs: Mapping[str, str] | None = None) -> Deferred[None]:
        """Create a topic (−1 partitions: the broker's default); fires once it can be written to."""

    def topics() -> Mapping[str, int]:
        """The names of all topics, each with its number of partitions."""

    def kafka_factory(listener: Listener) -> IProtocolFactory:
        """A factory of connections that speak the Kafka protocol."""

    def admin_factory(listener: Listener) -> IProtocolFactory:
        """A factory of connections that speak HTTP: metrics, health, REST and the console."""


class IProtocolPlugin(Interface):
    """A protocol that ``--listen [NAME=]PROTOCOL:ENDPOINT`` can name."""

    name: str = Attribute("The PROTOCOL word: lower-case letters, digits and '-'.")
    summary: str = Attribute("One line for --help.")

    def factory(broker: IBroker, listener: Listener) -> IProtocolFactory:
        """
        Build what makes the protocol's connections.

        Called once a listener, before the broker serves.  If the factory has a ``drain`` method, it is called at
        shutdown after listening has stopped; it returns a Deferred that fires when what is in flight is answered.
        """


class IAdminResource(Interface):
    """A page or a REST service on the admin listener."""

    path: bytes = Attribute("The first path segment it is served under.")

    def resource(broker: IBroker) -> IResource:
        """The twisted.web resource; called once when the broker starts."""
