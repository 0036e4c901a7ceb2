"""
The parts of a broker that handlers are built from.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from logbus.cluster.broker_secret import BrokerSecret
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.controller.config_admin import ConfigAdmin
from logbus.cluster.controller.controller import Controller
from logbus.cluster.controller.partition_admin import PartitionAdmin
from logbus.cluster.controller.security_admin import SecurityAdmin
from logbus.cluster.controller.topic_admin import TopicAdmin
from logbus.cluster.delegation_tokens import DelegationTokens
from logbus.cluster.forwarding_manager import ForwardingManager
from logbus.cluster.metadata_update_receiver import MetadataUpdateReceiver
from logbus.cluster.peers import Peers
from logbus.cluster.plugin_calls import PluginCalls
from logbus.cluster.producer_id_manager import ProducerIdManager
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.cluster.replication.replica_reader import ReplicaReader
from logbus.cluster.topic_admin_forwarder import TopicAdminForwarder
from logbus.config import ConfigView
from logbus.coordination.group_cleanup import GroupCleanup
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.internal_topics import InternalTopics
from logbus.coordination.share_group_offsets import ShareGroupOffsets
from logbus.coordination.share_group_service import ShareGroupService
from logbus.coordination.share_state.persister import SharePersister
from logbus.coordination.share_state.share_coordinator import ShareCoordinator
from logbus.coordination.streams_group_service import StreamsGroupService
from logbus.coordination.transactions.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from logbus.coordination.transactions.hanging_transactions import HangingTransactions
from logbus.coordination.transactions.marker_writer import MarkerWriter
from logbus.coordination.transactions.transaction_coordinator import TransactionCoordinator
from logbus.handlers.authorization.access import Authorization
from logbus.handlers.produce_appender import ProduceAppender
from logbus.handlers.request_router import RequestRouter
from logbus.handlers.startup_gate import StartupGate
from logbus.log_levels import LogLevels, process_levels
from logbus.metastore.imetastore import IMetadataStore
from logbus.net.arrivals import Arrivals
from logbus.net.connection_limits import WarningLimiter
from logbus.net.lost_connections import LostConnections
from logbus.net.request_errors import RequestErrors
from logbus.net.time_slices import SliceScheduler
from logbus.quotas.quota_managers import QuotaManagers
from logbus.share.share_fetches import ShareFetcher
from logbus.share.share_partition_manager import SharePartitionManager


@frozen(kw_only=True)
class BrokerParts:
    """
    The parts of a broker that the ``build`` method of a class of handlers can choose from.

    :ivar release: advertise this Kafka release's versions; None: the default table.
    :ivar reactor: the time; ``wall_clock``: seconds since 1970.
    :ivar topic_admin: changes topics if this broker is the controller; ``topics_anywhere``: wherever the controller is.
    :ivar config_admin: changes configs if this broker is the controller.
    :ivar security_admin: changes users, quotas and ACLs if this broker is the controller.
    :ivar authorization: asks the authorizer; None: everybody may do everything.
    :ivar client_quotas: the quotas of users and client ids.
    :ivar request_errors: counts the errors in responses.
    :ivar producer_arrivals: the producer ids that clients got lately.
    :ivar inter_broker_listener: the name of the listener that brokers connect to.
    :ivar delegation_tokens: those that this broker knows.
    :ivar share_persister: reads and writes the states of share partitions at any broker's share coordinator.
    :ivar share_partitions: the share partitions that this broker leads; ``share_fetcher`` reads them for members.
    :ivar lost_connections: tells of connections of clients that are lost.
    :ivar router: contains all handlers before the first request comes.
    """

    broker_id: int
    config: ConfigView
    release: str | None
    reactor: Any
    wall_clock: Callable[[], float]
    log_levels: LogLevels = process_levels
    random: random.Random
    slice_scheduler: SliceScheduler
    warning_limiter: WarningLimiter
    authorization: Authorization | None = None
    client_quotas: QuotaManagers = field(factory=QuotaManagers)
    request_errors: RequestErrors = field(factory=RequestErrors)
    delegation_tokens: DelegationTokens = field(factory=DelegationTokens)
    router: RequestRouter = field(factory=RequestRouter)
    broker_secret: BrokerSecret
    inter_broker_listener: Callable[[], str | None]

    metadata: ClusterMetadata
    store: IMetadataStore
    metadata_updates: MetadataUpdateReceiver
    startup_gate: StartupGate
    peers: Peers
    plugin_calls: PluginCalls

    controller: Controller
    forwarder: ForwardingManager
    topic_admin: TopicAdmin
    config_admin: ConfigAdmin
    topics_anywhere: TopicAdminForwarder
    partition_admin: PartitionAdmin
    security_admin: SecurityAdmin
    internal_topics: InternalTopics

    replicas: ReplicaManager
    reader: ReplicaReader
    produce_appender: ProduceAppender

    group_coordinator: GroupCoordinator
    group_cleanup: GroupCleanup
    share_groups: ShareGroupService
    share_group_offsets: ShareGroupOffsets
    streams_groups: StreamsGroupService

    share_coordinator: ShareCoordinator
    share_persister: SharePersister
    share_partitions: SharePartitionManager
    share_fetcher: ShareFetcher
    lost_connections: LostConnections

    transactions: TransactionCoordinator
    producer_ids: ProducerIdManager
    producer_arrivals: Arrivals
    add_partitions_manager: AddPartitionsToTxnManager
    marker_writer: MarkerWriter
    hanging_transactions: HangingTransactions
