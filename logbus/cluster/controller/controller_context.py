"""
The controller's view of the cluster (Kafka: ControllerContext): brokers, topics, partitions and their phases. Pure.

Phases are not stored but derived from the records, so that they cannot disagree with them. The controller is
level-triggered: after any event it compares the present state with the wanted one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from uuid import UUID

from attrs import define, field

from logbus.cluster.controller.topic_rules import ReplicaAvailability
from logbus.cluster.images import BrokerImage
from logbus.cluster.metadata_update import NO_OVERRIDES
from logbus.metastore.cluster_znodes import BrokerIncarnation
from logbus.metastore.znodes import Assignment
from logbus.model import LeaderAndIsr, LogEnd, TopicPartition

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
    One partition as the metadata store has it.

    :ivar replicas: all of them, the preferred leader first; during a reassignment the target replicas come first.
    :ivar adding: those of ``replicas`` that a reassignment adds; ``removing``: those that it takes away at its end.
    :ivar state: None before the first election.
    """

    replicas: tuple[int, ...]
    state: LeaderAndIsr | None = None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def reassigning(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(one for one in self.replicas if one not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment."""
        return tuple(one for one in self.replicas if one not in self.adding)


@define(eq=False)
class TopicRecord:
    """
    One topic as the metadata store has it.

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

    @property
    def assignment(self) -> Assignment:
        """The content of the topic's node."""
        return assignment(self.topic_id, self.partitions)


def assignment(topic_id: UUID, partitions: Sequence[PartitionRecord]) -> Assignment:
    """The content of the node of a topic with these partitions."""
    return Assignment(
        topic_id,
        tuple(record.replicas for record in partitions),
        {number: record.adding for number, record in enumerate(partitions) if record.adding},
        {number: record.removing for number, record in enumerate(partitions) if record.removing},
    )


@define(eq=False)
class ControllerContext:
    """
    All that the controller knows of the cluster.

    :ivar brokers: the live brokers, by id.
    :ivar failed: replicas on live brokers whose log directory failed, by broker.
    :ivar incomplete: replicas on live brokers that were reported as incomplete, by broker.
    :ivar log_ends: of partitions without a leader: where the logs of live brokers end, by broker.
    :ivar leaving: brokers in controlled shutdown, until they register again.
    :ivar lives: incarnations of brokers that a controller has noted; ``lives_version``: of the node that keeps them.
    :ivar feature_level: what all brokers of the cluster can do; ``feature_version``: of the node that keeps it.
    :ivar unreadable: topics whose nodes cannot be read, with the reason; the controller does not touch them.
    :ivar broker_configs: overrides by entity (broker id or ``<default>``); ``broker_config_versions``: of their nodes.
    :ivar group_configs: overrides of consumer groups, by group id; ``group_config_versions``: of their nodes.
    """

    brokers: dict[int, BrokerImage] = field(factory=dict)
    topics: dict[str, TopicRecord] = field(factory=dict)
    failed: dict[int, set[TopicPartition]] = field(factory=dict)
    incomplete: dict[int, set[TopicPartition]] = field(factory=dict)
    log_ends: dict[TopicPartition, dict[int, LogEnd]] = field(factory=dict)
    leaving: set[int] = field(factory=set)
    lives: dict[int, BrokerIncarnation] = field(factory=dict)
    lives_version: int = ABSENT
    feature_level: int = 0
    feature_version: int = ABSENT
    unreadable: dict[str, str] = field(factory=dict)
    broker_configs: dict[str, Mapping[str, str]] = field(factory=dict)
    broker_config_versions: dict[str, int] = field(factory=dict)
    group_configs: dict[str, Mapping[str, str]] = field(factory=dict)
    group_config_versions: dict[str, int] = field(factory=dict)

    def partition(self, name: TopicPartition) -> PartitionRecord:
        """The record (it must exist)."""
        return self.topics[name.topic].partitions[name.partition]

    def partitions(self) -> Iterator[TopicPartition]:
        """All partitions of topics that are not being deleted."""
        for topic in self.topics.values():
            if not topic.deleting:
                for number in range(len(topic.partitions)):
                    yield TopicPartition(topic.name, number)

    def standing(self, broker_id: int, name: TopicPartition) -> ReplicaAvailability:
        """Whether a broker's replica of a partition can lead."""
        if broker_id not in self.brokers or name in self.failed.get(broker_id, ()):
            return ReplicaAvailability.GONE
        if broker_id in self.leaving:
            return ReplicaAvailability.LEAVING
        return ReplicaAvailability.INCOMPLETE if name in self.incomplete.get(broker_id, ()) else ReplicaAvailability.UP

    def forget(self, broker_id: int) -> None:
        """Drop a broker's reports: it is gone, or has registered anew."""
        self.failed.pop(broker_id, None)
        self.incomplete.pop(broker_id, None)
        self.leaving.discard(broker_id)
        for ends in self.log_ends.values():
            ends.pop(broker_id, None)

    def partition_phase(self, name: TopicPartition) -> PartitionPhase:
        """See :class:`PartitionPhase`."""
        record = self.partition(name)
        if self.topics[name.topic].deleting:
            return PartitionPhase.DELETED
        if record.state is None:
            return PartitionPhase.NEW
        gone = self.standing(record.state.leader, name) is ReplicaAvailability.GONE
        return PartitionPhase.OFFLINE if gone else PartitionPhase.ONLINE

    def replica_phase(self, broker_id: int, name: TopicPartition) -> ReplicaPhase:
        """See :class:`ReplicaPhase`."""
        if self.topics[name.topic].deleting:
            return ReplicaPhase.DELETED
        return (
            ReplicaPhase.OFFLINE if self.standing(broker_id, name) is ReplicaAvailability.GONE else ReplicaPhase.ONLINE
        )

    def come(self) -> dict[int, BrokerImage]:
        """Live brokers whose incarnation no controller has noted yet."""
        return {
            number: broker
            for number, broker in self.brokers.items()
            if number not in self.lives or self.lives[number].epoch != broker.epoch
        }

    def holders(self) -> set[int]:
        """The brokers to which any replica is assigned; a new broker with an empty disk is not among them."""
        return {one for topic in self.topics.values() for record in topic.partitions for one in record.replicas}

    def unclean(self, come: Mapping[int, BrokerImage]) -> frozenset[int]:
        """
        Those among ``come`` that started after an unclean stop, and may lack records that they had. A registration
        says it of a process, and repeats it when only the session was replaced.
        """
        return frozenset(
            number
            for number, broker in come.items()
            if (broker.unclean_shutdown or broker.unsynced_lost or broker.logs_lost)
            and (number not in self.lives or self.lives[number].incarnation != broker.incarnation)
        )
