"""
Loads the controller's state from the metadata store, when a broker becomes the active controller.

An unreadable node of one topic or broker does not stop the others: the topic is not touched, the broker is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

from twisted.logger import Logger

from logbus.cluster.controller.broker_incarnations import BrokerIncarnations
from logbus.cluster.controller.controller_context import ABSENT, ControllerContext, PartitionRecord, TopicRecord
from logbus.cluster.controller.security_node_table import SecurityNodeTable
from logbus.cluster.images import BrokerImage
from logbus.cluster.security_node_loader import load_security_nodes
from logbus.metastore.cluster_znodes import BrokerIncarnationsZnode, FeatureLevelZnode
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import Stat, Watcher
from logbus.metastore.pipelined_reads import Found, get_all
from logbus.metastore.znode_json import BadZnode
from logbus.metastore.znodes import (
    BROKER_CONFIGS,
    BROKER_IDS,
    BROKER_INCARNATIONS,
    DELETED_TOPICS,
    FEATURES,
    GROUP_CONFIGS,
    TOPICS,
    BrokerIdZnode,
    ConfigZnode,
    StateZnode,
    TopicZnode,
)
from logbus.model import topic_name_problem
from logbus.net.time_slices import TimeSlice

NODES_AT_ONCE = 100
"""Nodes that are read before the reactor may get a turn."""

UNITS_TO_READ = 4
"""Units of a time slice that it takes to read a node of an embedded store."""

UNITS_TO_DECODE = 2
"""Units of a time slice that it takes to decode a node."""

PARTITIONS_A_UNIT = 5
"""So many partitions in the node of a topic are a unit more."""

LARGE_NODE = 10_000
"""Bytes of a node that is decoded in a turn of its own."""

RECORDS_AT_ONCE = 50
"""Partitions whose records are made in one step, each of which is a unit of work."""

_log = Logger(namespace="logbus.cluster.controller")


async def load_state(store: IMetadataStore, time_slice: TimeSlice) -> ControllerContext:
    """
    All topics, partitions, configurations and security nodes (brokers come from :func:`load_brokers`).

    :param time_slice: for work on many nodes.
    :raise BadZnode: a node cannot be read that concerns the cluster as a whole.
    """
    state = ControllerContext()
    deleting = set(await store.children(DELETED_TOPICS))
    names = await store.children(TOPICS)
    topics = await _get_many(store, [TopicZnode.path(name) for name in names], time_slice)
    configs = await _get_many(store, [ConfigZnode.topic_path(name) for name in names], time_slice)
    async for name, found, config in time_slice.over(zip(names, topics, configs, strict=True), UNITS_TO_DECODE):
        problem = topic_name_problem(name)
        if problem is not None:
            state.unreadable[name] = problem
        elif found is not None:
            try:
                state.topics[name] = await _topic(name, found, config, name in deleting, time_slice)
            except BadZnode as error:
                state.unreadable[name] = str(error)
    await _load_partitions(store, state, time_slice)
    await _load_broker_configs(store, state)
    await _load_group_configs(store, state, time_slice)
    state.security_nodes = SecurityNodeTable.of(await load_security_nodes(store, time_slice))
    await _load_incarnations_and_feature_level(store, state)
    return state


async def load_brokers(store: IMetadataStore, watch: Watcher) -> dict[int, BrokerImage]:
    """The live brokers; ``watch`` fires when one registers or goes."""
    names = await store.children(BROKER_IDS, watch)
    numbers = [int(name) for name in names if name.isdecimal()]
    brokers = {}
    for number, found in zip(
        numbers, await get_all(store, [BrokerIdZnode.path(number) for number in numbers]), strict=True
    ):
        if found is None:
            continue  # It went just now; the watch fires, too.
        data, stat = found
        try:
            registration = BrokerIdZnode.decode(number, data)
        except BadZnode as error:
            _log.error("a broker is left alone: {error}", error=error)
            continue
        brokers[number] = BrokerImage(
            number,
            registration.endpoints,
            registration.rack,
            stat.czxid,
            registration.incarnation,
            registration.feature_level,
            registration.unsynced_lost,
            registration.logs_lost,
            registration.unclean_shutdown,
        )
    return brokers


async def _get_many(store: IMetadataStore, paths: Sequence[str], time_slice: TimeSlice) -> list[Found]:
    """As :func:`get_all`: an embedded store answers at once."""
    found: list[Found] = []
    for start in range(0, len(paths), NODES_AT_ONCE):
        some = paths[start : start + NODES_AT_ONCE]
        found += await get_all(store, some)
        if time_slice.used(UNITS_TO_READ * len(some)):
            await time_slice.next()
    return found


async def _topic(
    name: str, found: tuple[bytes, Stat], config: Found, deleting: bool, time_slice: TimeSlice
) -> TopicRecord:
    data, stat = found
    if len(data) > LARGE_NODE and time_slice.used(len(data) // LARGE_NODE):
        await time_slice.next()
    assignment = TopicZnode.decode(name, data)
    if time_slice.used(len(assignment.partitions) // PARTITIONS_A_UNIT):
        await time_slice.next()
    records: list[PartitionRecord] = []
    async for some in time_slice.over_parts(enumerate(assignment.partitions), RECORDS_AT_ONCE):
        records += [
            PartitionRecord(
                replicas, adding=assignment.adding.get(number, ()), removing=assignment.removing.get(number, ())
            )
            for number, replicas in some
        ]
    topic = TopicRecord(name, assignment.topic_id, records, version=stat.version, deleting=deleting)
    topic.overrides, topic.config_version = _config(ConfigZnode.topic_path(name), config)
    return topic


async def _load_partitions(store: IMetadataStore, state: ControllerContext, time_slice: TimeSlice) -> None:
    every = (
        (topic.name, number, record)
        for topic in list(state.topics.values())
        for number, record in enumerate(topic.partitions)
    )
    numbered: list[tuple[str, int, PartitionRecord]] = []
    paths: list[str] = []
    async for some in time_slice.over_parts(every, RECORDS_AT_ONCE):
        numbered += some
        paths += [StateZnode.path(name, number) for name, number, _ in some]
    states = await _get_many(store, paths, time_slice)
    async for (name, number, record), found in time_slice.over(zip(numbered, states, strict=True), UNITS_TO_DECODE):
        if found is not None:  # Otherwise it was created, but its first election was not written: it is new.
            data, stat = found
            try:
                record.state = StateZnode.decode(name, number, data, stat.version)
            except BadZnode as error:
                state.topics.pop(name, None)
                state.unreadable[name] = str(error)


async def _load_broker_configs(store: IMetadataStore, state: ControllerContext) -> None:
    configs = state.broker_configs
    entities = await store.children(BROKER_CONFIGS)
    paths = [ConfigZnode.broker_path(entity) for entity in entities]
    for entity, path, found in zip(entities, paths, await get_all(store, paths), strict=True):
        try:
            configs.overrides[entity], configs.versions[entity] = _config(path, found)
        except BadZnode as error:
            _log.error("the settings of {entity} are left alone: {error}", entity=entity, error=error)
            assert found is not None
            configs.versions[entity] = found[1].version


async def _load_group_configs(store: IMetadataStore, state: ControllerContext, time_slice: TimeSlice) -> None:
    configs = state.group_configs
    names = await store.children(GROUP_CONFIGS)
    paths = [f"{GROUP_CONFIGS}/{name}" for name in names]
    nodes = zip(names, paths, await _get_many(store, paths, time_slice), strict=True)
    async for name, path, found in time_slice.over(nodes, UNITS_TO_DECODE):
        try:
            group_id = ConfigZnode.group_of(name)
            configs.overrides[group_id], configs.versions[group_id] = _config(path, found)
        except BadZnode as error:
            _log.error("the settings of a group are left alone: {error}", error=error)


async def _load_incarnations_and_feature_level(store: IMetadataStore, state: ControllerContext) -> None:
    incarnations, features = await get_all(store, [BROKER_INCARNATIONS, FEATURES])
    if incarnations is not None:
        data, stat = incarnations
        state.incarnations = BrokerIncarnations(BrokerIncarnationsZnode.decode(data), stat.version)
    if features is not None:
        data, stat = features
        state.feature_level, state.feature_version = FeatureLevelZnode.decode(data), stat.version


def _config(path: str, found: Found) -> tuple[dict[str, str], int]:
    if found is None:
        return {}, ABSENT
    data, stat = found
    return ConfigZnode.decode(path, data), stat.version
