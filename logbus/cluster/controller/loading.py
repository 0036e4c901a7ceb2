"""Reads the controller's state out of the metadata store, at the begin of a tenure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from twisted.internet.defer import Deferred, DeferredSemaphore

from logbus.cluster.controller.state import ABSENT, ControllerState, PartitionRecord, TopicRecord
from logbus.cluster.metadata import BrokerImage
from logbus.metastore.imetastore import IMetadataStore, NoNode, Watcher
from logbus.metastore.znodes import (
    BROKER_CONFIGS,
    BROKER_IDS,
    DELETED_TOPICS,
    TOPICS,
    BrokerIdZnode,
    ConfigZnode,
    StateZnode,
    TopicZnode,
)

OUTSTANDING = 200
"""Requests under way at once: enough to hide the distance, few enough not to choke the store."""

K = TypeVar("K")
V = TypeVar("V")


async def load_state(store: IMetadataStore) -> ControllerState:
    """
    All topics, partitions and configurations (brokers come from :func:`load_brokers`).

    :raise BadZnode: a node cannot be read.
    """
    state = ControllerState()
    deleting = set(await store.children(DELETED_TOPICS))
    topics = await _each(await store.children(TOPICS), lambda name: _topic(store, name))
    for name, topic in topics.items():
        if topic is not None:
            topic.deleting = name in deleting
            state.topics[name] = topic
    configs = await _each(
        await store.children(BROKER_CONFIGS), lambda entity: _config(store, ConfigZnode.broker_path(entity))
    )
    for entity, (overrides, version) in configs.items():
        state.broker_configs[entity] = overrides
        state.broker_config_versions[entity] = version
    return state


async def load_brokers(store: IMetadataStore, watch: Watcher) -> dict[int, BrokerImage]:
    """The brokers that live; ``watch`` hears when one comes or goes."""

    async def one(name: str) -> BrokerImage | None:
        try:
            data, stat = await store.get(BrokerIdZnode.path(int(name)))
        except NoNode:
            return None  # It left just now; the watch says so, too.
        registration = BrokerIdZnode.decode(int(name), data)
        return BrokerImage(int(name), registration.endpoints, registration.rack, stat.czxid)

    found = await _each(await store.children(BROKER_IDS, watch), one)
    return {broker.broker_id: broker for broker in found.values() if broker is not None}


async def _topic(store: IMetadataStore, name: str) -> TopicRecord | None:
    try:
        data, stat = await store.get(TopicZnode.path(name))
    except NoNode:
        return None
    assignment = TopicZnode.decode(name, data)
    overrides, config_version = await _config(store, ConfigZnode.topic_path(name))
    records = [PartitionRecord(replicas) for replicas in assignment.partitions]
    topic = TopicRecord(name, assignment.topic_id, records, overrides, stat.version, config_version)

    async def partition(number: int) -> None:
        try:
            data, stat = await store.get(StateZnode.path(name, number))
        except NoNode:
            return  # Made, but its first election was not written: it is new.
        records[number].state = StateZnode.decode(name, number, data, stat.version)
        records[number].changed = stat.mzxid

    await _each(range(len(records)), partition)
    return topic


async def _config(store: IMetadataStore, path: str) -> tuple[dict[str, str], int]:
    try:
        data, stat = await store.get(path)
    except NoNode:
        return {}, ABSENT
    return ConfigZnode.decode(path, data), stat.version


async def _each(keys: Iterable[K], read: Callable[[K], Awaitable[V]]) -> dict[K, V]:
    """
    Read for each key, some at a time; the first failure is the outcome, once nothing is under way any more.
    """
    slots = DeferredSemaphore(OUTSTANDING)

    async def one(key: K) -> V:
        async with slots:
            return await read(key)

    under_way = [(key, Deferred.fromCoroutine(one(key))) for key in keys]
    found: dict[K, V] = {}
    failure: BaseException | None = None
    for key, waiting in under_way:
        try:
            found[key] = await waiting
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return found
