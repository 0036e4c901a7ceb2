"""
The server of the admin listeners.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocolFactory

from logbus.admin.authorization import HttpAuthorization
from logbus.admin.kafka_requests import KafkaRequests
from logbus.admin.relay import NAME as RELAY
from logbus.admin.relay import Relay
from logbus.admin.site import AdminSite
from logbus.broker.cluster_control import ClusterControl
from logbus.broker.cluster_member import ClusterMember
from logbus.broker.coordinators import Coordinators
from logbus.broker.environment import Environment
from logbus.broker.readiness import Readiness
from logbus.broker.replication import Replication
from logbus.broker.security import BrokerSecurity
from logbus.cluster.broker_snapshots import BrokerSnapshots
from logbus.conditions import Conditions
from logbus.console.console_site import ConsoleSite
from logbus.handlers.authorization.access import Authorization
from logbus.handlers.request_router import RequestRouter
from logbus.ilogbus import IBroker, Listener
from logbus.metrics import Family
from logbus.model import INTERNAL_TOPICS
from logbus.net.connection_limits import WarningLimiter

if TYPE_CHECKING:
    from logbus.admin.metrics_view import Combine
    from logbus.mirror.running_mirror import RunningMirror


@define(eq=False)
class AdminServer:
    """
    Serves metrics, health and REST over HTTP.

    :ivar stop_process: stops the process in order, if it can be stopped so.
    :ivar combine_metrics: makes metrics those of several brokers that are run as one, if there are others.
    """

    _env: Environment
    _readiness: Readiness
    _conditions: Conditions
    _member: ClusterMember
    _replication: Replication
    _control: ClusterControl
    _coordinators: Coordinators
    _authorization: Authorization | None
    _router: RequestRouter
    _security: BrokerSecurity
    _snapshots: BrokerSnapshots
    _mirrors: Callable[[], Sequence[RunningMirror]]
    stop_process: Callable[[], object] | None = field(default=None, init=False)
    combine_metrics: Combine | None = field(default=None, init=False)
    _site: AdminSite | None = field(default=None, init=False)

    def factory(self, broker: IBroker, listener: Listener) -> IProtocolFactory:
        """
        Return the factory of a listener's connections.

        :param broker: given to the resources of plugins.
        :raise ConfigError: its clients could not log in, though they must.
        """
        authorization, seconds, router = self._authorization, self._env.reactor.seconds, self._router
        relay = Relay(broker.broker_id, self._member.metadata, broker.ask_plugin, self._env.reactor)
        if self._site is None:
            # Others' requests are served by the first listener's site, as any would.
            broker.answer_plugin(RELAY, lambda data: Deferred.fromCoroutine(relay.answer(data)))
        self._site = AdminSite(
            broker=broker,
            relay=relay,
            metadata=self._member.metadata,
            replicas=self._replication.replicas,
            topics=self._control.topics_anywhere,
            lags=self._coordinators.group_lags,
            lag_history=self._coordinators.lag_history,
            transactions=self._coordinators.transactions,
            hanging_transactions=self._coordinators.hanging_transactions,
            snapshots=self._snapshots,
            requests=KafkaRequests(
                router, lambda: router.served, listener.name, self._env.reactor, self._env.slice_scheduler
            ),
            replication=self._replication.metrics,
            config=self._env.config,
            authentication=self._security.http.authentication(listener, self._security.principal_builder(listener)),
            authorization=HttpAuthorization(
                listener.name,
                None if authorization is None else authorization.authorizer,
                WarningLimiter(seconds) if authorization is None else authorization.denials,
            ),
            registry=self._env.registry,
            internal_topics=INTERNAL_TOPICS,
            not_ready=self._readiness.not_ready,
            conditions=self._conditions,
            stop=lambda: self.stop_process,
            combine_metrics=lambda: self.combine_metrics,
            mirrors=self._mirrors,
            clock=self._env.reactor,
            wall_clock=self._env.wall_clock,
            host_name=socket.gethostname(),
            make_pages=ConsoleSite.of,
        )
        return self._site

    def families(self) -> Iterable[Family]:
        """The metrics that are served; none without a listener for HTTP."""
        return () if self._site is None else self._site.families()
