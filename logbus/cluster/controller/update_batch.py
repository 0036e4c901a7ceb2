"""
Metadata updates built from a batch of the controller's changes (Kafka: ControllerBrokerRequestBatch): pure.

A broker that has just registered gets the full state; the others get the changes. All brokers get all partitions, since
all of them answer clients' Metadata requests.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from operator import attrgetter
from types import MappingProxyType

from attrs import frozen

from logbus.cluster.controller.controller_context import ControllerContext, EntityConfigs
from logbus.cluster.images import BrokerImage
from logbus.cluster.metadata_update import DeletedTopic, MetadataUpdate, PartitionState
from logbus.model import TopicPartition

STATES_A_STEP = 100
"""Partitions whose states are taken in one step."""

_NUMBER = attrgetter("partition")

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
    state: ControllerContext,
    batch: UpdateBatch,
    controller_id: int,
    controller_epoch: int,
    partitions: tuple[PartitionState, ...] | None = None,
) -> Mapping[int, MetadataUpdate]:
    """
    The batch as an update to each live broker.

    :param partitions: the states of the batch's partitions, if they are known.
    """
    if partitions is None:
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
    state: ControllerContext,
    brokers: Iterable[BrokerImage],
    controller_id: int,
    controller_epoch: int,
    partitions: tuple[PartitionState, ...] | None = None,
) -> Mapping[int, MetadataUpdate]:
    """
    The full state, as an update to brokers that have none yet.

    :param partitions: the states of all partitions, if they are known.
    """
    if partitions is None:
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
    steps = partition_states_in_steps(state, names, created)
    try:
        while True:
            next(steps)
    except StopIteration as done:
        states: tuple[PartitionState, ...] = done.value
        return states


def partition_states_in_steps(
    state: ControllerContext, names: Iterable[TopicPartition], created: Iterable[TopicPartition] = ()
) -> Generator[None, None, tuple[PartitionState, ...]]:
    """As :func:`partition_states`, for very many: yields after each step; ``state`` must not change meanwhile."""
    new = frozenset(created)
    by_topic: dict[str, list[TopicPartition]] = {}
    for count, name in enumerate(names, 1):
        by_topic.setdefault(name.topic, []).append(name)
        if not count % STATES_A_STEP:
            yield
    states: list[PartitionState] = []
    for topic_name in sorted(by_topic):
        topic = state.topics.get(topic_name)
        if topic is None or topic.deleting:
            continue
        for name in sorted(by_topic[topic_name], key=_NUMBER):
            record = topic.partitions[name.partition]
            if record.state is None:
                continue
            states.append(
                PartitionState(name, topic.topic_id, record.replicas, record.state, name in new, topic.overrides)
            )
            if not len(states) % STATES_A_STEP:
                yield
    return tuple(states)


def _overrides_of(entities: Iterable[str], configs: EntityConfigs) -> Mapping[str, Mapping[str, str]]:
    return {entity: configs.overrides.get(entity, {}) for entity in sorted(entities)}
