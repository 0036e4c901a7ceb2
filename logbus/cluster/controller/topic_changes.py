"""
Changes of topics by the active controller: create, add partitions, configure, delete. They run on its event queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from attrs import evolve
from twisted.logger import Logger

from logbus.cluster.controller.active_controller import ActiveController
from logbus.cluster.controller.broker_channels import PendingUpdates
from logbus.cluster.controller.controller_context import ABSENT, PartitionRecord, TopicRecord
from logbus.cluster.controller.update_batch import UpdateBatch
from logbus.cluster.metadata_update import DeletedTopic
from logbus.metastore.operations import Create, Delete, NoNode, Op, Set
from logbus.metastore.znodes import ConfigZnode, DeletedTopicZnode, TopicZnode
from logbus.model import TopicPartition

UNITS_TO_ENCODE_TOPIC = 4
"""Units of a time slice that it takes to encode the nodes of one topic."""

PARTITIONS_A_UNIT = 5
"""So many partitions of a topic are a unit more."""

PARTITIONS_AT_ONCE = 50
"""Names of partitions that are made in one step of a time slice, each of which is a unit of work."""

UNITS_TO_DELETE_TOPIC = 20
"""Units of a time slice that it takes to remove the nodes of one topic."""

_log = Logger(namespace="logbus.cluster.controller")


async def create(active: ActiveController, topics: Sequence[TopicRecord]) -> PendingUpdates:
    """Create topics that do not exist; their first leaders are elected in the same transactions."""
    groups: list[Sequence[Op]] = []
    time_slice = active.time_slice()
    async for topic in time_slice.over(topics, UNITS_TO_ENCODE_TOPIC):
        groups.append(
            (
                Create(ConfigZnode.topic_path(topic.name), ConfigZnode.encode(topic.overrides)),
                Create(TopicZnode.path(topic.name), TopicZnode.encode(topic.assignment)),
                Create(TopicZnode.partitions_path(topic.name)),
            )
        )
        topic.config_version = 0
        if time_slice.used(len(topic.partitions) // PARTITIONS_A_UNIT):
            await time_slice.next()
    return await _write_new(active, {topic.name: (topic, 0) for topic in topics}, groups)


async def create_partitions(
    active: ActiveController, grown: Sequence[tuple[TopicRecord, Sequence[tuple[int, ...]]]]
) -> PendingUpdates:
    """Add partitions with the given replicas to topics."""
    groups: list[Sequence[Op]] = []
    topics: dict[str, tuple[TopicRecord, int]] = {}
    time_slice = active.time_slice()
    async for topic, added in time_slice.over(grown, UNITS_TO_ENCODE_TOPIC):
        records = [*topic.partitions, *(PartitionRecord(replicas) for replicas in added)]
        larger = evolve(topic, partitions=records, version=topic.version + 1)
        topics[topic.name] = larger, len(topic.partitions)
        if time_slice.used(len(added) // PARTITIONS_A_UNIT):
            await time_slice.next()
        groups.append((Set(TopicZnode.path(topic.name), TopicZnode.encode(larger.assignment), topic.version),))
        if time_slice.used(len(records) // PARTITIONS_A_UNIT):
            await time_slice.next()
    return await _write_new(active, topics, groups)


async def _write_new(
    active: ActiveController, topics: Mapping[str, tuple[TopicRecord, int]], groups: list[Sequence[Op]]
) -> PendingUpdates:
    """
    Write topics and the first elections of their new partitions, and send them.

    :param topics: by name, with the number of the first new partition.
    """
    known = active.state.topics
    before = {name: known.get(name) for name in topics}
    known.update((name, topic) for name, (topic, _) in topics.items())
    new = (
        TopicPartition(name, number)
        for name, (topic, first) in sorted(topics.items())
        for number in range(first, len(topic.partitions))
    )
    names: list[TopicPartition] = []
    created: set[TopicPartition] = set()
    try:
        async for some in active.time_slice().over_parts(new, PARTITIONS_AT_ONCE):
            names += some
            created.update(some)
        await active.elect(names, first=groups)
    except BaseException:
        for name, topic in before.items():
            if topic is None:
                del known[name]
            else:
                known[name] = topic
        raise
    frozen = frozenset(created)
    return await active.send(UpdateBatch(partitions=frozen, created=frozen))


async def configure_topics(active: ActiveController, overrides: Mapping[str, Mapping[str, str]]) -> PendingUpdates:
    """Replace topics' overrides."""
    state = active.state
    await active.fence.write(
        (_put_config(ConfigZnode.topic_path(name), values, state.topics[name].config_version),)
        for name, values in overrides.items()
    )
    for name, values in overrides.items():
        state.topics[name].overrides = dict(values)
        state.topics[name].config_version += 1
    # A topic may allow unclean election now: partitions that were offline for lack of it are due.
    names = [
        TopicPartition(name, number)
        for name in overrides
        if not state.topics[name].deleting
        for number in range(len(state.topics[name].partitions))
    ]
    delivery = await active.settle(names, UpdateBatch(configs=frozenset(overrides)))
    # A reassignment may have waited only for more replicas in sync than there need be now.
    await active.finish_moves(names)
    return delivery


async def configure_broker(active: ActiveController, entity: str, overrides: Mapping[str, str]) -> PendingUpdates:
    """Replace the overrides of a broker, or of all brokers (``<default>``)."""
    configs = active.state.broker_configs
    await active.fence.write([(_put_config(ConfigZnode.broker_path(entity), overrides, configs.version(entity)),)])
    configs.written(entity, overrides)
    return active.channels.send(UpdateBatch(broker_configs=frozenset([entity])))


async def configure_group(active: ActiveController, group_id: str, overrides: Mapping[str, str]) -> PendingUpdates:
    """Replace the overrides of a consumer group; its node is removed if there are none."""
    configs = active.state.group_configs
    path, version = ConfigZnode.group_path(group_id), configs.version(group_id)
    if overrides:
        await active.fence.write([(_put_config(path, overrides, version),)])
        configs.written(group_id, overrides)
    elif version != ABSENT:
        await active.fence.write([(Delete(path, version),)])
        configs.removed(group_id)
    return active.channels.send(UpdateBatch(group_configs=frozenset([group_id])))


async def begin_deletion(active: ActiveController, names: Sequence[str]) -> PendingUpdates:
    """Mark topics as deleted, for later controllers too, and have the brokers delete their logs."""
    await active.fence.write((Create(DeletedTopicZnode.path(name)),) for name in names)
    for name in names:
        active.state.topics[name].deleting = True
    return send_deletion(active, names)


def send_deletion(active: ActiveController, names: Sequence[str]) -> PendingUpdates:
    """Tell the live brokers; the others learn it from the full update when they are back."""
    topics = [active.state.topics[name] for name in names]
    deleted = tuple(DeletedTopic(topic.name, topic.topic_id, len(topic.partitions)) for topic in topics)
    return active.channels.send(UpdateBatch(deleted=deleted))


async def finish_deletion(active: ActiveController, names: Sequence[str]) -> None:
    """Remove the nodes of topics whose logs are gone; the mark last, so that a failed attempt is repeated."""
    store, state = active.fence.store, active.state
    async for name in active.time_slice().over(names, UNITS_TO_DELETE_TOPIC):
        topic = state.topics.get(name)
        if topic is None or not topic.deleting:
            continue  # Deleted already, and perhaps created again.
        parent = TopicZnode.partitions_path(name)
        try:
            numbers = await store.children(parent)
        except NoNode:
            numbers = []
        # An earlier attempt may have removed some of these.
        last = [
            path
            for path in (parent, TopicZnode.path(name), ConfigZnode.topic_path(name), DeletedTopicZnode.path(name))
            if await store.exists(path) is not None
        ]
        # They are made as they are written, some at a time.
        states: Iterator[Sequence[Op]] = (
            (Delete(f"{parent}/{number}/state"), Delete(f"{parent}/{number}")) for number in numbers
        )
        await active.fence.write(chain(states, [[Delete(path) for path in last]]))
        state.topics.pop(name, None)
        for failed in state.reports.failed.values():
            failed.difference_update([one for one in failed if one.topic == name])
        _log.info("topic {topic} was deleted", topic=name)


def _put_config(path: str, overrides: Mapping[str, str], version: int) -> Op:
    data = ConfigZnode.encode(overrides)
    return Create(path, data) if version == ABSENT else Set(path, data, version)
