"""
The factory of an admin listener.

twisted.web is imported with the first connection, and the views of all routes with the first request, so that a broker
starts faster and an unused listener costs no memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import uuid4

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import Protocol, ServerFactory
from twisted.logger import Logger

from logbus.admin.authentication import HttpAuthentication
from logbus.admin.authorization import HttpAuthorization
from logbus.admin.cluster_events import ClusterEventViews
from logbus.admin.event_log import EventLog
from logbus.admin.event_stream import EventStreams
from logbus.admin.http_limits import HttpLimits
from logbus.admin.kafka_requests import KafkaRequests
from logbus.admin.metric_history import MetricHistory
from logbus.admin.pages import NoPages, Pages
from logbus.admin.relay import Relay, RelayedRequest
from logbus.admin.request_guard import RequestGuard
from logbus.admin.routing import PendingResponse, Router
from logbus.attrs_code import kept_attrs_code
from logbus.cluster.broker_snapshots import BrokerSnapshots
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.replication.partition_metrics import partition_families
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.cluster.replication_metrics import ReplicationMetrics
from logbus.cluster.topic_admin_forwarder import TopicAdminForwarder
from logbus.conditions import Conditions
from logbus.config import keys
from logbus.config.config_view import ConfigView
from logbus.coordination.group_lag_history import LagHistory
from logbus.coordination.group_lags import GroupLags
from logbus.coordination.transactions.hanging_transactions import HangingTransactions
from logbus.coordination.transactions.transaction_coordinator import TransactionCoordinator
from logbus.exposition import process_families
from logbus.ilogbus import IAdminResource, IBroker
from logbus.metrics import Family, Registry
from logbus.plugins import installed_plugins
from logbus.series_limit import limit_series

if TYPE_CHECKING:
    from twisted.web.resource import IResource

    from logbus.admin.channel import AdminHTTPFactory
    from logbus.admin.metrics_view import Combine
    from logbus.mirror.running_mirror import RunningMirror

CONSOLE = b"console"
"""The first segment of the paths of pages."""
OWN = frozenset({b"api", b"healthz", b"metrics", b"readyz"})
"""The first segments of the paths of routes, which are not made before something is asked for."""
LEGAL_MOUNT = re.compile(rb"[A-Za-z0-9_-][A-Za-z0-9._-]*")


@frozen
class MountedResource:
    """
    The resource of a plugin.

    :ivar body_bytes: the longest body of its requests.
    :ivar authorizes: whether it asks for rights itself.
    """

    resource: IResource
    body_bytes: int
    authorizes: bool


@define(eq=False, repr=False, slots=False, kw_only=True)
class AdminSite(ServerFactory):
    """
    Serves HTTP: ``/metrics``, ``/healthz``, ``/readyz``, ``/api/v1/`` and the resources of plugins.

    :ivar broker: passed to the resources of plugins.
    :ivar relay: passes requests on to the brokers that serve them.
    :ivar topics: creates, deletes and configures topics.
    :ivar lags: the groups this broker coordinates, and their lags.
    :ivar lag_history: these lags over the last hour.
    :ivar transactions: the transactional ids this broker coordinates.
    :ivar snapshots: makes snapshots of this broker's files, for backups.
    :ivar requests: serves Kafka requests for clients of HTTP.
    :ivar replication: the metrics of replication.
    :ivar config: this broker's configuration, with the ``admin.*`` keys.
    :ivar authentication: tells who a client is.
    :ivar authorization: tells what a client may do.
    :ivar internal_topics: names of topics that only brokers write to.
    :ivar streams: streams of events to clients; ``events``: those of the cluster's changes.
    :ivar history: a few metrics over the last hour, which whoever shows them has it keep.
    :ivar not_ready: returns the reasons why clients should not use this broker now, a sentence each.
    :ivar conditions: what is wrong with this broker.
    :ivar mirrors: returns the mirrors that this broker runs.
    :ivar clock: the broker's reactor, for the timers of connections.
    :ivar wall_clock: seconds since 1970, for the ``Date`` of answers.
    :ivar stop: returns the function that stops this process in order, if there is one.
    :ivar combine_metrics: returns what makes metrics those of several brokers that are run as one, if there are others.
    :ivar host_name: this machine's name, accepted as ``Host``.
    :ivar make_pages: returns the pages for browsers, made from the routes.
    :ivar plugins: resources to mount; None: all that :mod:`twisted.plugin` finds.
    """

    noisy = False

    broker: IBroker
    relay: Relay
    metadata: ClusterMetadata
    replicas: ReplicaManager
    topics: TopicAdminForwarder
    lags: GroupLags
    lag_history: LagHistory
    transactions: TransactionCoordinator
    hanging_transactions: HangingTransactions
    snapshots: BrokerSnapshots
    requests: KafkaRequests
    replication: ReplicationMetrics
    config: ConfigView
    authentication: HttpAuthentication
    authorization: HttpAuthorization
    registry: Registry
    internal_topics: Collection[str]
    not_ready: Callable[[], Sequence[str]]
    conditions: Conditions
    clock: IReactorTime
    wall_clock: Callable[[], float]
    host_name: str = ""
    plugins: Iterable[IAdminResource] | None = None
    stop: Callable[[], Callable[[], object] | None] = lambda: None
    combine_metrics: Callable[[], Combine | None] = lambda: None
    mirrors: Callable[[], Sequence[RunningMirror]] = tuple
    make_pages: Callable[[AdminSite], Pages] = lambda site: NoPages()
    limits: HttpLimits = field(factory=HttpLimits)
    streams: EventStreams = field(init=False)
    history: MetricHistory = field(init=False)
    _mounted: dict[bytes, MountedResource] = field(factory=dict, init=False)
    events: ClusterEventViews = field(init=False)
    _pages: Pages = field(init=False)
    _http: AdminHTTPFactory | None = field(default=None, init=False)
    _log = Logger()

    def startFactory(self) -> None:
        """Create the resources of plugins; skips those that fail."""
        taken = {CONSOLE, *OWN}
        for plugin in installed_plugins(IAdminResource) if self.plugins is None else self.plugins:
            try:
                if plugin.path in taken or not LEGAL_MOUNT.fullmatch(plugin.path):
                    raise ValueError(
                        f"the path {plugin.path!r} is taken, or not one segment of letters, digits and '-_.'"
                    )
                self._mounted[plugin.path] = MountedResource(
                    plugin.resource(self.broker),
                    getattr(plugin, "body_bytes", self.limits.body_bytes),
                    getattr(plugin, "authorizes", False),
                )
                taken.add(plugin.path)
            except Exception:
                self._log.failure("the admin resource {plugin!r} is left out", plugin=plugin)

        self._pages.start()

    def stopFactory(self) -> None:
        """Stop what the pages do by themselves."""
        self._pages.stop()
        self.events.stop()

    @property
    def mounted_paths(self) -> list[str]:
        """First path segments of plugins' resources."""
        return sorted(path.decode() for path in self._mounted)

    def mounted_resource(self, path: str) -> IResource | None:
        """Return the resource of a plugin, by the first segment of its path; None if there is none."""
        found = self._mounted.get(path.encode())
        return None if found is None else found.resource

    def buildProtocol(self, addr: IAddress | None) -> Protocol | None:
        if self._http is None:
            self._http = self._build()
        return self._http.buildProtocol(addr)

    def drain(self) -> Deferred[None]:
        """Close idle connections now and the others after their answers; fires when all are closed."""
        return succeed(None) if self._http is None else self._http.drain()

    @streams.default
    def _make_streams(self) -> EventStreams:
        return EventStreams(lambda: self.config.get(keys.ADMIN_EVENT_STREAMS))

    @history.default
    def _make_history(self) -> MetricHistory:
        return MetricHistory(self.registry.collect, self.clock)

    @events.default
    def _make_events(self) -> ClusterEventViews:
        return ClusterEventViews(self.metadata, EventLog(uuid4().hex[:12], self.clock, self.wall_clock), self.streams)

    def __attrs_post_init__(self) -> None:
        self.relay.serve = self._relayed

    @cached_property
    def router(self) -> Router:
        """All routes, made when a client or another broker first asks for something."""
        with kept_attrs_code():
            from logbus.admin.routes import make_router

            return make_router(self)

    def _relayed(self, request: RelayedRequest) -> PendingResponse:
        """Serve a request that another broker has sent here."""
        asked = f"{request.method} {request.target.partition('?')[0][:300]}"
        access = self.authorization.access(request.principal, request.host, asked)
        return self.router.answer(
            request.method, request.target, request.headers, request.body, access, is_relayed=True
        )

    @_pages.default
    def _make_pages(self) -> Pages:
        return self.make_pages(self)

    def families(self) -> Iterator[Family]:
        """The metrics of this broker, of which none has more series than the configuration allows."""
        return limit_series(self._all_families(), self.config.get(keys.ADMIN_METRICS_MAX_SERIES))

    def _all_families(self) -> Iterator[Family]:
        yield from process_families()
        yield from self.registry.collect()
        if self.config.get(keys.ADMIN_METRICS_PER_PARTITION):
            yield from partition_families(lambda: self.replicas)
            yield from self.replication.partition_families()
            yield from self.lags.partition_families()

    def _own_names(self) -> Collection[str]:
        broker = self.metadata.brokers.get(self.broker.broker_id)
        advertised = () if broker is None else [endpoint.host for endpoint in broker.endpoints.values()]
        return {self.host_name, *advertised} - {""}

    def _build(self) -> AdminHTTPFactory:
        with kept_attrs_code():
            from logbus.admin.channel import AdminHTTPFactory

        return AdminHTTPFactory(
            router=self.router,
            pages=self._pages,
            guard=RequestGuard(lambda: self.config.get(keys.ADMIN_ALLOWED_HOSTS), self._own_names),
            authentication=self.authentication,
            authorization=self.authorization,
            public_paths=lambda: self.config.get(keys.ADMIN_PUBLIC_PATHS),
            mounted=self._mounted,
            clock=self.clock,
            wall_clock=self.wall_clock,
            limits=self.limits,
        )
