"""
A broker as a member of its cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.python.failure import Failure

from logbus.broker.environment import Environment
from logbus.cluster.broker_secret import BrokerSecret
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.forwarding_manager import ForwardingManager
from logbus.cluster.membership import Membership, connected_again, ensure_cluster
from logbus.cluster.peers import ConnectTo, Identity, LogIn, Peers, inter_broker
from logbus.cluster.plugin_calls import PluginCalls
from logbus.cluster.producer_id_manager import ProducerIdManager
from logbus.cluster.security_node_loader import load_security_nodes
from logbus.config import keys
from logbus.coroutines import returns_deferred
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import ConnectionLost, SessionLost
from logbus.metastore.znodes import Registration
from logbus.net.time_slices import TimeSlice
from logbus.settings import metadata_store
from logbus.storage.log_manager import LogManager


class ClusterMember:
    """
    The session with the metadata store, the registration, the metadata, and the connections to other brokers.

    :param store: the metadata store; None: that of the configuration.
    :param connect_to: makes endpoints to other brokers.
    :param lost: called when the registration is lost for good.
    :param log_in: logs in on connections to other brokers; None: they do not ask for it.
    """

    def __init__(
        self,
        env: Environment,
        store: IMetadataStore | None,
        connect_to: ConnectTo,
        lost: Callable[[Failure], None],
        log_in: LogIn | None = None,
    ) -> None:
        config = env.config
        self._env = env
        self.store: Any = metadata_store(config, env.reactor, env.wall_clock) if store is None else store
        self.metadata = ClusterMetadata("")
        self.membership = Membership(
            self.store,
            Registration(env.broker_id, {}, env.new_uuid(), 0, rack=config.get(keys.BROKER_RACK)),
            env.reactor,
            env.wall_clock,
            config.get(keys.ZOOKEEPER_SESSION_TIMEOUT_MS) / 1000,
            lost,
        )
        self.broker_secret = BrokerSecret(
            self.store, env.reactor, env.random.randbytes, config.get(keys.INTER_BROKER_SECRET)
        )
        self.peers = Peers(
            self._identity,
            self.broker_secret,
            self.metadata,
            config.get(keys.INTER_BROKER_LISTENER_NAME),
            env.timers,
            connect_to,
            env.random,
            # A broker that does not answer for longer is about to lose its registration.
            min(config.get(keys.REQUEST_TIMEOUT_MS), config.get(keys.ZOOKEEPER_SESSION_TIMEOUT_MS)) / 1000,
            log_in,
            receive_buffer=config.get(keys.REPLICA_SOCKET_RECEIVE_BUFFER_BYTES),
        )
        self.forwarder = ForwardingManager(env.broker_id, self.metadata, self.peers)
        self.plugin_calls = PluginCalls(self.peers)
        self.producer_ids = ProducerIdManager(self.store, env.broker_id)

    def epoch(self) -> int:
        """The epoch of this broker's registration, −1 while there is none."""
        return self.membership.epoch

    def _identity(self) -> Identity:
        return Identity(self.metadata.cluster_id, self._env.broker_id, self.membership.epoch)

    async def open_store(self, logs: LogManager) -> None:
        """Open the session, learn the cluster's id, and check that the logs belong to this broker and cluster."""
        try:
            await self.store.open()
            self.metadata.cluster_id = await ensure_cluster(self.store, self._env.new_uuid)
            await self.broker_secret.load()
            await self._load_security_nodes()
            await logs.claim(self._env.broker_id, self.metadata.cluster_id)
        except Exception:
            # A failed start must not leave its threads and its session behind.
            await self.store.close()
            raise

    async def _load_security_nodes(self) -> None:
        """Load users and ACLs: nobody could log in before the controller's first update otherwise."""
        while True:
            try:
                found = await load_security_nodes(self.store, TimeSlice(self._env.slice_scheduler))
            except (ConnectionLost, SessionLost):
                await connected_again(self.store)
            else:
                self.metadata.security_nodes.replace({path: data for path, (data, _) in found.items()})
                return

    @returns_deferred
    async def join(self) -> None:
        """Register this broker."""
        try:
            await self.membership.register()
        except Exception:
            await self.membership.unregister()
            raise

    def inter_broker_listener(self) -> str | None:
        """The name of the listener that other brokers connect to."""
        endpoints = self.membership.registration.endpoints
        found = inter_broker(endpoints, self._env.config.get(keys.INTER_BROKER_LISTENER_NAME))
        return None if found is None else found.listener

    def others(self) -> list[int]:
        """The ids of the other live brokers."""
        return sorted(self.metadata.brokers.keys() - {self._env.broker_id})
