"""
The metadata update that the controller sends to a broker (Kafka: LeaderAndIsr, UpdateMetadata, StopReplica). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from uuid import UUID

from attrs import field, frozen

from logbus.cluster.images import BrokerImage
from logbus.model import LeaderAndIsr, TopicPartition

NO_OVERRIDES: Mapping[str, str] = MappingProxyType({})


@frozen
class PartitionState:
    """
    The state of one partition, as brokers need it.

    :ivar replicas: broker ids, the preferred leader first.
    :ivar is_new: the partition is created by this update: that it has no log yet is not a loss.
    :ivar overrides: the topic's configuration, as strings by Kafka's names; each broker lays them over its own
        defaults (``view.topic_config(overrides)``). One mapping is shared by all partitions of a topic.
    """

    topic_partition: TopicPartition
    topic_id: UUID
    replicas: tuple[int, ...]
    leader_and_isr: LeaderAndIsr
    is_new: bool = False
    overrides: Mapping[str, str] = NO_OVERRIDES


@frozen
class DeletedTopic:
    """A deleted topic, with its number of partitions."""

    name: str
    topic_id: UUID
    partitions: int


@frozen
class MetadataUpdate:
    """
    One batch of decisions from the controller to one broker; each part is the new state, not a difference.

    :ivar controller_epoch: updates of a lower epoch than seen before are refused.
    :ivar broker_epoch: of the receiving broker; an update for an earlier registration is refused.
    :ivar brokers: all live brokers, or None when they did not change.
    :ivar partitions: grouped by topic, ascending by partition number.
    :ivar deleted: topics to forget, with their logs; applied before ``partitions``, so that a topic may be
        deleted and created again in one update.
    :ivar configs: new overrides of topics, by topic name.
    :ivar broker_configs: new overrides of brokers, by broker id or ``<default>`` (all brokers); applied before
        ``partitions``, whose logs lay their own overrides over them.
    :ivar group_configs: new overrides of consumer groups, by group id; empty ones: it has none any more.
    :ivar security_nodes: new contents of security nodes by path, None: it is gone. None for all: they did not
        change, or the controller is of a release that does not know them.
    :ivar full: the update has the full state: anything known and not in it does not exist any more.
    :ivar unreadable: topics that the controller cannot read: the state known of them, and their logs, stay.
    :ivar number: one that is not above that of the last update of the same epochs is late, and refused: 0: it cannot be
        late.
    """

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    brokers: Mapping[int, BrokerImage] | None = None
    partitions: tuple[PartitionState, ...] = ()
    deleted: tuple[DeletedTopic, ...] = ()
    configs: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    broker_configs: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    group_configs: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    security_nodes: Mapping[str, bytes | None] | None = field(default=None, repr=False)
    full: bool = False
    unreadable: frozenset[str] = frozenset()
    number: int = 0
