"""
The server of the admin listeners.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IProtocolFactory

from logbus.admin.site import AdminSite
from logbus.broker.cluster_control import ClusterControl
from logbus.broker.cluster_member import ClusterMember
from logbus.broker.coordinators import Coordinators
from logbus.broker.environment import Environment
from logbus.broker.readiness import Readiness
from logbus.broker.replication import Replication
from logbus.ilogbus import IBroker
from logbus.model import INTERNAL_TOPICS


@define(eq=False)
class AdminServer:
    """
    Serves metrics, health and REST over HTTP.

    :ivar stop_process: stops the process in order, if it can be stopped so.
    """

    _env: Environment
    _readiness: Readiness
    _member: ClusterMember
    _replication: Replication
    _control: ClusterControl
    _coordinators: Coordinators
    stop_process: Callable[[], object] | None = field(default=None, init=False)

    def factory(self, broker: IBroker) -> IProtocolFactory:
        """
        Return the factory of a listener's connections.

        :param broker: given to the resources of plugins.
        """
        return AdminSite(
            broker=broker,
            metadata=self._member.metadata,
            replicas=self._replication.replicas,
            topics=self._control.topics_anywhere,
            lags=self._coordinators.group_lags,
            transactions=self._coordinators.transactions,
            replication=self._replication.metrics,
            config=self._env.config,
            registry=self._env.registry,
            internal_topics=INTERNAL_TOPICS,
            not_ready=self._readiness.not_ready,
            stop=lambda: self.stop_process,
            clock=self._env.reactor,
            wall_clock=self._env.wall_clock,
            host_name=socket.gethostname(),
        )
