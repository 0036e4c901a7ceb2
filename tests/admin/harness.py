"""An admin site over fakes, and a client that connects to it through twisted.web's channel."""

from __future__ import annotations

import http.client
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn, cast
from uuid import UUID

from attrs import define, field
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from logbus.admin.authentication import HttpAuthentication, HttpLoginMetrics, HttpLogins
from logbus.admin.authorization import HttpAuthorization
from logbus.admin.http_limits import HttpLimits
from logbus.admin.kafka_requests import KafkaRequests
from logbus.admin.pages import NoPages, Pages
from logbus.admin.relay import Relay
from logbus.admin.site import AdminSite
from logbus.cluster.cluster_metadata import BrokerImage, ClusterMetadata, PartitionImage
from logbus.conditions import Conditions
from logbus.config.config_view import ConfigView
from logbus.config.topic_config import TopicConfig
from logbus.coordination.group_lag_history import LagHistory
from logbus.coordination.group_lags import GroupLags
from logbus.coordination.group_offsets import CommittedOffset
from logbus.coordination.transactions.transaction_loader import TransactionCoordinatorMetrics
from logbus.coordination.transactions.transaction_metadata import TransactionMetadata
from logbus.errors import ApiError, ErrorCode
from logbus.ilogbus import IAdminResource
from logbus.metrics import Registry
from logbus.model import Endpoint, LeaderAndIsr, TopicPartition
from logbus.net.connection_limits import WarningLimiter
from logbus.net.request_context import RequestContext
from logbus.security.sasl.mechanism import Login
from logbus.security.sasl.scram_credential import ScramCredential
from logbus.security.sasl.scram_server import ScramAccount
from logbus.storage.log_snapshots import NoSnapshot
from logbus.wire.connection import Request

NOW = 1_700_000_000.0
ORDERS = UUID("7f0a4a52-9a3e-4a2e-8f11-0c8c6a2f9b01")


def replica(topic: str, partition: int, **log: Any) -> Any:
    """A fake replica with what the views use."""
    values = {"log_start_offset": 0, "log_end_offset": 10, "size": 700, "has_producers": False, **log}
    values.setdefault("producers_in_memory", None)
    values.setdefault("producers", {})
    values.setdefault("config", TopicConfig())
    return SimpleNamespace(
        topic_partition=TopicPartition(topic, partition),
        high_watermark=9,
        last_stable_offset=8,
        partition=SimpleNamespace(is_leader=True, leader_and_isr=LeaderAndIsr(0, 1, (0,))),
        log=SimpleNamespace(disk=SimpleNamespace(root="/var/lib/logbus"), **values),
    )


class MadeUpReplicas:
    """Fake replicas of a broker."""

    def __init__(self) -> None:
        self.by_name: dict[tuple[str, int], Any] = {}

    def add(self, one: Any) -> None:
        self.by_name[one.topic_partition] = one

    def find(self, topic: str, partition: int) -> Any:
        return self.by_name.get((topic, partition))

    def leader(self, topic: str, partition: int) -> Any:
        found = self.find(topic, partition)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no {topic}-{partition}.")
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self.by_name.values()))


@define(eq=False)
class MadeUpTopics:
    """
    A fake administration that records calls and applies them to an image.

    :ivar waiting: what deletions wait for; None: nothing.
    """

    metadata: ClusterMetadata
    view: ConfigView
    created: list[Any] = field(factory=list)
    deleted: list[Any] = field(factory=list)
    waiting: Deferred[None] | None = None

    def create_topics(
        self, topics: Sequence[Any], *, timeout_ms: int, validate_only: bool = False
    ) -> Deferred[list[Any]]:
        assert not validate_only
        (new,) = topics
        self.created.append(new)
        if new.name in self.metadata.topics:
            return succeed([ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {new.name!r} exists already")])
        add_topic(self.metadata, new.name, UUID(int=7), max(new.num_partitions, 1), dict(new.configs))
        return succeed([object()])

    def delete_topics(self, topics: Sequence[Any], *, timeout_ms: int) -> Deferred[list[Any]]:
        (topic_id,) = topics
        self.deleted.append(topic_id)
        topic = self.metadata.topic_by_id(topic_id)
        assert topic is not None
        with self.metadata.changing():
            self.metadata.remove_topic(topic.name)
        done: Deferred[list[Any]] = succeed([(topic.name, topic_id)])
        waiting = self.waiting
        return done if waiting is None else done.addCallback(lambda result: waiting.addCallback(lambda _: result))

    def alter_topic_configs(
        self, edits: Mapping[str, Callable[[Any], Any]], *, validate_only: bool = False
    ) -> Deferred[dict[str, Any]]:
        assert not validate_only
        ((name, edit),) = edits.items()
        topic = self.metadata.topics[name]
        try:
            wanted = edit(topic.configs)
            self.view.validate_topic_overrides(wanted)
        except Exception as e:
            return succeed({name: ApiError(ErrorCode.INVALID_CONFIG, str(e))})
        with self.metadata.changing():
            self.metadata.set_configs(name, wanted)
        return succeed({name: None})


def add_topic(
    metadata: ClusterMetadata, name: str, topic_id: UUID, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    """Put a topic led by broker 0 into an image."""
    image = PartitionImage((0,), LeaderAndIsr(0, 3, (0,)))
    with metadata.changing():
        metadata.set_partitions(name, topic_id, [(number, image) for number in range(partitions)])
        metadata.set_configs(name, configs or {})


class _Unclosed(io.BytesIO):
    """A file that stays readable after the answer was parsed from it."""

    def close(self) -> None:
        """Answered later by the test."""


class Answered:
    """An answer parsed by a client."""

    def __init__(self, data: bytes, method: str = "GET") -> None:
        source = _Unclosed(data)
        response = http.client.HTTPResponse(cast(Any, SimpleNamespace(makefile=lambda mode: source)), method=method)
        response.begin()
        self.status = response.status
        self.reason = response.reason
        self.headers = response.headers
        try:
            self.body = response.read()
        except http.client.IncompleteRead as e:
            if self.headers["Content-Type"] != "text/event-stream":
                raise
            self.body = e.partial  # it has no end
        self.rest = source.read()

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


class Turning(Clock):
    """A clock that can turn as a reactor does: what is asked for during a turn is for the next one."""

    def turn(self) -> None:
        """One turn, without time passing."""
        for call in [call for call in self.calls if call.getTime() <= self.seconds()]:
            if call.active():
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)


class Connection:
    """A client's connection to a site."""

    def __init__(self, site: AdminSite, local: str = "127.0.0.1", peer: str = "127.0.0.1") -> None:
        address = IPv4Address("TCP", peer, 50_000)
        self.transport = StringTransport(IPv4Address("TCP", local, 8080), address)
        protocol = site.buildProtocol(address)
        assert protocol is not None
        self.protocol: Protocol = protocol
        self.protocol.makeConnection(self.transport)

    def send(self, data: bytes) -> None:
        """Bytes arrive at the server."""
        self.protocol.dataReceived(data)

    def take(self) -> bytes:
        """Return the bytes sent since the last call."""
        data = self.transport.value()
        self.transport.clear()
        return data

    def lose(self, tell_producer: bool = True) -> None:
        """The connection is gone."""
        producer = self.transport.producer
        if producer is not None and tell_producer:
            producer.stopProducing()
        self.protocol.connectionLost(Failure(ConnectionDone()))

    @property
    def aborted(self) -> bool:
        """Whether the server has cut the connection off."""
        return bool(self.transport.disconnected)

    @property
    def closed(self) -> bool:
        """Whether the server has closed, or is about to."""
        return bool(self.transport.disconnecting) or self.aborted


@define(eq=False)
class MadeUpGroups:
    """
    A coordinator with one shard.

    :ivar shard: groups and offsets by id.
    :ivar problem: why it cannot say.
    """

    shard: Any = field(factory=lambda: SimpleNamespace(groups={}, offsets={}))
    loading: bool = False
    problem: ApiError | None = None

    def add(self, group: Any, offsets: Mapping[TopicPartition, CommittedOffset] | None = None) -> None:
        self.shard.groups[group.group_id] = group
        if offsets:
            self.shard.offsets[group.group_id] = SimpleNamespace(committed=dict(offsets))

    def active_shards(self) -> Iterator[Any]:
        return iter([self.shard])

    def partition_of(self, group_id: str) -> int:
        return 0

    def groups(self) -> list[Any]:
        return list(self.shard.groups.values())

    def group(self, group_id: str) -> Any:
        if self.problem is not None:
            raise self.problem
        return self.shard.groups.get(group_id)

    def committed(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        if self.problem is not None:
            raise self.problem
        offsets = self.shard.offsets.get(group_id)
        return {} if offsets is None else offsets.committed  # type: ignore[no-any-return]

    def offsets(self, group_id: str) -> Any:
        return SimpleNamespace(committed=self.committed(group_id))


class NothingHangs:
    """There are no hanging transactions."""

    async def find(self, before_ms: int) -> list[Any]:
        return []


@define(eq=False)
class MadeUpTransactions:
    """
    A coordinator of transactions.

    :ivar known: by transactional id.
    :ivar problem: why it cannot say.
    """

    known: dict[str, TransactionMetadata] = field(factory=dict)
    loading: bool = False
    problem: ApiError | None = None
    shards: dict[int, Any] = field(factory=dict)
    markers: Any = field(factory=lambda: SimpleNamespace(partitions=0))
    metrics: TransactionCoordinatorMetrics = field(factory=TransactionCoordinatorMetrics)
    config: ConfigView = field(factory=ConfigView.load)

    def add(self, transaction: TransactionMetadata) -> None:
        self.known[transaction.transactional_id] = transaction

    def partition_of(self, transactional_id: str) -> int:
        return 0

    def wall_ms(self) -> int:
        return int(NOW * 1000)

    def transactions(self) -> list[TransactionMetadata]:
        return list(self.known.values())

    def describe(self, transactional_id: str) -> TransactionMetadata:
        if self.problem is not None:
            raise self.problem
        if transactional_id not in self.known:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return self.known[transactional_id]


@define(eq=False)
class MadeUpBroker:
    """The fake broker for plugins."""

    broker_id: int

    def answer_plugin(self, plugin: str, answers: object) -> None:
        """There are no others that could ask."""


@define(eq=False)
class Threads:
    """
    Runs at once what is for a thread, unless it is to wait.

    :ivar ran: how much was.
    :ivar held: what waits.
    """

    ran: int = 0
    hold: bool = False
    held: list[tuple[Callable[[], bool], Deferred[bool]]] = field(factory=list)

    def run(self, function: Callable[[], bool]) -> Deferred[bool]:
        """As a thread would."""
        self.ran += 1
        done: Deferred[bool] = Deferred()
        if self.hold:
            self.held.append((function, done))
        else:
            done.callback(function())
        return done

    def release(self) -> None:
        """Run what waits."""
        self.hold = False
        while self.held:
            function, done = self.held.pop(0)
            done.callback(function())


def _no_handlers(context: RequestContext, request: Request) -> NoReturn:
    raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE)


class NoSnapshots:
    """Snapshots of a broker that has none, and cannot make one."""

    current = None

    async def make(self, kept_seconds: float) -> NoReturn:
        raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE)

    def renew(self, name: str, kept_seconds: float) -> NoReturn:
        raise NoSnapshot(name)

    def release(self, name: str) -> NoReturn:
        raise NoSnapshot(name)


@define(eq=False)
class World:
    """A site with its fakes."""

    broker_id: int = 0
    limits: HttpLimits = field(factory=HttpLimits)
    settings: Mapping[str, str] = field(factory=dict)
    plugins: Iterable[IAdminResource] = ()
    make_pages: Callable[[AdminSite], Pages] = lambda site: NoPages()
    clock: Turning = field(factory=Turning)
    registry: Registry = field(factory=Registry)
    replicas: MadeUpReplicas = field(factory=MadeUpReplicas)
    groups: MadeUpGroups = field(factory=MadeUpGroups)
    transactions: MadeUpTransactions = field(factory=MadeUpTransactions)
    hanging: NothingHangs = field(factory=NothingHangs)
    reasons: list[str] = field(factory=list)
    conditions: Conditions = field(factory=Conditions)
    stop: Callable[[], object] | None = None
    authorizer: Any = None
    logins: HttpLogins = field(factory=HttpLogins)
    accounts: dict[tuple[str, str], ScramCredential] = field(factory=dict)
    threads: Threads = field(factory=Threads)
    login_metrics: HttpLoginMetrics = field(factory=HttpLoginMetrics)
    mirrors: list[Any] = field(factory=list)
    others: dict[int, World] = field(factory=dict)
    view: ConfigView = field(init=False)
    metadata: ClusterMetadata = field(init=False)
    topics: MadeUpTopics = field(init=False)
    site: AdminSite = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.view = ConfigView.load(set=self.settings)
        self.metadata = ClusterMetadata("abcdefghijklmnopqrstuv", controller_id=0)
        endpoint = Endpoint("kafka", "127.0.0.1", 9092)
        with self.metadata.changing():
            self.metadata.set_brokers({0: BrokerImage(0, {"kafka": endpoint}, epoch=5)})
        add_topic(self.metadata, "orders", ORDERS, 3, {"retention.ms": "1000"})
        self.replicas.add(replica("orders", 0))
        self.topics = MadeUpTopics(self.metadata, self.view)
        lags = GroupLags(cast(Any, self.groups), cast(Any, self.replicas))
        self.site = AdminSite(
            broker=cast(Any, MadeUpBroker(self.broker_id)),
            relay=Relay(self.broker_id, self.metadata, self.ask_other, cast(Any, self.clock)),
            metadata=self.metadata,
            replicas=cast(Any, self.replicas),
            topics=cast(Any, self.topics),
            lags=lags,
            lag_history=LagHistory(lags, cast(Any, self.clock), lambda: NOW),
            transactions=cast(Any, self.transactions),
            hanging_transactions=cast(Any, self.hanging),
            snapshots=cast(Any, NoSnapshots()),
            requests=KafkaRequests(
                _no_handlers, lambda: dict.fromkeys(range(100), (0, 20)), "admin", cast(Any, self.clock)
            ),
            replication=cast(Any, SimpleNamespace(partition_families=lambda: iter(()))),
            config=self.view,
            authentication=HttpAuthentication(
                lambda: self.logins,
                cast(Any, self.clock),
                self.threads.run,
                lambda: 0.1,
                self._account,
                metrics=self.login_metrics,
            ),
            authorization=HttpAuthorization("admin", self.authorizer, WarningLimiter(self.clock.seconds)),
            registry=self.registry,
            internal_topics={"__consumer_offsets"},
            not_ready=lambda: self.reasons,
            conditions=self.conditions,
            mirrors=lambda: self.mirrors,
            clock=cast(Any, self.clock),
            wall_clock=lambda: NOW,
            plugins=self.plugins,
            stop=lambda: self.stop,
            limits=self.limits,
            host_name="node1",
            make_pages=self.make_pages,
        )
        self.site.startFactory()

    def ask_other(self, broker_id: int, name: str, body: bytes, seconds: float) -> Deferred[bytes]:
        """Have another broker answer; without :attr:`others` nobody does."""
        if broker_id not in self.others:
            return fail(ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "it cannot be reached"))
        return Deferred.fromCoroutine(self.others[broker_id].site.relay.answer(body))

    def _account(self, mechanism: str, user: str, by_token: bool) -> ScramAccount | None:
        credential = self.accounts.get((mechanism, user))
        return None if credential is None else ScramAccount(credential, Login(user))

    def connect(self, local: str = "127.0.0.1", peer: str = "127.0.0.1") -> Connection:
        """A new connection."""
        return Connection(self.site, local, peer)

    def turn(self, times: int = 500) -> None:
        """Let the reactor turn without time passing."""
        for _ in range(times):
            self.clock.turn()

    def ask(
        self,
        method: str,
        target: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        local: str = "127.0.0.1",
    ) -> Answered:
        """One request on a connection of its own; a body that is not bytes is sent as JSON."""
        connection = self.connect(local)
        connection.send(request(method, target, body, headers))
        self.turn()
        answered = Answered(connection.take(), method)
        connection.lose()
        return answered


def request(method: str, target: str, body: Any = None, headers: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a request."""
    lines = {"Host": "localhost:8080"}
    data = b""
    if body is not None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
    lines |= headers or {}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + data
