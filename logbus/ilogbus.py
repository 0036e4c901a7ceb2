"""
The seams plugins are written against.

A *protocol plugin* turns a listener of the broker into something that speaks a protocol (``kafka`` and ``admin`` are
built in; ``docs/howto/protocol-plugin.rst`` builds a line protocol).  An *admin resource* adds a page or a REST service
to the admin listener.  Both are found through :mod:`twisted.plugin`: put a file into ``twisted/plugins/`` of your
distribution with an instance that provides :class:`twisted.plugin.IPlugin` and one of these interfaces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from attrs import frozen
from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from uuid import UUID

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


class Leadership(NamedTuple):
    """
    Who leads a partition: a broker's id (−1: nobody does), and the epoch, which grows with every election.

    A topic that is deleted and made again has another ``topic_id``.
    """

    broker_id: int
    epoch: int
    topic_id: UUID


class Fetched(NamedTuple):
    """
    Committed records, and the offset to go on from: also markers and what transactions aborted lie before it.

    That offset is the one that was asked for where there is nothing more.
    """

    records: list[Record]
    next_offset: int


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

    def fetch(topic: str, partition: int, offset: int, max_bytes: int = 1_048_576) -> Fetched:
        """
        As :meth:`read`, with where to go on: for who reads a partition to its end.

        :raise ApiError: as :meth:`read`.
        """

    def settled(topic: str, partition: int) -> Deferred[tuple[int, int]]:
        """
        Fires once all that the partition's leader, this broker, has got is committed, with the offsets of the first
        record and behind the last. Who reads that far has seen whatever was acknowledged to anybody before the call.

        :raise ApiError: through the Deferred: NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, …
        """

    def create_topic(
        name: str,
        partitions: int = -1,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = -1,
    ) -> Deferred[None]:
        """Create a topic (−1: the broker's default); fires once the controller has made it."""

    def leadership(topic: str, partition: int) -> Leadership:
        """
        Who leads a partition, as far as this broker has heard.

        :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION.
        """

    def brokers() -> list[int]:
        """The ids of all brokers that live, in order."""

    def answer_plugin(plugin: str, answers: Callable[[bytes], Deferred[bytes]]) -> None:
        """
        Have ``answers`` called with what :meth:`ask_plugin` on another broker asks.

        :param plugin: a name of the plugin's choice, the same on all brokers.
        :raise ValueError: somebody answers to that name already.
        """

    def ask_plugin(broker_id: int, plugin: str, body: bytes, seconds: float = 30.0) -> Deferred[bytes]:
        """
        Ask the same plugin on another broker, over the connections that brokers have among themselves.

        :param body: in the plugin's own words, at most 8 MiB; so the answer.
        :param seconds: to wait for the answer.
        :raise ApiError: through the Deferred. BROKER_NOT_AVAILABLE: it was not asked; NETWORK_EXCEPTION,
            REQUEST_TIMED_OUT: perhaps it was; UNSUPPORTED_VERSION: it has no such plugin; and what that one raises.
        """

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
    body_bytes: int = Attribute("The longest body of a request; may be left out, and is 65,536 then.")

    def resource(broker: IBroker) -> IResource:
        """The twisted.web resource; called once when the broker starts."""
