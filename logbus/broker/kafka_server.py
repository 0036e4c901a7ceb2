"""
The server of Kafka clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from twisted.internet.interfaces import IProtocolFactory

from logbus.broker.authorizer import build_authorizer
from logbus.broker.cluster_control import ClusterControl
from logbus.broker.cluster_member import ClusterMember
from logbus.broker.coordinators import Coordinators
from logbus.broker.environment import Environment
from logbus.broker.quotas import build_connection_rates, build_quotas, throttle_seconds
from logbus.broker.replication import Replication
from logbus.broker.security import BrokerSecurity
from logbus.broker.share_partitions import SharePartitions
from logbus.config import keys
from logbus.handlers.authorization.access import Authorization
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.discovery import build_router
from logbus.handlers.produce_appender import ProduceAppender
from logbus.handlers.startup_gate import StartupGate
from logbus.ilogbus import Listener
from logbus.net.arrivals import Arrivals
from logbus.net.connection_limits import WarningLimiter
from logbus.net.factory import KafkaServerFactory
from logbus.net.metrics import NetMetrics
from logbus.net.request_budget import RequestBudget
from logbus.net.shared_resources import SharedResources
from logbus.settings import connection_ledger, connection_limits, request_memory
from logbus.wire.messages import api_name


class KafkaServer:
    """
    Serves the Kafka protocol: the handlers of its APIs, and what the connections of all listeners share.

    :param pause: stops a listener from accepting connections for so many seconds.
    :param release: advertise this Kafka release's versions; None: the default table.
    :ivar authorization: asks the authorizer; None: everybody may do everything.
    :ivar quotas: of users and client ids.
    :ivar producer_arrivals: the producer ids that clients got lately.
    :ivar metadata_gate: holds back requests about the cluster until this broker has its metadata.
    """

    def __init__(
        self,
        env: Environment,
        listeners: Iterable[Listener],
        release: str | None,
        member: ClusterMember,
        replication: Replication,
        control: ClusterControl,
        coordinators: Coordinators,
        share_partitions: SharePartitions,
        security: BrokerSecurity,
        pause: Callable[[str, float], object],
    ) -> None:
        config, reactor = env.config, env.reactor
        self._security = security
        protected = security.protected_listener()
        self.net_metrics = NetMetrics()
        nodes, waits = member.metadata.security_nodes, throttle_seconds(env.registry)
        self.quotas = build_quotas(config, reactor.seconds, nodes, waits)
        self.connections = SharedResources(
            reactor,
            connection_limits(config),
            self.net_metrics,
            budget=RequestBudget(request_memory(config), self.net_metrics, reactor),
            quotas=connection_ledger(config, [at.name for at in listeners if at.protocol == "kafka"], protected),
            scheduler=env.slice_scheduler,
            client_quotas=self.quotas,
            rates=build_connection_rates(config, listeners, reactor.seconds, nodes, waits, protected),
            pause=pause,
        )
        self.metadata_gate = StartupGate()
        self.producer_arrivals = Arrivals(reactor.seconds)
        self.produce_appender = ProduceAppender(replication.replicas, member.metadata, reactor, env.wall_clock)
        security.tokens.follow(member.metadata.security_nodes)
        authorizer = build_authorizer(config, member.metadata.security_nodes)
        self.authorization = None
        if authorizer is not None:
            self.authorization = Authorization(
                authorizer,
                member.metadata,
                lambda: config.get(keys.AUTO_CREATE_TOPICS_ENABLE),
                WarningLimiter(reactor.seconds),
            )
        self.router = build_router(
            BrokerParts(
                authorization=self.authorization,
                client_quotas=self.quotas,
                request_errors=self.connections.errors,
                delegation_tokens=security.tokens,
                broker_id=env.broker_id,
                config=config,
                release=release,
                reactor=reactor,
                wall_clock=env.wall_clock,
                random=env.random,
                slice_scheduler=env.slice_scheduler,
                warning_limiter=self.connections.warning_limiter,
                metadata=member.metadata,
                store=member.store,
                metadata_updates=control.receiver,
                startup_gate=self.metadata_gate,
                peers=member.peers,
                broker_secret=member.broker_secret,
                inter_broker_listener=member.inter_broker_listener,
                plugin_calls=member.plugin_calls,
                controller=control.controller,
                forwarder=member.forwarder,
                topic_admin=control.topic_admin,
                config_admin=control.config_admin,
                security_admin=control.security_admin,
                topics_anywhere=control.topics_anywhere,
                partition_admin=control.partition_admin,
                internal_topics=coordinators.internal_topics,
                replicas=replication.replicas,
                reader=replication.reader,
                produce_appender=self.produce_appender,
                group_coordinator=coordinators.groups,
                group_cleanup=coordinators.group_cleanup,
                share_groups=coordinators.share_groups,
                share_group_offsets=coordinators.share_group_offsets,
                streams_groups=coordinators.streams_groups,
                share_coordinator=coordinators.share_states,
                share_persister=coordinators.share_persister,
                share_partitions=share_partitions.manager,
                share_fetcher=share_partitions.fetcher,
                lost_connections=self.connections.lost,
                transactions=coordinators.transactions,
                producer_ids=member.producer_ids,
                producer_arrivals=self.producer_arrivals,
                add_partitions_manager=coordinators.add_partitions_manager,
                marker_writer=coordinators.marker_writer,
                hanging_transactions=coordinators.hanging_transactions,
            )
        )
        for counted in (self.net_metrics, self.produce_appender):
            env.registry.add_fields(counted)
        self.router.register_metrics(env.registry)
        env.registry.counter(
            "logbus_producer_ids_allocated_total",
            "Producer ids that clients got, as each idempotent producer does when it starts.",
            read=lambda: self.producer_arrivals.since_start,
        )
        times, errors = self.connections.times, self.connections.errors
        env.registry.add_source(lambda: [times.family(api_name), errors.family(api_name)])
        self._open_connections = env.registry.gauge(
            "logbus_listener_connections", "Open connections of Kafka clients and brokers by listener.", ("listener",)
        )

    def factory(self, listener: Listener) -> IProtocolFactory:
        """Return the factory of a listener's connections."""
        open_on = partial(self.connections.quotas.open_on, listener.name)
        self._open_connections.labels(listener=listener.name).function = open_on
        return KafkaServerFactory(
            self.router.served,
            self.router,
            self.connections,
            listener.name,
            self.router.serve_coalesced,
            self._security.principal_builder(listener),
            self._security.sasl.login(listener),
            self.router.serve_gathered,
            self.router.serve_repeated,
            self.router.prepare,
            self.router.prepare_fetches,
        )
