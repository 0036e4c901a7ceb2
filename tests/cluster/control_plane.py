"""
Brokers without a data plane for tests: a session, a registration, a controller, and a host that records its calls.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.cluster.cluster_metadata import BrokerImage, ClusterMetadata
from logbus.cluster.controller.config_admin import ConfigAdmin
from logbus.cluster.controller.controller import Controller
from logbus.cluster.controller.security_admin import SecurityAdmin
from logbus.cluster.controller.topic_admin import TopicAdmin
from logbus.cluster.controller.topic_plan import TopicDefaults
from logbus.cluster.controller.topic_rules import TopicRules
from logbus.cluster.icluster import FullUpdate, IMetadataUpdateReceiver, IReplicaHost, PartitionErrors
from logbus.cluster.membership import Membership, ensure_cluster_id, ensure_paths
from logbus.cluster.metadata_update import PartitionState
from logbus.cluster.metadata_update_receiver import MetadataUpdateReceiver
from logbus.errors import ApiError, ConfigError, ErrorCode
from logbus.metastore.memory_store import MemoryEnsemble, MemoryStore
from logbus.metastore.znodes import Registration
from logbus.model import Endpoint, TopicPartition


@implementer(IReplicaHost)
@define(eq=False)
class RecordingHost:
    """
    Holds replicas that are only names.

    :ivar log: every call, in order.
    :ivar broken: partitions whose log directory fails.
    :ivar held: Deferreds to fire before calls go on; None: calls end at once.
    """

    log: list[tuple[str, Any]] = field(factory=list)
    states: dict[TopicPartition, PartitionState] = field(factory=dict)
    broken: set[TopicPartition] = field(factory=set)
    held: list[Deferred[None]] | None = None

    def become(self, states: Sequence[PartitionState]) -> Deferred[PartitionErrors]:
        self.log.append(("become", [state.topic_partition for state in states]))
        failed = {
            state.topic_partition: ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone")
            for state in states
            if state.topic_partition in self.broken
        }
        self.states.update((s.topic_partition, s) for s in states if s.topic_partition not in failed)
        return self._end(failed)

    def remove(self, topic_partitions: Sequence[TopicPartition]) -> Deferred[PartitionErrors]:
        self.log.append(("remove", list(topic_partitions)))
        for name in topic_partitions:
            self.states.pop(name, None)
        return self._end({})

    def retain(
        self, topic_partitions: Collection[TopicPartition], unreadable: Collection[str]
    ) -> Deferred[PartitionErrors]:
        stray = [name for name in self.states if name not in topic_partitions and name.topic not in unreadable]
        for name in stray:
            del self.states[name]
        if stray:
            self.log.append(("set aside", stray))
        return self._end({})

    def configure(self, topic: str, overrides: Mapping[str, str]) -> Deferred[None]:
        self.log.append(("configure", (topic, dict(overrides))))
        return succeed(None)

    def hold(self) -> None:
        """Let calls wait for :meth:`release`."""
        self.held = []

    def release(self) -> None:
        """Let all calls go on."""
        held, self.held = self.held, None
        for one in held or ():
            one.callback(None)

    def _end(self, errors: PartitionErrors) -> Deferred[PartitionErrors]:
        if self.held is None:
            return succeed(errors)
        waiting: Deferred[None] = Deferred()
        self.held.append(waiting)
        return waiting.addCallback(lambda _: errors)


@define(eq=False)
class Node:
    """One broker."""

    cluster: Cluster
    broker_id: int
    store: MemoryStore
    rack: str | None = None
    host: RecordingHost = field(factory=RecordingHost)
    configs: dict[str, Mapping[str, str]] = field(factory=dict)
    failures: list[Failure] = field(factory=list)
    metadata: ClusterMetadata = field(init=False)
    membership: Membership = field(init=False)
    receiver: MetadataUpdateReceiver = field(init=False)
    controller: Controller = field(init=False)
    admin: TopicAdmin = field(init=False)
    configs_admin: ConfigAdmin = field(init=False)
    security: SecurityAdmin = field(init=False)

    def __attrs_post_init__(self) -> None:
        clock = self.cluster.clock
        incarnation = UUID(int=self.cluster.random.getrandbits(128))
        endpoints = {"PLAINTEXT": Endpoint("PLAINTEXT", "127.0.0.1", 9092 + self.broker_id)}
        self.metadata = ClusterMetadata("the-cluster")
        self.membership = Membership(
            self.store,
            Registration(self.broker_id, endpoints, incarnation, 0, self.rack),
            clock,
            clock.seconds,
            6.0,
            self.failures.append,
        )
        self.receiver = MetadataUpdateReceiver(
            self.broker_id, self.metadata, self.host, lambda: self.membership.epoch, self.configs.update
        )
        self.controller = Controller(
            self.store,
            self.broker_id,
            incarnation,
            self.metadata,
            self.cluster.receiver_for,
            rules_for,
            clock,
            clock.seconds,
        )
        self.admin = TopicAdmin(
            self.controller,
            clock,
            self.cluster.random,
            lambda: TopicDefaults(2, 1),
            _check,
        )
        self.configs_admin = ConfigAdmin(
            self.controller, clock, _check, lambda broker_id, overrides: _check(overrides), _check
        )
        self.security = SecurityAdmin(self.controller, clock)

    async def start(self) -> None:
        """As a broker starts."""
        await self.store.open()
        await ensure_paths(self.store)
        await ensure_cluster_id(self.store, lambda: UUID(int=7))
        await self.membership.register()
        await self.controller.start()

    def crash(self) -> None:
        """The process is gone; its session expires."""
        self.cluster.nodes.pop(self.broker_id)
        self.store.suspend()
        self.store.expire()
        self.cluster.ensemble.clients.remove(self.store)


@define(eq=False)
class Cluster:
    """Brokers on one store and one clock."""

    clock: Clock = field(factory=Clock)
    random: random.Random = field(factory=lambda: random.Random(1))
    latency: float | None = None
    nodes: dict[int, Node] = field(factory=dict)
    ensemble: MemoryEnsemble = field(init=False)

    def __attrs_post_init__(self) -> None:
        slow = None if self.latency is None else self.clock
        self.ensemble = MemoryEnsemble(self.clock.seconds, slow, self.latency or 0.0)

    def node(self, broker_id: int = 0, rack: str | None = None, host: RecordingHost | None = None) -> Node:
        """A broker that has not been started."""
        node = self.nodes[broker_id] = Node(self, broker_id, self.ensemble.client(), rack, host or RecordingHost())
        return node

    def started(self, broker_id: int = 0, rack: str | None = None, host: RecordingHost | None = None) -> Node:
        """A broker that serves."""
        node = self.node(broker_id, rack, host)
        done = Deferred.fromCoroutine(node.start())
        self.pump()
        assert done.called
        done.addErrback(Failure.raiseException)
        return node

    def pump(self) -> None:
        """Let requests to the store be answered."""
        if self.latency is not None:
            for _ in range(400):
                self.clock.advance(self.latency)

    def receiver_for(self, broker: BrokerImage, everything: FullUpdate) -> IMetadataUpdateReceiver:
        """Announcements reach every broker directly."""
        return self.nodes[broker.broker_id].receiver


def _check(overrides: Mapping[str, str | None]) -> None:
    for name, value in overrides.items():
        if value is None or name.startswith("bad."):
            raise ConfigError(f"{name}: {value!r} is not valid")


def rules_for(overrides: Mapping[str, str]) -> TopicRules:
    """Rules by Kafka's names, with defaults of their own."""
    return TopicRules(
        unclean_allowed=overrides.get("unclean.leader.election.enable") == "true",
        min_insync=int(overrides.get("min.insync.replicas", "1")),
        flushes=overrides.get("flush.before.ack", "true") == "true",
    )
