"""
Metadata updates built from a batch of the controller's changes (Kafka: ControllerBrokerRequestBatch): pure.

A broker that has just registered gets the full state; the others get the changes. All brokers get all partitions, since
all of them answer clients' Metadata requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from attrs import frozen

from logbus.cluster.controller.controller_context import ControllerContext, EntityConfigs
from logbus.cluster.images import BrokerImage
from logbus.cluster.metadata_update import DeletedTopic, MetadataUpdate, PartitionState
from logbus.model import TopicPartition

NOTHING: Mapping[str, Mapping[str, str]] = MappingProxyType({})


@frozen
class UpdateBatch:
    """
    A batch of changes, not yet addressed to brokers.

    :ivar brokers: whether the set of live brokers changed.
    :ivar partitions: those whose state changed; ``created``: those among them that did not exist before.
    :ivar configs: topics whose overrides changed; also ``broker_configs`` (entities), ``group_configs`` (groups).
    :ivar security_nodes: paths of security nodes that changed.
    """

    brokers: bool = False
    partitions: frozenset[TopicPartition] = frozenset()
    created: frozenset[TopicPartition] = frozenset()
    deleted: tuple[DeletedTopic, ...] = ()
    configs: frozenset[str] = frozenset()
    broker_configs: frozenset[str] = frozenset()
    group_configs: frozenset[str] = frozenset()
    security_nodes: frozenset[str] = frozenset()


def incremental_updates(
    state: ControllerContext, batch: UpdateBatch, controller_id: int, controller_epoch: int
) -> Mapping[int, MetadataUpdate]:
    """The batch as an update to each live broker."""
    partitions = partition_states(state, batch.partitions, batch.created)
    configs = {topic: state.topics[topic].overrides for topic in sorted(batch.configs) if topic in state.topics}
    brokers = dict(state.brokers) if batch.brokers else None
    security = {path: state.security_nodes.get(path) for path in sorted(batch.security_nodes)} or None
    return {
        broker.broker_id: MetadataUpdate(
            controller_id,
            controller_epoch,
            broker.epoch,
            brokers=brokers,
            partitions=partitions,
            deleted=batch.deleted,
            configs=configs,
            broker_configs=_overrides_of(batch.broker_configs, state.broker_configs),
            group_configs=_overrides_of(batch.group_configs, state.group_configs),
            security_nodes=security,
        )
        for broker in state.brokers.values()
    }


def full_updates(
    state: ControllerContext, brokers: Iterable[BrokerImage], controller_id: int, controller_epoch: int
) -> Mapping[int, MetadataUpdate]:
    """The full state, as an update to brokers that have none yet."""
    partitions = partition_states(state, state.partitions())
    security = state.security_nodes.contents()
    return {
        broker.broker_id: MetadataUpdate(
            controller_id,
            controller_epoch,
            broker.epoch,
            brokers=dict(state.brokers),
            partitions=partitions,
            broker_configs=dict(state.broker_configs.overrides),
            group_configs=dict(state.group_configs.overrides),
            security_nodes=security,
            full=True,
            unreadable=frozenset(state.unreadable),
        )
        for broker in brokers
    }


def partition_states(
    state: ControllerContext, names: Iterable[TopicPartition], created: Iterable[TopicPartition] = ()
) -> tuple[PartitionState, ...]:
    """The states of partitions that had their first election, grouped by topic, ascending by number."""
    new = frozenset(created)
    states = []
    for name in sorted(names):
        topic = state.topics.get(name.topic)
        if topic is None or topic.deleting:
            continue
        record = topic.partitions[name.partition]
        if record.state is not None:
            states.append(
                PartitionState(name, topic.topic_id, record.replicas, record.state, name in new, topic.overrides)
            )
    return tuple(states)


def _overrides_of(entities: Iterable[str], configs: EntityConfigs) -> Mapping[str, Mapping[str, str]]:
    return {entity: configs.overrides.get(entity, {}) for entity in sorted(entities)}
