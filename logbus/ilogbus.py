"""
The interfaces for plugins.

A *protocol plugin* implements a protocol on a listener of the broker (``kafka`` and ``admin`` are built in;
``docs/howto/protocol-plugin.rst`` builds a line protocol).  An *admin resource* adds a page or a REST service to the
admin listener.  Both are found through :mod:`twisted.plugin`: put a file into ``twisted/plugins/`` of your distribution
with an instance that provides :class:`twisted.plugin.IPlugin` and one of these interfaces.
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
    A listener of the broker.

    :ivar name: unique; the protocol's name unless the operator gave one.
    :ivar protocol: name of the protocol plugin.
    :ivar endpoint: Twisted server endpoint string, such as ``tcp:9092:interface=127.0.0.1``.
    :ivar advertised: host and port for clients, or None for the bound address.
    :ivar security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
    :ivar reuse_port: another process may have bound the port, too (SO_REUSEPORT).
    :ivar shared: other processes listen there as well, and the kernel gives each a share of the connections: it is
        never advertised, and the broker listens only while it serves. One that is advertised may have the same name.
    """

    name: str
    protocol: str
    endpoint: str
    advertised: tuple[str, int] | None = None
    security_protocol: str = "PLAINTEXT"
    reuse_port: bool = False
    shared: bool = False

    @property
    def has_tls(self) -> bool:
        """Whether its connections are encrypted."""
        return self.security_protocol.endswith("SSL")


class Leadership(NamedTuple):
    """
    The leader of a partition: a broker's id (−1: none), and the epoch, which increases with every election.

    A topic that is deleted and created again has another ``topic_id``.
    """

    broker_id: int
    epoch: int
    topic_id: UUID


class Fetched(NamedTuple):
    """
    Committed records, and the next offset to read, which is also past markers and aborted records.

    At the end of the log it is the requested offset.
    """

    records: list[Record]
    next_offset: int


class IPluginFile(Interface):
    """A small file of a plugin beside a partition's log; see :meth:`IBroker.plugin_file`."""

    def read() -> bytes:
        """Return its content; empty if there is no such file."""

    def append(data: bytes) -> None:
        """Append to it, into the page cache: a crash of the machine may lose that, or a part of it."""

    def replace(data: bytes) -> Deferred[None]:
        """Replace its content; fires when that is on stable storage. After a crash there is the old or the new."""


class IPluginClient(Interface):
    """
    The rights and quotas of a client of a plugin's listener. Refusals are in the audit log.

    Waits for quotas are the plugin's to keep: the client is over its quota for so many seconds.
    """

    principal: str = Attribute("``User:name``: of its ACLs and quotas; the client id of its quotas is the protocol's.")
    host: str = Attribute("Its address; empty on a UNIX socket.")

    def require_read(topic: str) -> None:
        """Check that it may read a topic; raises ApiError TOPIC_AUTHORIZATION_FAILED."""

    def require_write(topic: str) -> None:
        """Check that it may write to a topic, and create it if that is missing; raises as :meth:`require_read`."""

    def require_describe(topic: str) -> None:
        """Check that it may see a topic; raises as :meth:`require_read`."""

    def produced(size: int) -> float:
        """Count the bytes of a request that writes; return the seconds for which it must wait."""

    def fetched(size: int) -> float:
        """Count the bytes of a response with records; return the seconds for which it must wait."""


class IBroker(Interface):
    """The services of a broker for its plugins."""

    broker_id: int = Attribute("This broker's id.")
    cluster_id: str = Attribute("The cluster's id, 22 characters.")
    reactor: object = Attribute("The broker's reactor; plugins never use the global one.")

    def append(
        topic: str, records: Sequence[tuple[bytes | None, bytes | None]], partition: int | None = None, acks: int = 1
    ) -> Deferred[tuple[int, int]]:
        """
        Append key/value pairs as one batch to ``topic``, which is created if the broker allows it.

        :param partition: None: partitions in turn, a batch each.
        :param acks: 1 (written by the leader) or −1 (durable on all in-sync replicas).
        :return: fires with the partition and the offset of the first record.
        :raise ApiError: through the Deferred, with Kafka's code for the reason.
        """

    def read(topic: str, partition: int, offset: int, max_bytes: int = 1_048_576) -> list[Record]:
        """
        Return the committed records from ``offset`` on, about ``max_bytes``; empty at the end.

        :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE, …
        """

    def fetch(topic: str, partition: int, offset: int, max_bytes: int = 1_048_576) -> Fetched:
        """
        Like :meth:`read`, with the next offset to read.

        :raise ApiError: as :meth:`read`.
        """

    def settled(topic: str, partition: int) -> Deferred[tuple[int, int]]:
        """
        Wait until the whole log of a partition that this broker leads is committed; fires with its first and end
        offset. A reader up to there has seen everything that was acknowledged before the call.

        :raise ApiError: through the Deferred: NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, …
        """

    def create_topic(
        name: str,
        partitions: int = -1,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = -1,
    ) -> Deferred[None]:
        """Create a topic (−1: the broker's default); fires when the controller has created it."""

    def leadership(topic: str, partition: int) -> Leadership:
        """
        Return the leader of a partition, by this broker's metadata.

        :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION.
        """

    def brokers() -> list[int]:
        """Return the ids of all live brokers, in order."""

    def answer_plugin(plugin: str, answers: Callable[[bytes], Deferred[bytes]]) -> None:
        """
        Register ``answers`` to be called with requests of :meth:`ask_plugin` on other brokers.

        :param plugin: a name, the same on all brokers.
        :raise ValueError: the name is registered already.
        """

    def ask_plugin(broker_id: int, plugin: str, body: bytes, seconds: float = 30.0) -> Deferred[bytes]:
        """
        Send a request to the same plugin on another broker, over the inter-broker connections.

        :param body: in the plugin's own format, at most 8 MiB; so is the answer.
        :param seconds: timeout of the answer.
        :raise ApiError: through the Deferred. BROKER_NOT_AVAILABLE: the request was not sent; NETWORK_EXCEPTION,
            REQUEST_TIMED_OUT: it may have been; UNSUPPORTED_VERSION: there is no such plugin; also the plugin's errors.
        """

    def topics() -> Mapping[str, int]:
        """Return the names of all topics, each with its number of partitions."""

    def log_start_offset(topic: str, partition: int) -> int:
        """
        Return the first offset that the log of a partition that this broker leads still has.

        :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, …
        """

    def plugin_file(topic: str, partition: int, name: str) -> IPluginFile:
        """
        Return a small file of a plugin, beside the log of a partition that this broker has. It is deleted with the log,
        and goes with it to other log directories and into backups, but not to other brokers.

        :param name: lower-case letters, digits and '-', the plugin's name first; the file's is ``<name>.plugin``.
        :raise ApiError: through its methods, too: UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
        """

    def client(listener: Listener, host: str, port: int, principal: str | None = None) -> IPluginClient:
        """
        Return the rights and quotas of a client that connected to a plugin's listener.

        :param host: its address; empty on a UNIX socket.
        :param principal: ``User:name``, if the protocol has a login; None: the listener's, ``User:`` and its name.
        """

    def kafka_factory(listener: Listener) -> IProtocolFactory:
        """Return a factory of connections with the Kafka protocol."""

    def admin_factory(listener: Listener) -> IProtocolFactory:
        """Return a factory of HTTP connections: metrics, health, REST and plugins' resources."""


class IProtocolPlugin(Interface):
    """A protocol that ``--listen [NAME=]PROTOCOL:ENDPOINT`` can name."""

    name: str = Attribute("The PROTOCOL word: lower-case letters, digits and '-'.")
    summary: str = Attribute("One line for --help.")

    def factory(broker: IBroker, listener: Listener) -> IProtocolFactory:
        """
        Return the factory of the protocol's connections.

        Called once per listener, before the broker serves.  If the factory has a ``drain`` method, it is called at
        shutdown after listening has stopped; it returns a Deferred that fires when all requests are answered.
        """


class IAdminResource(Interface):
    """A page or a REST service on the admin listener."""

    path: bytes = Attribute("The first path segment it is served under.")
    body_bytes: int = Attribute("The longest body of a request; may be left out, and is 65,536 then.")
    authorizes: bool = Attribute(
        "Whether its requests' rights are its own matter: their ``access`` has a principal, ``may`` and ``require`` "
        "(:class:`logbus.admin.authorization.HttpAccess`). May be left out: with an authorizer, GET needs Describe on "
        "the cluster then, and all else Alter."
    )

    def resource(broker: IBroker) -> IResource:
        """Return the twisted.web resource; called once when the broker starts."""
