"""
The client's view of a cluster (Kafka: Metadata): its brokers, topic metadata, and a connection to each broker in use.

Metadata is kept until a caller finds it wrong (:meth:`Cluster.forget`), and requested again when it is next needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from twisted.internet.defer import Deferred

from logbus.client.cluster.addresses import parse_bootstrap
from logbus.client.cluster.attempts import Attempts
from logbus.client.cluster.broker_connections import BrokerConnections
from logbus.client.cluster.cluster_metrics import ClusterMetrics
from logbus.client.cluster.metadata_cache import MetadataCache
from logbus.client.cluster.topic_metadata import Node, PartitionMetadata, TopicMetadata
from logbus.client.retry import Backoff, NoBroker, UnknownBroker, Unreachable, api_error
from logbus.client.validators import InvalidOption, function, names_options, seconds, shown, text
from logbus.coroutines import returns_deferred, sleep
from logbus.errors import ApiError, Disconnected, ErrorCode, RequestTimedOut
from logbus.model import TopicPartition, topic_name_problem
from logbus.net.channel import Channel
from logbus.security.client_security import ClientSecurity
from logbus.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from twisted.internet.interfaces import IStreamClientEndpoint

__all__ = ["Cluster", "Node", "PartitionMetadata", "TopicMetadata"]

_RETRIED = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)


class ClusterArguments(TypedDict, total=False):
    """Options of :class:`Cluster`, but for how it connects."""

    client_id: str
    timeout: float
    connect_timeout: float
    patience: float
    backoff: Backoff | None
    security: ClientSecurity | Mapping[str, str] | None


class Cluster(MetadataCache):
    """
    Gives metadata and connections to producers, consumers and admin clients, which share it.

    :param reactor: provides connections and timers.
    :param bootstrap: ``HOST:PORT``, or several, as a list or separated by commas; tried in order until one answers.
    :param client_id: the client id in requests.
    :param timeout: seconds to wait for a response.
    :param connect_timeout: seconds to wait for a connection.
    :param patience: seconds for which an unknown topic is retried: a new topic is not known to all brokers at once.
    :param security: TLS and SASL, by the properties of Kafka's clients: ``{"security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": …}``, or a :class:`.ClientSecurity`, which can also have a
        function that gives tokens; default: neither.
    :param endpoint: makes the endpoint for a host and port; default: resolves names, IPv4 and IPv6.

    :ivar nodes: the brokers, by id; empty before the first metadata response.
    :ivar cluster_id: None before that.
    :ivar controller_id: −1 before that.
    :raises ConfigError: ``bootstrap`` is not a list of addresses, or another option is wrong.
    """

    @names_options("a Cluster")
    def __init__(
        self,
        reactor: Any,
        bootstrap: str | Iterable[str],
        *,
        client_id: str = "logbus",
        timeout: float = 30.0,
        connect_timeout: float = 10.0,
        patience: float = 0.5,
        backoff: Backoff | None = None,
        security: ClientSecurity | Mapping[str, str] | None = None,
        endpoint: Callable[[str, int], IStreamClientEndpoint] | None = None,
    ) -> None:
        if not callable(getattr(reactor, "callLater", None)):
            raise InvalidOption(f"reactor is {shown(reactor)}; give twisted.internet.reactor")
        text("client_id", client_id)
        for name, value in (("timeout", timeout), ("connect_timeout", connect_timeout)):
            seconds(name, value, positive=True)
        seconds("patience", patience)
        if not isinstance(backoff, Backoff | None):
            raise InvalidOption(f"backoff is {shown(backoff)}; give logbus.client.retry.Backoff(first, most)")
        function("endpoint", endpoint)
        if isinstance(security, Mapping):
            security = ClientSecurity.of(security)
        if not isinstance(security, ClientSecurity | None):
            raise InvalidOption(f"security is {shown(security)}; give a dict such as {{'security.protocol': 'SSL'}}")
        super().__init__()
        self.reactor = reactor
        self.bootstrap = parse_bootstrap(bootstrap)
        self.timeout = timeout
        self.backoff = backoff or Backoff()
        self._patience = patience
        security = security or ClientSecurity()
        self._principal = lambda: security.principal
        self._connections = BrokerConnections(
            reactor,
            endpoint or _hostname_endpoints(reactor),
            client_id=client_id,
            timeout=timeout,
            connect_timeout=connect_timeout,
            security=security,
        )

    @property
    def principal(self) -> str:
        """The principal of this client for brokers that do not map names, such as ``User:alice``."""
        return self._principal()

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._connections.is_closed

    @property
    def metrics(self) -> ClusterMetrics:
        """Counts of connections and requests, and their latencies."""
        return self._connections.metrics

    @property
    def silences(self) -> Mapping[str, float]:
        """The seconds for which responses of each connected broker are overdue, by its address."""
        return self._connections.silences()

    # Cached metadata.

    def known(self, name: str) -> TopicMetadata | None:
        """The cached metadata of a topic, if any."""
        return self._topics.get(name)

    def leader(self, partition: TopicPartition) -> int | None:
        """The cached leader of a partition; None if it is not known or there is none."""
        topic = self._topics.get(partition.topic)
        found = None if topic is None else topic.partitions.get(partition.partition)
        return None if found is None or found.leader < 0 or found.leader not in self.nodes else found.leader

    def forget(self, name: str) -> None:
        """Drop the metadata of a topic, which proved wrong."""
        self._topics.pop(name, None)

    # Requests.

    def attempts(self, patience: float = math.inf) -> Attempts:
        """Attempts at a request, for this many seconds from now on."""
        return Attempts(self.reactor, self.backoff, self.reactor.seconds() + patience)

    @returns_deferred
    async def topic(self, name: str, *, create: bool = False) -> TopicMetadata:
        """
        A topic's metadata, cached or requested.

        :param create: let the broker create a missing topic, if it is configured to.
        :raises ApiError: (in the Deferred) UNKNOWN_TOPIC_OR_PARTITION: it does not exist; or another error of the
            broker.
        :raises Unreachable: no broker answers.
        """
        topic = self._topics.get(name)
        if topic is not None:
            return topic
        deadline = self.reactor.seconds() + self._patience
        attempt = 0
        while True:
            (answer,) = await self._ask([name], create)
            if not answer.error_code:
                return self._topics[name]
            error = _topic_error(answer.error_code, name)
            if error.code not in _RETRIED or self.reactor.seconds() >= deadline:
                raise error
            attempt += 1
            await sleep(self.reactor, self.backoff.before(attempt))

    @returns_deferred
    async def topics(self) -> list[TopicMetadata]:
        """Request the metadata of all topics, by name."""
        answers = await self._ask(None, False)
        return [
            self._topics[each.name] for each in sorted(answers, key=lambda a: a.name or "") if each.name in self._topics
        ]

    @returns_deferred
    async def refresh_topics(self, names: Iterable[str]) -> dict[str, ApiError | None]:
        """
        Refresh the metadata of topics in one request. The cache stays in use until the response comes.

        :returns: fires with an error, or None, for each topic.
        :raises Unreachable: (in the Deferred) no broker answers.
        """
        found: dict[str, ApiError | None] = {}
        for each in await self._ask(list(names), False):
            name = each.name or ""
            found[name] = _topic_error(each.error_code, name) if each.error_code else None
        return found

    @returns_deferred
    async def refresh(self) -> None:
        """Request the list of brokers."""
        await self._ask([], False)

    @returns_deferred
    async def any_channel(self) -> Channel:
        """
        A connection to any broker.

        :raises Unreachable: (in the Deferred) no broker answers.
        """
        channel = self._connections.usable
        if channel is not None:
            return channel
        known = [(node.host, node.port) for node in self.nodes.values()]
        problems: list[Unreachable] = []
        for host, port in dict.fromkeys([*known, *self.bootstrap]):
            try:
                return await self._connections.channel(host, port)
            except Unreachable as e:
                problems.append(e)
        is_heard = any(isinstance(each, NoBroker) for each in problems)
        raise (NoBroker if is_heard else Unreachable)("; ".join(map(str, problems)))

    def channel(self, node_id: int, lane: str = "", *, lends: bool = False) -> Deferred[Channel]:
        """
        A connection to one broker.

        :param lane: names a connection. Responses on a connection come in order, so a long poll delays what follows;
            use a lane of your own for such requests.
        :param lends: the memory of records in responses is reused, see :func:`~logbus.net.connect.connect`; only for a
            lane of your own.
        :raises Unreachable: (in the Deferred) the broker is unknown, or cannot be connected to.
        """
        node = self.nodes.get(node_id)
        if node is None:
            return Deferred.fromCoroutine(self._unknown_node(node_id, lane, lends))
        return Deferred.fromCoroutine(self._connections.channel(node.host, node.port, lane, lends))

    def lane(self, name: str) -> str:
        """A new lane for :meth:`channel`."""
        return self._connections.lane(name)

    def close_lane(self, lane: str) -> None:
        """Close the connections of a lane."""
        self._connections.close_lane(lane)

    @returns_deferred
    async def controller(self) -> Channel:
        """A connection to the controller."""
        await self._ask([], False)
        node = self.nodes.get(self.controller_id)
        return await (self.any_channel() if node is None else self._connections.channel(node.host, node.port))

    def close(self) -> Deferred[None]:
        """
        Close all connections; fires when they are closed. Close producers and consumers before: what still uses the
        cluster fails with :class:`.ClientClosed`.
        """
        return self._connections.close()

    # Internals.

    async def _ask(self, names: list[str] | None, create: bool) -> list[MetadataResponseTopic]:
        """Request the metadata of topics, or (None) of all, and update the cache."""
        attempt = 0
        while True:
            channel = await self.any_channel()
            request = MetadataRequest(
                topics=None if names is None else [MetadataRequestTopic(name=name) for name in names],
                allow_auto_topic_creation=create,
            )
            try:
                response: MetadataResponse = await channel.request(request)
                break
            except RequestTimedOut:
                raise
            except Disconnected:
                # A broker closes idle connections; that may be noticed only now.
                attempt += 1
                if attempt > 2:
                    raise
        if response.error_code:
            raise api_error(response.error_code, "metadata")
        if names is None:
            self._topics.clear()
        self._update(response)
        return response.topics

    async def _unknown_node(self, node_id: int, lane: str, lends: bool) -> Channel:
        await self._ask([], False)
        node = self.nodes.get(node_id)
        if node is None:
            known = ", ".join(map(str, sorted(self.nodes)))
            raise UnknownBroker(f"broker {node_id} is not there; there are: {known}")
        return await self._connections.channel(node.host, node.port, lane, lends)


def _topic_error(code: int, name: str) -> ApiError:
    """The error of a topic in a metadata response."""
    error = api_error(code, f"topic {name}")
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return ApiError(error.code, f"there is no topic {name!r}")
    if error.code is ErrorCode.INVALID_TOPIC_EXCEPTION and (problem := topic_name_problem(name)) is not None:
        return ApiError(error.code, problem)
    return error


def _hostname_endpoints(reactor: Any) -> Callable[[str, int], IStreamClientEndpoint]:
    # Imported here, since it imports all kinds of endpoints.
    from twisted.internet.endpoints import HostnameEndpoint

    return lambda host, port: HostnameEndpoint(reactor, host, port)
