"""
What the controller knows: brokers, topics, partitions, and the phases that follow from them.

Phases are not stored but derived from the records, so that they cannot disagree with them; the controller is
level-triggered: whatever happened, it compares what is with what ought to be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from uuid import UUID

from attrs import define, field

from logbus.cluster.announcement import NO_OVERRIDES
from logbus.cluster.images import BrokerImage
from logbus.model import LeaderAndIsr, TopicPartition

ABSENT = -1


class PartitionPhase(Enum):
    """
    ======== ====================================================== =======================
    phase    when                                                   comes from
    ======== ====================================================== =======================
    NEW      assigned, but no leader was ever elected               nothing
    ONLINE   its leader is alive                                    NEW, OFFLINE
    OFFLINE  it has no leader, or a dead one                        NEW, ONLINE
    DELETED  its topic is being deleted                             NEW, ONLINE, OFFLINE
    ======== ====================================================== =======================
    """

    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    DELETED = "deleted"


class ReplicaPhase(Enum):
    """ONLINE: its broker lives and its log directory works. OFFLINE: one of the two does not. DELETED: as above."""

    ONLINE = "online"
    OFFLINE = "offline"
    DELETED = "deleted"


@define(eq=False)
class PartitionRecord:
    """
    One partition as it is in the metadata store.

    :ivar state: None before the first election.
    :ivar changed: the transaction that wrote ``state``: a leader registered later than that has restarted since.
    """

    replicas: tuple[int, ...]
    state: LeaderAndIsr | None = None
    changed: int = 0


@define(eq=False)
class TopicRecord:
    """
    One topic as it is in the metadata store.

    :ivar version: of the topic's node, for the next change; ``config_version``: of its configuration, −1 if there is
        no such node.
    :ivar overrides: replaced whole, never changed in place.
    """

    name: str
    topic_id: UUID
    partitions: list[PartitionRecord]
    overrides: Mapping[str, str] = NO_OVERRIDES
    version: int = 0
    config_version: int = ABSENT
    deleting: bool = False


@define(eq=False)
class ControllerState:
    """
    All of it.

    :ivar brokers: those that live, by id.
    :ivar failed: replicas on living brokers whose log directory failed, by broker.
    :ivar broker_configs: overrides by entity (broker id or ``<default>``); ``broker_config_versions``: of their nodes.
    """

    brokers: dict[int, BrokerImage] = field(factory=dict)
    topics: dict[str, TopicRecord] = field(factory=dict)
    failed: dict[int, set[TopicPartition]] = field(factory=dict)
    broker_configs: dict[str, Mapping[str, str]] = field(factory=dict)
    broker_config_versions: dict[str, int] = field(factory=dict)

    def partition(self, name: TopicPartition) -> PartitionRecord:
        """The record (it must exist)."""
        return self.topics[name.topic].partitions[name.partition]

    def partitions(self) -> Iterator[TopicPartition]:
        """All partitions of topics that are not being deleted."""
        for topic in self.topics.values():
            if not topic.deleting:
                for number in range(len(topic.partitions)):
                    yield TopicPartition(topic.name, number)

    def serves(self, broker_id: int, name: TopicPartition) -> bool:
        """Whether a replica could lead: its broker lives and its log directory works."""
        return broker_id in self.brokers and name not in self.failed.get(broker_id, ())

    def partition_phase(self, name: TopicPartition) -> PartitionPhase:
        """See :class:`PartitionPhase`."""
        record = self.partition(name)
        if self.topics[name.topic].deleting:
            return PartitionPhase.DELETED
        if record.state is None:
            return PartitionPhase.NEW
        return PartitionPhase.ONLINE if self.serves(record.state.leader, name) else PartitionPhase.OFFLINE

    def replica_phase(self, broker_id: int, name: TopicPartition) -> ReplicaPhase:
        """See :class:`ReplicaPhase`."""
        if self.topics[name.topic].deleting:
            return ReplicaPhase.DELETED
        return ReplicaPhase.ONLINE if self.serves(broker_id, name) else ReplicaPhase.OFFLINE

    def restarted(self, name: TopicPartition) -> bool:
        """Whether the leader has begun a new life since it was elected: its log may have lost its end."""
        record = self.partition(name)
        if record.state is None or record.state.leader not in self.brokers:
            return False
        return self.brokers[record.state.leader].epoch > record.changed
