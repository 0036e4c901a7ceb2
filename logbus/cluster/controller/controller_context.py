"""
The controller's view of the cluster (Kafka: ControllerContext): brokers, topics and partitions. Pure.

The controller is level-triggered: after any event it compares the present state with the wanted one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from attrs import define, field

from logbus.cluster.controller.broker_incarnations import BrokerIncarnations
from logbus.cluster.controller.broker_reports import BrokerReports
from logbus.cluster.controller.security_node_table import SecurityNodeTable
from logbus.cluster.controller.topic_rules import ReplicaAvailability
from logbus.cluster.images import BrokerImage
from logbus.cluster.metadata_update import NO_OVERRIDES
from logbus.metastore.znodes import Assignment
from logbus.model import LeaderAndIsr, TopicPartition

ABSENT = -1
NO_LEADER = -1


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
class EntityConfigs:
    """Overrides of brokers or groups, by entity, and the versions of their nodes."""

    overrides: dict[str, Mapping[str, str]] = field(factory=dict)
    versions: dict[str, int] = field(factory=dict)

    def version(self, entity: str) -> int:
        """The version of an entity's node; −1 if there is none."""
        return self.versions.get(entity, ABSENT)

    def written(self, entity: str, overrides: Mapping[str, str]) -> None:
        """An entity's overrides were written."""
        self.overrides[entity] = dict(overrides)
        self.versions[entity] = self.version(entity) + 1

    def removed(self, entity: str) -> None:
        """An entity's node was removed."""
        del self.overrides[entity], self.versions[entity]


@define(eq=False)
class ControllerContext:
    """
    All that the controller knows of the cluster.

    :ivar brokers: the live brokers, by id.
    :ivar feature_level: what all brokers of the cluster can do; ``feature_version``: of the node that keeps it.
    :ivar unreadable: topics whose nodes cannot be read, with the reason; the controller does not touch them.
    :ivar broker_configs: overrides by broker id or ``<default>``.
    :ivar group_configs: overrides of consumer groups, by group id.
    :ivar security_nodes: users, quotas, ACLs and delegation tokens.
    """

    brokers: dict[int, BrokerImage] = field(factory=dict)
    topics: dict[str, TopicRecord] = field(factory=dict)
    reports: BrokerReports = field(factory=BrokerReports)
    incarnations: BrokerIncarnations = field(factory=BrokerIncarnations)
    feature_level: int = 0
    feature_version: int = ABSENT
    unreadable: dict[str, str] = field(factory=dict)
    broker_configs: EntityConfigs = field(factory=EntityConfigs)
    group_configs: EntityConfigs = field(factory=EntityConfigs)
    security_nodes: SecurityNodeTable = field(factory=SecurityNodeTable)

    def partition(self, name: TopicPartition) -> PartitionRecord:
        """The record (it must exist)."""
        return self.topics[name.topic].partitions[name.partition]

    def leader(self, name: TopicPartition) -> int:
        """A partition's leader; −1: it has none."""
        state = self.partition(name).state
        return NO_LEADER if state is None else state.leader

    def partitions(self) -> Iterator[TopicPartition]:
        """All partitions of topics that are not being deleted."""
        for topic in self.topics.values():
            if not topic.deleting:
                for number in range(len(topic.partitions)):
                    yield TopicPartition(topic.name, number)

    def availability(self, broker_id: int, name: TopicPartition) -> ReplicaAvailability:
        """Whether a broker's replica of a partition can lead."""
        reports = self.reports
        if broker_id not in self.brokers or name in reports.failed.get(broker_id, ()):
            return ReplicaAvailability.GONE
        if broker_id in reports.shutting_down:
            return ReplicaAvailability.LEAVING
        incomplete = name in reports.incomplete.get(broker_id, ())
        return ReplicaAvailability.INCOMPLETE if incomplete else ReplicaAvailability.UP

    def holders(self) -> set[int]:
        """The brokers to which any replica is assigned; a new broker with an empty disk is not among them."""
        return {one for topic in self.topics.values() for record in topic.partitions for one in record.replicas}
