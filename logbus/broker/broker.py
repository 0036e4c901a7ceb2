"""
The broker: builds its subsystems, starts them in order, and stops them in reverse.

Parts start in this order, each awaited before the next, and stop in reverse::

    ticks       start to measure how late timers are
    logs        lock the directories, recover the logs
    metastore   open the session, learn the cluster's id
    peers       nothing at the start; close the connections to other brokers at the end
    isr         check for lagging replicas, request changes of ISRs from the controller
    fencing     check whether other brokers and the metadata store can be reached
    fetcher     fetch from leaders, as soon as this broker has roles
    repairs     have damaged logs repaired, as soon as this broker has roles
    logins      nothing at the start; follow no settings of logins any more at the end
    listeners   bind the ports; connections wait
    membership  register, with the bound ports
    groups      start to expire offsets
    transactions  start to abort transactions past their timeout
    share states  start to delete records that the states of share partitions do not need any more
    controller  take part in the controller election; accept requests of another controller
    tokens      start to remove delegation tokens that have ended
    remote logs  start to copy segments to the object store, if there is tiered storage
    serving     accept connections, once the leaders and ISRs are applied here
    conditions  start to look for what is wrong
    leadership  balance leaders; a stop begins with a controlled shutdown
    mirrors     start the mirrors that this broker runs
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve
from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.admin.metrics_view import Combine
from logbus.broker.admin_server import AdminServer
from logbus.broker.broker_conditions import condition_monitor
from logbus.broker.cluster_control import ClusterControl
from logbus.broker.cluster_member import ClusterMember
from logbus.broker.coordinators import Coordinators
from logbus.broker.environment import Environment
from logbus.broker.kafka_server import KafkaServer
from logbus.broker.log_storage import log_manager
from logbus.broker.mirrors import BrokerMirrors
from logbus.broker.plugin_services import PluginServices
from logbus.broker.readiness import Readiness
from logbus.broker.remote_log import RemoteLogs
from logbus.broker.replication import Replication
from logbus.broker.security import BrokerSecurity
from logbus.broker.share_partitions import SharePartitions
from logbus.cluster.broker_snapshots import BrokerSnapshots
from logbus.cluster.peers import ConnectTo, tcp
from logbus.config import ConfigView, keys
from logbus.config.listener_address import HTTP, HTTPS, ListenerAddress
from logbus.coroutines import returns_deferred
from logbus.errors import StorageError
from logbus.ilogbus import IProtocolPlugin, Listener
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import SessionState
from logbus.metrics import Family
from logbus.model import Endpoint
from logbus.net.busy_poll import BusyPoll
from logbus.net.reactor_ticks import ReactorTicks
from logbus.protocols import protocol_plugins
from logbus.services import OrderedService
from logbus.socket_server import SocketServer
from logbus.storage.istorage import IDisk

if TYPE_CHECKING:
    from logbus.broker.remote_threads import MakeThreads
    from logbus.storage.remote.iremote_storage import RemoteStorage


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
    :param remote_storage: the object store of tiered storage; None: that of the configuration.
    :param remote_threads: makes the threads that read from it, and copy to it; None: real ones.
    :param siblings: the ids of this and the other workers of a machine; empty: there are no workers.

    :ivar plugin_services: what plugins get of this broker.
    :ivar endpoints: advertised addresses by listener name, once it has started.
    :ivar monitor: looks for what is wrong with it.
    :ivar ticks: measures how late the reactor's timers are, while it runs.
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
        siblings: Collection[int] = (),
        remote_storage: RemoteStorage | None = None,
        remote_threads: MakeThreads | None = None,
    ) -> None:
        self.broker_id = config.get(keys.BROKER_ID)
        super().__init__(f"logbus broker {self.broker_id}")
        self.config = config
        self.endpoints: Mapping[str, Endpoint] = {}
        self._on_lost: Callable[[Failure], object] = lambda failure: None

        self.env = env = Environment(reactor, config, wall_clock, randomness or random.SystemRandom())
        self.registry = env.registry
        self._listeners = {listener.name: listener for listener in listeners if not listener.shared}
        self.security = BrokerSecurity(
            env,
            listeners,
            lambda: self.member.metadata.security_nodes,
            lambda: self.member.broker_secret.value,
            is_worker=len(siblings) > 1,
        )
        self.ticks = ReactorTicks.in_registry(reactor, env.registry)
        BusyPoll.of(reactor).allow(config.get(keys.SOCKET_BUSY_POLL_US) / 1e6)
        self._socket_server = SocketServer(
            reactor,
            protocol_plugins() if plugins is None else plugins,
            listeners,
            config.get(keys.SOCKET_LISTEN_BACKLOG_SIZE),
            config.get(keys.SSL_HANDSHAKE_TIMEOUT_MS) / 1000,
            self.security.connections,
            receive_buffer=config.get(keys.SOCKET_RECEIVE_BUFFER_BYTES),
        )
        self.logs = log_manager(env, disks)
        self.readiness = Readiness(self.logs, lambda: self.replication.fencing.is_cut_off)
        self.member = ClusterMember(
            env,
            store,
            connect_to or self.security.connect_to(tcp(reactor)),
            self._lost,
            self.security.log_in_to_brokers(),
        )
        self.replication = Replication(
            env, self.logs, self.member, self._socket_server.hang_up, self.ticks.standstills, siblings
        )
        self.control = ClusterControl(env, self.member, self.replication, self.security)
        self.coordinators = Coordinators(env, self.member, self.replication.replicas, self.control.topics_anywhere)
        self.share_partitions = SharePartitions(env, self.member, self.replication, self.coordinators.share_persister)
        self.remote_logs = RemoteLogs.build(
            env,
            self.member,
            self.replication,
            self.coordinators.internal_topics.ensure,
            remote_storage,
            remote_threads,
        )
        self.kafka_server = KafkaServer(
            env,
            listeners,
            release,
            self.member,
            self.replication,
            self.control,
            self.coordinators,
            self.share_partitions,
            self.security,
            self._socket_server.pause,
        )
        self.mirrors = BrokerMirrors(
            env,
            lambda: self.control.controller.active is not None,
            lambda: [f"{at.host}:{at.port}" for at in self.endpoints.values() if at.protocol == "kafka"],
        )
        self.monitor = condition_monitor(
            env,
            self.logs,
            self.member,
            self.replication,
            self.remote_logs,
            self.coordinators,
            self.kafka_server,
            self.security,
            self.mirrors.running,
            self.ticks,
        )
        self._admin_server = AdminServer(
            env,
            self.readiness,
            self.monitor.conditions,
            self.member,
            self.replication,
            self.control,
            self.coordinators,
            self.kafka_server.authorization,
            self.kafka_server.router,
            self.security,
            BrokerSnapshots(self.logs, self.member.store),
            self.mirrors.running,
        )
        self.plugin_services = PluginServices(
            self.broker_id,
            reactor,
            self.member.metadata,
            self.replication.replicas,
            self.control.topics_anywhere,
            config,
            wall_clock,
            self.member.plugin_calls,
            self.kafka_server.authorization,
            self.kafka_server.quotas,
            self.kafka_server.factory,
            self._admin_server.factory,
        )
        self._compose()

    def _compose(self) -> None:
        """Add the parts in the order of their start."""
        replication, coordinators, remote = self.replication, self.coordinators, self.remote_logs
        for part in (
            _Part("ticks", self.ticks.start, self.ticks.stop),
            _Part("logs", self._open_logs, self.logs.close),
            _Part("metastore", self._open_store, self.member.store.close),
            _Part("peers", lambda: None, self._hang_up),
            _Part("isr", replication.isr.start, replication.isr.stop),
            _Part("fencing", replication.fencing.start, replication.fencing.stop),
            _Part("fetcher", replication.fetcher.startService, replication.fetcher.stopService),
            _Part("repairs", replication.repairs.start, replication.repairs.stop),
            _Part("logins", lambda: None, self.security.stop_logins),
            _Part("listeners", self._bind, self._socket_server.close),
            _Part("membership", self.member.join, self.member.membership.unregister),
            _Part("groups", coordinators.group_cleanup.scan.start, coordinators.group_cleanup.scan.stop),
            _Part("transactions", coordinators.transaction_expiration.start, coordinators.transaction_expiration.stop),
            _Part("share states", coordinators.share_state_upkeep.start, coordinators.share_state_upkeep.stop),
            _Part("controller", self._start_controller, self.control.controller.stop),
            _Part("tokens", self.control.token_expiration.start, self.control.token_expiration.stop),
            *([_Part("remote logs", remote.start, remote.stop)] if remote.manager is not None else []),
            _Part("serving", self._serve, self._drain),
            _Part("conditions", self.monitor.start, self.monitor.stop),
            _Part("leadership", self.control.balancer.start, self._hand_over),
            _Part("mirrors", self.mirrors.start, self.mirrors.stop),
        ):
            part.setServiceParent(self)

    def when_lost(self, lost: Callable[[Failure], object]) -> None:
        """Set the function to call if the broker fails after its start."""
        self._on_lost = lost

    def when_asked_to_stop(self, stop: Callable[[], object]) -> None:
        """Set the function to call if an operator asks to stop the process."""
        self._admin_server.stop_process = stop

    def metric_families(self) -> Iterable[Family]:
        """Return the metrics that ``/metrics`` serves."""
        return self._admin_server.families()

    def combine_metrics(self, combine: Combine) -> None:
        """Set the function that makes this broker's metrics those of several brokers that are run as one."""
        self._admin_server.combine_metrics = combine

    def abort_connections(self) -> None:
        """Close the connections of all clients at once, as the end of the process would; others may come."""
        self._socket_server.abort()

    def client_transports(self) -> list[Any]:
        """The transports of all connections that clients and other brokers have made."""
        return self._socket_server.transports()

    def _lost(self, failure: Failure) -> None:
        self.readiness.serving = False
        self._on_lost(failure)

    # Steps of the start and the stop.

    def _open_logs(self) -> Deferred[None]:
        return self.logs.open().addCallback(lambda _: self.control.epochs.load())

    def _open_store(self) -> Deferred[None]:
        opened = Deferred.fromCoroutine(self.member.open_store(self.logs))
        return opened.addCallback(lambda _: self.member.store.subscribe(self._session_changed))

    def _session_changed(self, state: SessionState) -> None:
        # During a start or stop, the store is closed elsewhere.
        if state is SessionState.CLOSED and self.readiness.serving:
            path = self.member.store.path
            self._lost(Failure(StorageError(f"the metadata store {path} failed; the broker must stop")))

    def _hang_up(self) -> None:
        self.replication.close()
        self.member.peers.close()
        self.env.timers.close()

    def _bind(self) -> Deferred[None]:
        def bound(endpoints: Mapping[str, Endpoint]) -> None:
            self.endpoints = endpoints
            protocols = {name: listener.security_protocol for name, listener in self._listeners.items()}
            # Other brokers take the first one, unless a listener is named for them.
            among = self.config.get(keys.SECURITY_INTER_BROKER_PROTOCOL)
            names = sorted(endpoints, key=lambda name: protocols[name] != among)
            clients = {name: endpoints[name] for name in names if endpoints[name].protocol == "kafka"}
            protocols = {name: protocols[name] for name in clients}
            self.member.membership.registration = evolve(
                self.member.membership.registration,
                endpoints=clients,
                security_protocols=protocols,
                unsynced_lost=self.logs.unsynced_lost,
                logs_lost=self.logs.logs_lost,
                unclean_shutdown=self.logs.unclean_shutdown,
            )
            self._show_listeners(clients.values())

        self.security.load()
        return self._socket_server.bind(self.plugin_services).addCallback(bound)

    def _show_listeners(self, advertised: Iterable[Endpoint]) -> None:
        """Make DescribeConfigs show the bound listeners."""
        shown = {
            keys.LISTENERS: self._socket_server.addresses("kafka"),
            keys.ADVERTISED_LISTENERS: [ListenerAddress(at.listener, at.host, at.port) for at in advertised],
            keys.ADMIN_LISTENERS: [
                at._replace(name=HTTPS if self._listeners[at.name].has_tls else HTTP)
                for at in self._socket_server.addresses("admin")
            ],
        }
        self.config.in_use.update({key: ",".join(map(str, found)) for key, found in shown.items()})

    def _start_controller(self) -> Deferred[None]:
        controller = self.control.controller

        async def started() -> None:
            try:
                await controller.start()
                if controller.active is None:
                    # Another broker is the controller, and will connect.
                    self._socket_server.open(self.member.inter_broker_listener())
                await self.member.metadata.wait_for(lambda metadata: self.broker_id in metadata.brokers)
            except Exception:
                await self._drain()
                await controller.stop()
                raise
            self.kafka_server.metadata_gate.open()

        return Deferred.fromCoroutine(started())

    @returns_deferred
    async def _serve(self) -> None:
        self.logs.start_housekeeping()
        self._socket_server.open()
        await self._socket_server.share()
        self.readiness.serving = True
        unix = {name: f"unix:{path}" for name, path in self._socket_server.unix_sockets().items()}
        self._log.info(
            "logbus broker {broker} ready: {listeners}",
            broker=self.broker_id,
            listeners=" ".join(f"{name}={unix.get(name) or _address(at)}" for name, at in self.endpoints.items()),
        )

    def _hand_over(self) -> Deferred[None]:
        """Move leaderships to other brokers: the first step of a stop, while this broker still serves."""
        self.readiness.serving = False
        self.control.balancer.stop()
        if self.member.store.state is SessionState.CLOSED:
            # Without the store nobody can take them.
            return succeed(None)
        return self.control.controlled_shutdown.say(self.member.others())

    @returns_deferred
    async def _drain(self) -> None:
        self.readiness.serving = False
        await self._socket_server.close()
        await self._socket_server.drain(self._release)

    def _release(self) -> None:
        """Complete requests that would wait for long."""
        self.share_partitions.manager.stop()
        self.replication.purgatory.release()
        self.coordinators.release()


def _address(at: Endpoint) -> str:
    return f"[{at.host}]:{at.port}" if ":" in at.host else f"{at.host}:{at.port}"
