"""
The composition root: builds the parts of a broker, and passes each its dependencies.

Parts start in this order, each awaited before the next, and stop in reverse::

    logs        lock the directories, recover the logs
    metastore   open the session, learn the cluster's id
    peers       nothing at the start; close the connections to other brokers at the end
    isr         check for lagging replicas, request changes of ISRs from the controller
    isolation   check whether other brokers and the metadata store can be reached
    fetcher     fetch from leaders, as soon as this broker has roles
    repairs     have damaged logs repaired, as soon as this broker has roles
    listeners   bind the ports; connections wait
    membership  register, with the bound ports
    groups      start to expire offsets
    transactions  start to abort transactions past their timeout
    controller  take part in the controller election; accept requests of another controller
    serving     accept connections, once the leaders and ISRs are applied here
    leadership  balance leaders; a stop begins with a controlled shutdown
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from attrs import evolve
from twisted.application.service import Service
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IProtocolFactory
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.admin.site import AdminSite
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.controlled_shutdown import ControlledShutdown
from logbus.cluster.controller.controller import Controller
from logbus.cluster.controller.leader_rebalancer import LeaderRebalancer
from logbus.cluster.controller.metadata_update_sender import update_receivers
from logbus.cluster.controller.partition_admin import PartitionAdmin
from logbus.cluster.controller.topic_admin import TopicAdmin
from logbus.cluster.controller.topic_plan import TopicDefaults
from logbus.cluster.controller.topic_rules import TopicRules
from logbus.cluster.controller_channel import ControllerChannel
from logbus.cluster.controller_epoch_store import FileControllerEpochStore
from logbus.cluster.follower.replica_fetcher_manager import ReplicaFetcherManager
from logbus.cluster.forwarding_manager import ForwardingManager
from logbus.cluster.membership import Membership, ensure_cluster
from logbus.cluster.metadata_update_receiver import MetadataUpdateReceiver
from logbus.cluster.peers import ConnectTo, Identity, Peers, inter_broker, tcp
from logbus.cluster.plugin_calls import Answers, PluginCalls
from logbus.cluster.producer_id_manager import ProducerIdManager
from logbus.cluster.replication.isr_manager import IsrManager
from logbus.cluster.replication.leader_fencing import LeaderFencing
from logbus.cluster.replication.offline_replicas import OfflineReplicas
from logbus.cluster.replication.purgatory import Purgatory
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.cluster.replication.replica_reader import ReplicaReader
from logbus.cluster.replication.replica_repair import ReplicaRepair
from logbus.cluster.replication.replica_reports import ReplicaReports
from logbus.cluster.replication.replication_throttle import FollowerThrottle, LeaderThrottle
from logbus.cluster.replication_metrics import ReplicationMetrics
from logbus.cluster.topic_admin_forwarder import TopicAdminForwarder
from logbus.config import ConfigView, TopicConfig, keys
from logbus.config.config_view import usable_broker_overrides, usable_topic_overrides
from logbus.config.group_config import check_group_overrides
from logbus.config.key_table import TOPIC_KEYS
from logbus.config.listener_address import HTTP, ListenerAddress
from logbus.config.unenforced_security import refuse_unenforced_settings
from logbus.coordination.group_cleanup import GroupCleanup
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.group_lags import GroupLags
from logbus.coordination.internal_topics import InternalTopics
from logbus.coordination.transactions.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from logbus.coordination.transactions.marker_channel_manager import MarkerChannelManager
from logbus.coordination.transactions.marker_writer import MarkerWriter
from logbus.coordination.transactions.transaction_coordinator import TransactionCoordinator
from logbus.coordination.transactions.transaction_expiration import TransactionExpiration
from logbus.coordination.transactions.transaction_metrics import TransactionMetrics
from logbus.data_access import DataAccess
from logbus.errors import ApiError, StorageError
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.discovery import build_router
from logbus.handlers.produce_appender import ProduceAppender
from logbus.handlers.startup_gate import StartupGate
from logbus.ilogbus import Fetched, IBroker, IProtocolPlugin, Leadership, Listener
from logbus.metastore.imetastore import IMetadataStore, SessionState
from logbus.metastore.znodes import DEFAULT_ENTITY, Registration
from logbus.metrics import ReactorTicks, Registry
from logbus.model import INTERNAL_TOPICS, Endpoint, TopicPartition
from logbus.net.channel import Channel
from logbus.net.factory import KafkaServerFactory
from logbus.net.metrics import NetMetrics
from logbus.net.request_budget import RequestBudget
from logbus.net.shared_resources import SharedResources
from logbus.net.time_slices import SliceScheduler
from logbus.protocols import protocol_plugins
from logbus.records.record import Record
from logbus.services import OrderedService
from logbus.settings import (
    cleaner_settings,
    connection_ledger,
    connection_limits,
    fetch_settings,
    metadata_store,
    replica_selector,
    replication_rates,
    request_memory,
    scrub_settings,
    storage_settings,
)
from logbus.socket_server import SocketServer
from logbus.storage.delete_policy import delete_policy
from logbus.storage.filesystem.disk import disks_at
from logbus.storage.istorage import IDisk
from logbus.storage.log_manager import LogManager
from logbus.timers import Timers


class _Part(Service):
    """A step of the start, and its counterpart in the stop."""

    def __init__(self, name: str, start: Callable[[], Any], stop: Callable[[], Any]) -> None:
        self.name: str = name
        self._start = start
        self._stop = stop

    def startService(self) -> Any:
        super().startService()
        return self._start()

    def stopService(self) -> Any:
        super().stopService()
        return self._stop()


@implementer(IBroker)
class Broker(OrderedService):
    """
    A broker.

    :param reactor: runs everything the broker does.
    :param config: the configuration, with its static layers.
    :param listeners: its listeners.
    :param release: advertise this Kafka release's versions (``--as-version``); None: the default table.
    :param wall_clock: seconds since 1970.
    :param randomness: the source of random choices.
    :param plugins: protocols by name; None: all that :mod:`twisted.plugin` finds.
    :param disks: the log directories; None: those of the configuration.
    :param store: the metadata store; None: that of the configuration.
    :param connect_to: makes endpoints to other brokers; None: over the reactor's network.

    :ivar endpoints: advertised addresses by listener name, once it has started.
    """

    _log = Logger(namespace="logbus.broker")

    def __init__(
        self,
        reactor: Any,
        config: ConfigView,
        listeners: Sequence[Listener],
        *,
        release: str | None = None,
        wall_clock: Callable[[], float] = time.time,
        randomness: random.Random | None = None,
        plugins: Mapping[str, IProtocolPlugin] | None = None,
        disks: Sequence[IDisk] | None = None,
        store: IMetadataStore | None = None,
        connect_to: ConnectTo | None = None,
    ) -> None:
        self.broker_id = config.get(keys.BROKER_ID)
        super().__init__(f"logbus broker {self.broker_id}")
        self.reactor = reactor
        self.config = config
        self.wall_clock = wall_clock
        self.random = randomness or random.SystemRandom()
        self.endpoints: Mapping[str, Endpoint] = {}
        self.registry = Registry()
        self.ticks = ReactorTicks.in_registry(reactor, self.registry)
        self._ready = False
        self._on_lost: Callable[[Failure], object] = lambda failure: None
        self._stop_process: Callable[[], object] | None = None

        directories = config.get(keys.LOG_DIRS)
        self.logs = LogManager(
            disks_at(list(directories), reactor) if disks is None else disks,
            reactor,
            wall_clock,
            settings=storage_settings(config),
            cleaner_settings=lambda: cleaner_settings(config),
            scrub_settings=lambda: scrub_settings(config),
            policy=delete_policy(config.get(keys.LOG_DELETE_POLICY)),
            directory_failed=self._directory_failed,
            jitter=self.random,
            high_watermark_of=lambda log: self.replicas.high_watermark_of(log),  # noqa: PLW0108 - not made yet
        )
        self.store: Any = metadata_store(config, reactor, wall_clock) if store is None else store
        self.metadata = ClusterMetadata("")
        self.replicas = ReplicaManager(self.broker_id, self.logs, self._topic_config)
        self.logs.mover.bytes_per_second = lambda: config.get(keys.REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND)
        self.logs.mover.exclusively = self.replicas.swap_log
        self.replicas.exists = lambda topic, number: self.metadata.partition(TopicPartition(topic, number)) is not None
        self.purgatory = Purgatory(reactor)
        leaders_rate, followers_rate = replication_rates(config, reactor)
        self.reader = ReplicaReader(
            self.replicas, self.purgatory, replica_selector(config, self.metadata), LeaderThrottle(leaders_rate)
        )
        self.membership = Membership(
            self.store,
            Registration(self.broker_id, {}, self._new_uuid(), 0, rack=config.get(keys.BROKER_RACK)),
            reactor,
            wall_clock,
            config.get(keys.ZOOKEEPER_SESSION_TIMEOUT_MS) / 1000,
            self._lost,
        )
        self.timers = Timers(reactor)
        self.peers = Peers(
            self._identity,
            self.metadata,
            config.get(keys.INTER_BROKER_LISTENER_NAME),
            self.timers,
            connect_to or tcp(reactor),
            self.random,
            # A broker that does not answer for longer is about to lose its registration.
            min(config.get(keys.REQUEST_TIMEOUT_MS), config.get(keys.ZOOKEEPER_SESSION_TIMEOUT_MS)) / 1000,
        )
        self.fetcher = ReplicaFetcherManager(
            self.broker_id,
            lambda: self.membership.epoch,
            self.logs,
            self._channel_for,
            self.timers,
            lambda: fetch_settings(config),
            FollowerThrottle(followers_rate),
        )
        self.replicas.fetcher = self.fetcher
        self.epochs = FileControllerEpochStore(self.logs.disks)
        self.receiver = MetadataUpdateReceiver(
            self.broker_id,
            self.metadata,
            self.replicas,
            lambda: self.membership.epoch,
            self._broker_configs,
            self.epochs,
        )
        self.slice_scheduler = SliceScheduler(reactor)
        self.controller = Controller(
            self.store,
            self.broker_id,
            self.membership.registration.incarnation,
            self.metadata,
            update_receivers(
                self.receiver,
                self.broker_id,
                self.peers,
                reactor,
                config.get(keys.CONTROLLER_SOCKET_TIMEOUT_MS) / 1000,
            ),
            self._topic_rules,
            reactor,
            wall_clock,
            self.slice_scheduler,
        )
        self.link = ControllerChannel(
            self.broker_id, self.controller, self.metadata, self.peers, lambda: self.membership.epoch
        )
        self.isr = IsrManager(
            self.replicas,
            self.metadata,
            self.link,
            reactor,
            lambda: config.get(keys.REPLICA_LAG_TIME_MAX_MS),
            followers_serve=self.reader.selector is not None,
        )
        self.replicas.cluster = self.isr
        self.isolation = LeaderFencing(
            self.replicas,
            self.metadata,
            self.store,
            lambda: self.membership.epoch,
            reactor,
            config.get(keys.ZOOKEEPER_SESSION_TIMEOUT_MS) / 1000,
            lambda: self._socket_server.hang_up(),  # noqa: PLW0108 - not made yet
        )
        self.replication = ReplicationMetrics(self.broker_id, self.metadata, self.replicas, self.isr)
        self.failure_reports = OfflineReplicas(self.link, reactor)
        self.replica_reports = ReplicaReports(self.broker_id, self.metadata, self.link, reactor)
        self.replicas.leaderless = self.replica_reports.leaderless
        self.fetcher.leader_incomplete = self.replica_reports.leader_incomplete
        self.repairs = ReplicaRepair(
            self.broker_id, self.replicas, self._channel_for, self.timers, self.replica_reports
        )
        self.reader.follower_stuck = self.repairs.check
        self.replicas.repair = self.repairs.look_and_repair
        self.replicas.listeners.append(self.repairs)
        self.topic_admin = TopicAdmin(
            self.controller,
            reactor,
            self.random,
            self._topic_defaults,
            config.validate_topic_overrides,
            self._check_broker_configs,
            partial(check_group_overrides, config.get),
            self.slice_scheduler,
        )
        self.partition_admin = PartitionAdmin(self.controller, reactor)
        self.balancer = LeaderRebalancer(self.partition_admin, config, reactor)
        self.controlled_shutdown = ControlledShutdown(self.link, config, reactor)
        self.forwarder = ForwardingManager(self.broker_id, self.metadata, self.peers)
        self.topics_anywhere = TopicAdminForwarder(self.topic_admin, self.forwarder)
        self.plugin_calls = PluginCalls(self.peers)
        self.producer_ids = ProducerIdManager(self.store, self.broker_id)

        self.net_metrics = NetMetrics()
        self.connections = SharedResources(
            reactor,
            connection_limits(config),
            self.net_metrics,
            budget=RequestBudget(request_memory(config), self.net_metrics, reactor),
            quotas=connection_ledger(config, [at.name for at in listeners if at.protocol == "kafka"]),
            scheduler=self.slice_scheduler,
        )
        self.group_coordinator = GroupCoordinator(
            self.replicas, self.metadata, config, reactor, lambda: int(wall_clock() * 1000), self.random
        )
        self.replicas.listeners.append(self.group_coordinator)
        self.upkeep = GroupCleanup(self.group_coordinator)
        self.metadata.when_removed(self.upkeep.forget_topics)
        self.marker_writer = MarkerWriter(
            self.replicas,
            self.group_coordinator.transaction_completed,
            reactor,
            lambda: int(wall_clock() * 1000),
            lambda: config.get(keys.REQUEST_TIMEOUT_MS),
        )
        markers = MarkerChannelManager(
            self.broker_id,
            self.metadata,
            self.peers,
            self.marker_writer,
            self.timers,
            lambda: int(wall_clock() * 1000),
        )
        self.transactions = TransactionCoordinator(
            self.replicas, self.metadata, self.producer_ids, markers, config, reactor, lambda: int(wall_clock() * 1000)
        )
        self.replicas.listeners.append(self.transactions)
        self.transaction_expiry = TransactionExpiration(self.transactions)
        self.add_partitions_manager = AddPartitionsToTxnManager(
            self.broker_id, self.metadata, self.transactions, self.peers
        )
        self.internal_topics = InternalTopics(self.metadata, self.topics_anywhere, config)
        self.opening = StartupGate()
        self.produce_appender = ProduceAppender(self.replicas, self.metadata, reactor, wall_clock)
        self.router = build_router(
            BrokerParts(
                broker_id=self.broker_id,
                config=config,
                release=release,
                reactor=reactor,
                wall_clock=wall_clock,
                random=self.random,
                slice_scheduler=self.slice_scheduler,
                warning_limiter=self.connections.warning_limiter,
                metadata=self.metadata,
                store=self.store,
                metadata_updates=self.receiver,
                startup_gate=self.opening,
                peers=self.peers,
                plugin_calls=self.plugin_calls,
                controller=self.controller,
                forwarder=self.forwarder,
                topic_admin=self.topic_admin,
                topics_anywhere=self.topics_anywhere,
                partition_admin=self.partition_admin,
                internal_topics=self.internal_topics,
                replicas=self.replicas,
                reader=self.reader,
                produce_appender=self.produce_appender,
                group_coordinator=self.group_coordinator,
                group_cleanup=self.upkeep,
                transactions=self.transactions,
                producer_ids=self.producer_ids,
                add_partitions_manager=self.add_partitions_manager,
                marker_writer=self.marker_writer,
            )
        )
        self._socket_server = SocketServer(
            reactor,
            self,
            protocol_plugins() if plugins is None else plugins,
            listeners,
            config.get(keys.SOCKET_LISTEN_BACKLOG_SIZE),
            config.get(keys.SSL_HANDSHAKE_TIMEOUT_MS) / 1000,
        )
        self._data = DataAccess(self.metadata, self.replicas, self.topics_anywhere, config, reactor, wall_clock)
        config.subscribe(TOPIC_KEYS.values(), lambda view: self._reconfigure_topics())
        self._compose()

    # Start and stop.

    def _compose(self) -> None:
        """Add the parts in the order of their start."""
        for part in (
            _Part("ticks", self.ticks.start, self.ticks.stop),
            _Part("logs", self._open_logs, self.logs.close),
            _Part("metastore", self._open_store, self.store.close),
            _Part("peers", lambda: None, self._hang_up),
            _Part("isr", self.isr.start, self.isr.stop),
            _Part("isolation", self.isolation.start, self.isolation.stop),
            _Part("fetcher", self.fetcher.startService, self.fetcher.stopService),
            _Part("repairs", self.repairs.start, self.repairs.stop),
            _Part("listeners", self._bind, self._socket_server.close),
            _Part("membership", self._join, self.membership.unregister),
            _Part("groups", self.upkeep.start, self.upkeep.stop),
            _Part("transactions", self.transaction_expiry.start, self.transaction_expiry.stop),
            _Part("controller", self._start_controller, self.controller.stop),
            _Part("serving", self._serve, self._drain),
            _Part("leadership", self.balancer.start, self._hand_over),
        ):
            part.setServiceParent(self)
        for owner in (
            self.net_metrics,
            self.produce_appender,
            self.router,
            self.purgatory,
            self.logs,
            self.replicas,
            self.repairs,
            self.isr,
            self.fetcher,
            self.controller,
            self.replication,
            self.group_coordinator,
            GroupLags(self.group_coordinator, self.replicas),
            TransactionMetrics(self.transactions, self.replicas),
        ):
            owner.register_metrics(self.registry)

    def _new_uuid(self) -> UUID:
        return UUID(int=self.random.getrandbits(128), version=4)

    def when_lost(self, lost: Callable[[Failure], object]) -> None:
        """Set the function to call if the broker fails after its start."""
        self._on_lost = lost

    def when_asked_to_stop(self, stop: Callable[[], object]) -> None:
        """Set the function to call if an operator asks to stop the process."""
        self._stop_process = stop

    def _lost(self, failure: Failure) -> None:
        self._ready = False
        self._on_lost(failure)

    def _open_logs(self) -> Deferred[None]:
        return self.logs.open().addCallback(lambda _: self.epochs.load())

    def _hang_up(self) -> None:
        self.failure_reports.close()
        self.replica_reports.close()
        self.peers.close()
        self.timers.close()

    def _channel_for(self, broker_id: int, purpose: str) -> Deferred[Channel]:
        try:
            return self.peers.channel(self.peers.broker(broker_id), purpose)
        except ApiError as e:
            return fail(e)

    def _identity(self) -> Identity:
        incarnation = self.membership.registration.incarnation
        return Identity(self.metadata.cluster_id, self.broker_id, self.membership.epoch, incarnation)

    def _open_store(self) -> Deferred[None]:
        async def opened() -> None:
            try:
                await self.store.open()
                self.metadata.cluster_id = await ensure_cluster(self.store, self._new_uuid)
                await self.logs.claim(self.broker_id, self.metadata.cluster_id)
            except Exception:
                # A failed start must not leave its threads and its session behind.
                await self.store.close()
                raise
            self.store.subscribe(self._session_changed)

        return Deferred.fromCoroutine(opened())

    def _join(self) -> Deferred[None]:
        async def joined() -> None:
            try:
                await self.membership.register()
            except Exception:
                await self.membership.unregister()
                raise

        return Deferred.fromCoroutine(joined())

    def _session_changed(self, state: SessionState) -> None:
        # During a start or stop, the store is closed elsewhere.
        if state is SessionState.CLOSED and self._ready:
            self._lost(Failure(StorageError(f"the metadata store {self.store.path} failed; the broker must stop")))

    def _bind(self) -> Deferred[None]:
        def bound(endpoints: Mapping[str, Endpoint]) -> None:
            self.endpoints = endpoints
            clients = {name: at for name, at in endpoints.items() if at.protocol == "kafka"}
            protocols = dict.fromkeys(clients, "PLAINTEXT")
            self.membership.registration = evolve(
                self.membership.registration,
                endpoints=clients,
                security_protocols=protocols,
                unsynced_lost=self.logs.unsynced_lost,
                logs_lost=self.logs.logs_lost,
                unclean_shutdown=self.logs.unclean_shutdown,
            )
            self._show_listeners(clients.values())

        return self._socket_server.bind().addCallback(bound)

    def _show_listeners(self, advertised: Iterable[Endpoint]) -> None:
        """Make DescribeConfigs show the bound listeners."""
        shown = {
            keys.LISTENERS: self._socket_server.addresses("kafka"),
            keys.ADVERTISED_LISTENERS: [ListenerAddress(at.listener, at.host, at.port) for at in advertised],
            keys.ADMIN_LISTENERS: [at._replace(name=HTTP) for at in self._socket_server.addresses("admin")],
        }
        self.config.in_use.update({key: ",".join(map(str, found)) for key, found in shown.items()})

    def _start_controller(self) -> Deferred[None]:
        async def started() -> None:
            await self.controller.start()
            try:
                if self.controller.active is None:
                    # Another broker is the controller, and will connect.
                    self._socket_server.open(self._inter_broker_listener())
                await self.metadata.wait_for(lambda metadata: self.broker_id in metadata.brokers)
            except Exception:
                await self._drain()
                await self.controller.stop()
                raise
            self.opening.open()

        return Deferred.fromCoroutine(started())

    def _inter_broker_listener(self) -> str | None:
        found = inter_broker(self.membership.registration.endpoints, self.config.get(keys.INTER_BROKER_LISTENER_NAME))
        return None if found is None else found.listener

    def _serve(self) -> None:
        self.logs.start_housekeeping()
        self._socket_server.open()
        self._ready = True
        self._log.info(
            "logbus broker {broker} ready: {listeners}",
            broker=self.broker_id,
            listeners=" ".join(f"{name}={_address(at)}" for name, at in self.endpoints.items()),
        )

    def _hand_over(self) -> Deferred[None]:
        """Move leaderships to other brokers: the first step of a stop, while this broker still serves."""
        self._ready = False
        self.balancer.stop()
        return self.controlled_shutdown.say(sorted(self.metadata.brokers.keys() - {self.broker_id}))

    def _drain(self) -> Deferred[None]:
        async def drained() -> None:
            self._ready = False
            await self._socket_server.close()
            await self._socket_server.drain(self._release)

        return Deferred.fromCoroutine(drained())

    def _release(self) -> None:
        """Complete requests that would wait for long."""
        self.purgatory.release()
        self.group_coordinator.stop()
        self.transactions.stop()

    def not_ready(self) -> list[str]:
        """Return the reasons why clients should not use this broker now; empty if they may."""
        if not self._ready:
            return ["the broker is starting or stopping"]
        reasons = [f"log directory {path} is offline" for path in self.logs.offline_directories]
        return reasons + [f"log directory {path} is full" for path in self.logs.space.full_directories]

    # Callbacks between parts.

    def _topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        return self.config.topic_config(usable_topic_overrides(overrides))

    def _topic_rules(self, overrides: Mapping[str, str]) -> TopicRules:
        config = self._topic_config(overrides)
        return TopicRules(config.unclean_leader_election_enable, config.min_insync_replicas, config.flush_before_ack)

    def _topic_defaults(self) -> TopicDefaults:
        factor = self.config.get(keys.DEFAULT_REPLICATION_FACTOR)
        return TopicDefaults(
            self.config.get(keys.NUM_PARTITIONS),
            factor,
            self.config.get(keys.MAX_TOPICS),
            self.config.get(keys.MAX_PARTITIONS_PER_BROKER),
        )

    def _reconfigure_topics(self) -> None:
        for topic in self.metadata.topics.values():
            self.replicas.configure(topic.name, topic.configs)
        self.controller.settings_changed()

    def _broker_configs(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        problems: list[str] = []
        mine, everyones = configs.get(str(self.broker_id)), configs.get(DEFAULT_ENTITY)
        warnings = self.config.update(
            cluster=None if everyones is None else usable_broker_overrides(everyones, cluster=True, problems=problems),
            broker=None if mine is None else usable_broker_overrides(mine, cluster=False, problems=problems),
        )
        for warning in [*problems, *warnings]:
            self._log.warn("{warning}", warning=warning)

    def _check_broker_configs(self, broker_id: int | None, given: Mapping[str, str | None]) -> None:
        refuse_unenforced_settings(given)
        self.config.validate_broker_overrides(given, cluster=broker_id is None)

    def _directory_failed(self, partitions: Sequence[TopicPartition], reason: str) -> None:
        self.replicas.directory_failed(partitions, reason)
        if self.broker_id in self.metadata.brokers:  # else with the first roles
            self.failure_reports.add(partitions)

    # IBroker, for plugins.

    @property
    def cluster_id(self) -> str:
        return self.metadata.cluster_id

    def append(
        self,
        topic: str,
        records: Sequence[tuple[bytes | None, bytes | None]],
        partition: int | None = None,
        acks: int = 1,
    ) -> Deferred[tuple[int, int]]:
        return Deferred.fromCoroutine(self._data.append(topic, records, partition, acks))

    def read(self, topic: str, partition: int, offset: int, max_bytes: int = 1_048_576) -> list[Record]:
        return self._data.read(topic, partition, offset, max_bytes)

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int = 1_048_576) -> Fetched:
        return self._data.fetch(topic, partition, offset, max_bytes)

    def settled(self, topic: str, partition: int) -> Deferred[tuple[int, int]]:
        return Deferred.fromCoroutine(self._data.settled(topic, partition))

    def leadership(self, topic: str, partition: int) -> Leadership:
        return self._data.leadership(topic, partition)

    def brokers(self) -> list[int]:
        return self._data.brokers()

    def answer_plugin(self, plugin: str, answers: Answers) -> None:
        self.plugin_calls.answer(plugin, answers)

    def ask_plugin(self, broker_id: int, plugin: str, body: bytes, seconds: float = 30.0) -> Deferred[bytes]:
        return Deferred.fromCoroutine(self.plugin_calls.ask(broker_id, plugin, body, seconds))

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = -1,
    ) -> Deferred[None]:
        return Deferred.fromCoroutine(self._data.create_topic(name, partitions, configs, replication_factor))

    def topics(self) -> Mapping[str, int]:
        return self._data.topics()

    def kafka_factory(self, listener: Listener) -> IProtocolFactory:
        return KafkaServerFactory(
            self.router.served, self.router, self.connections, listener.name, self.router.serve_coalesced
        )

    def admin_factory(self, listener: Listener) -> IProtocolFactory:
        return AdminSite(
            broker=self,
            metadata=self.metadata,
            replicas=self.replicas,
            topics=self.topics_anywhere,
            lags=GroupLags(self.group_coordinator, self.replicas),
            transactions=self.transactions,
            replication=self.replication,
            config=self.config,
            registry=self.registry,
            internal_topics=INTERNAL_TOPICS,
            not_ready=self.not_ready,
            stop=lambda: self._stop_process,
            clock=self.reactor,
            wall_clock=self.wall_clock,
            host_name=socket.gethostname(),
        )


def _address(at: Endpoint) -> str:
    return f"[{at.host}]:{at.port}" if ":" in at.host else f"{at.host}:{at.port}"
