"""Reads the controller's state out of the metadata store, at the begin of a tenure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.cluster.controller.state import ABSENT, ControllerState, PartitionRecord, TopicRecord
from logbus.cluster.metadata import BrokerImage
from logbus.metastore.imetastore import IMetadataStore, NoNode, Stat, Watcher
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

Found = tuple[bytes, Stat] | None


async def load_state(store: IMetadataStore) -> ControllerState:
    """
    All topics, partitions and configurations (brokers come from :func:`load_brokers`).

    :raise BadZnode: a node cannot be read.
    """
    state = ControllerState()
    deleting = set(await store.children(DELETED_TOPICS))
    names = await store.children(TOPICS)
    topics = await _get_all(store, [TopicZnode.path(name) for name in names])
    configs = await _get_all(store, [ConfigZnode.topic_path(name) for name in names])
    for name, found, config in zip(names, topics, configs, strict=True):
        if found is not None:
            state.topics[name] = _topic(name, found, config, name in deleting)
    await _load_partitions(store, state)
    await _load_broker_configs(store, state)
    return state


async def load_brokers(store: IMetadataStore, watch: Watcher) -> dict[int, BrokerImage]:
    """The brokers that live; ``watch`` hears when one comes or goes."""
    numbers = [int(name) for name in await store.children(BROKER_IDS, watch)]
    brokers = {}
    for number, found in zip(
        numbers, await _get_all(store, [BrokerIdZnode.path(number) for number in numbers]), strict=True
    ):
        if found is None:
            continue  # It left just now; the watch says so, too.
        data, stat = found
        registration = BrokerIdZnode.decode(number, data)
        brokers[number] = BrokerImage(
            number,
            registration.endpoints,
            registration.rack,
            stat.czxid,
            registration.incarnation,
            registration.feature_level,
            registration.unsynced_lost,
            registration.logs_lost,
        )
    return brokers


def _topic(name: str, found: tuple[bytes, Stat], config: Found, deleting: bool) -> TopicRecord:
    data, stat = found
    assignment = TopicZnode.decode(name, data)
    records = [PartitionRecord(replicas) for replicas in assignment.partitions]
    topic = TopicRecord(name, assignment.topic_id, records, version=stat.version, deleting=deleting)
    topic.overrides, topic.config_version = _config(ConfigZnode.topic_path(name), config)
    return topic


async def _load_partitions(store: IMetadataStore, state: ControllerState) -> None:
    numbered = [
        (topic.name, number, record)
        for topic in state.topics.values()
        for number, record in enumerate(topic.partitions)
    ]
    states = await _get_all(store, [StateZnode.path(name, number) for name, number, _ in numbered])
    for (name, number, record), found in zip(numbered, states, strict=True):
        if found is not None:  # Otherwise it was made, but its first election was not written: it is new.
            data, stat = found
            record.state = StateZnode.decode(name, number, data, stat.version)
            record.changed = stat.mzxid


async def _load_broker_configs(store: IMetadataStore, state: ControllerState) -> None:
    entities = await store.children(BROKER_CONFIGS)
    paths = [ConfigZnode.broker_path(entity) for entity in entities]
    for entity, path, found in zip(entities, paths, await _get_all(store, paths), strict=True):
        state.broker_configs[entity], state.broker_config_versions[entity] = _config(path, found)


def _config(path: str, found: Found) -> tuple[dict[str, str], int]:
    if found is None:
        return {}, ABSENT
    data, stat = found
    return ConfigZnode.decode(path, data), stat.version


async def _get_all(store: IMetadataStore, paths: Sequence[str]) -> list[Found]:
    """What is at each path, or None; a window of requests is under way at once."""
    found: list[Found] = []
    window: deque[Deferred[Found]] = deque()
    try:
        for path in paths:
            window.append(store.get(path).addErrback(_absent))
            if len(window) == OUTSTANDING:
                found.append(await window.popleft())
        while window:
            found.append(await window.popleft())
    except Exception:
        _forget(window)
        raise
    return found


def _absent(failure: Failure) -> None:
    failure.trap(NoNode)


def _forget(window: Iterable[Deferred[Found]]) -> None:
    for waiting in window:
        waiting.addErrback(lambda _: None)  # They fail for the same reason as the first.
