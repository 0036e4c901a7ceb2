"""
This broker's copy of the cluster's metadata (Kafka: MetadataCache).

It changes in place, so the cost of a change depends on its own size and not on that of the cluster. It changes only
within :meth:`ClusterMetadata.changing`, so readers on the reactor never see half a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logbus.cluster.images import BrokerImage, PartitionImage, TopicImage
from logbus.cluster.metadata_changes import (
    BrokerConfigsChanged,
    ControllerChanged,
    GroupConfigsChanged,
    MetadataChange,
    PartitionsAdded,
    PartitionsChanged,
    TopicConfigsChanged,
    TopicCreated,
    TopicDeleted,
    broker_changes,
    changed_names,
    differs,
)
from logbus.cluster.security_nodes import SecurityNodes
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

__all__ = ["NO_CONTROLLER", "BrokerImage", "ClusterMetadata", "PartitionImage", "TopicImage"]

NO_CONTROLLER = -1
MAX_REMOVED = 10_000


@define(eq=False, repr=False)
class ClusterMetadata:
    """
    Brokers, topics and the controller, by the last metadata update.

    :ivar cluster_id: 22 characters of URL-safe base64.
    :ivar controller_id: broker id of the controller, or −1 while there is none.
    :ivar brokers: live brokers by id. Read only.
    :ivar topics: topics by name. Read only.
    :ivar group_configs: overrides of consumer groups that have any, by group id. Read only.
    :ivar broker_configs: overrides of brokers that have any, by broker id or ``<default>`` (all brokers). Read only.
    :ivar security_nodes: users, quotas, ACLs and delegation tokens; they change on their own.
    :ivar version: grows by one with every change; a cached answer is valid for one version.
    :ivar is_partial: an update is being shown in parts: a topic that is missing here may exist.
    """

    cluster_id: str
    controller_id: int = NO_CONTROLLER
    brokers: dict[int, BrokerImage] = field(factory=dict, init=False)
    topics: dict[str, TopicImage] = field(factory=dict, init=False)
    group_configs: dict[str, Mapping[str, str]] = field(factory=dict, init=False)
    broker_configs: dict[str, Mapping[str, str]] = field(factory=dict, init=False)
    security_nodes: SecurityNodes = field(factory=SecurityNodes, init=False)
    version: int = field(default=0, init=False)
    is_partial: bool = field(default=False, init=False)
    _by_id: dict[UUID, TopicImage] = field(factory=dict, init=False)
    _subscribers: list[Callable[[], None]] = field(factory=list, init=False)
    _removal_subscribers: list[Callable[[Sequence[str]], None]] = field(factory=list, init=False)
    _watchers: list[Callable[[Sequence[MetadataChange]], None]] = field(factory=list, init=False)
    _gone: list[str] = field(factory=list, init=False)
    _removed: dict[UUID, None] = field(factory=dict, init=False)
    _changes: list[MetadataChange] = field(factory=list, init=False)
    _changing: bool = field(default=False, init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        self.security_nodes.failed = lambda: self._log.failure("a subscriber to the security nodes failed")

    # Reading.

    def topic(self, name: str) -> TopicImage | None:
        """The topic called ``name``, if it exists."""
        return self.topics.get(name)

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        """The topic with ``topic_id``, if it exists (a recreated topic has a new id)."""
        return self._by_id.get(topic_id)

    def unknown_id(self, topic_id: UUID) -> ApiError:
        """
        What to tell a client about an id without a topic: UNKNOWN_TOPIC_ID, or NOT_LEADER_OR_FOLLOWER while this broker
        starts. It may be the topic's leader, but does not lead anything yet.
        """
        if self.is_whole:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {topic_id}")
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker starts, and has not heard of its topics yet")

    def partition(self, topic_partition: TopicPartition) -> PartitionImage | None:
        """The partition, if it exists."""
        topic = self.topics.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
            return None
        return topic.partitions[topic_partition.partition]

    @property
    def is_whole(self) -> bool:
        """Whether a controller has told all of it: otherwise a topic that is missing here may exist."""
        return bool(self.brokers) and not self.is_partial

    def was_removed(self, topic_id: UUID) -> bool:
        """Whether the topic was known here, and is gone; of the last :data:`MAX_REMOVED` only."""
        return topic_id in self._removed

    @property
    def partition_count(self) -> int:
        """Partitions of all topics; O(topics)."""
        return sum(len(topic.partitions) for topic in self.topics.values())

    # Waiting.

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """
        Call ``changed`` after each change, once per batch of changes.

        :return: a function that ends the subscription; calling it twice does no harm.
        """
        self._subscribers.append(changed)

        def unsubscribe() -> None:
            if changed in self._subscribers:
                self._subscribers.remove(changed)

        return unsubscribe

    def watch(self, told: Callable[[Sequence[MetadataChange]], None]) -> Callable[[], None]:
        """
        Call ``told`` after each batch of changes with what has changed, if anything has. Without watchers nothing is
        compared.

        :return: a function that ends it; calling it twice does no harm.
        """
        self._watchers.append(told)

        def unwatch() -> None:
            if told in self._watchers:
                self._watchers.remove(told)

        return unwatch

    def when_removed(self, removed: Callable[[Sequence[str]], None]) -> None:
        """
        Call ``removed`` with the names of removed topics, after the change; topics of those names may exist again, with
        other ids.
        """
        self._removal_subscribers.append(removed)

    def wait_for(self, condition: Callable[[ClusterMetadata], bool]) -> Deferred[None]:
        """
        Fires as soon as ``condition`` holds: now, or after a change. Cancel it (or ``addTimeout``) to give up.
        """
        waiting: Deferred[None] = Deferred(lambda _: unsubscribe())

        def check() -> None:
            if waiting.called:
                return  # Cancelled by another subscriber to the same change.
            try:
                met = condition(self)
            except Exception:
                unsubscribe()
                waiting.errback()
                return
            if met:
                unsubscribe()
                waiting.callback(None)

        unsubscribe = self.subscribe(check)
        check()
        return waiting

    # Changing: everything below only inside `with metadata.changing():`.

    @contextmanager
    def changing(self) -> Iterator[ClusterMetadata]:
        """Make several changes that readers see as one; subscribers are called at the end."""
        if self._changing:
            raise RuntimeError("the metadata is already being changed")
        self._changing = True
        try:
            yield self
        finally:
            self._changing = False
            self.version += 1
        gone, self._gone = self._gone, []
        removals: list[Callable[[], None]] = []
        if gone:
            removals = [partial(removed, gone) for removed in self._removal_subscribers]
        changes, self._changes = self._changes, []
        told: list[Callable[[], None]] = []
        if changes:
            told = [partial(watcher, changes) for watcher in self._watchers]
        for changed in [*removals, *self._subscribers, *told]:
            try:
                changed()
            except Exception:
                self._log.failure("a subscriber to the cluster metadata failed")

    def set_controller(self, broker_id: int) -> None:
        """Set the controller (−1: none)."""
        if self._watchers and broker_id != self.controller_id:
            self._changes.append(ControllerChanged(broker_id))
        self.controller_id = broker_id

    def set_brokers(self, brokers: Mapping[int, BrokerImage]) -> None:
        """Replace the set of live brokers."""
        if self._watchers:
            self._changes += broker_changes(self.brokers, brokers)
        self.brokers.clear()
        self.brokers.update(brokers)

    def set_partitions(self, name: str, topic_id: UUID, partitions: Sequence[tuple[int, PartitionImage]]) -> None:
        """
        Add or replace partitions, given with their numbers in ascending order, and the topic if it is unknown.

        A known topic with another id is the predecessor of this one and is forgotten first.

        :raise ValueError: the numbers would leave a gap.
        """
        topic = self.topics.get(name)
        if topic is None or topic.topic_id != topic_id:
            self.remove_topic(name)
            topic = self.topics[name] = self._by_id[topic_id] = TopicImage(name, topic_id)
        held = topic.partitions
        before = len(held)
        changed: list[tuple[int, PartitionImage]] = []
        for number, image in partitions:
            if number < len(held):
                if self._watchers and differs(held[number], image):
                    changed.append((number, image))
                held[number] = image
            elif number == len(held):
                held.append(image)
            else:
                raise ValueError(f"partition {name}-{number} came before {name}-{len(held)}")
        if self._watchers:
            self._note_partitions(topic, before, changed)

    def _note_partitions(self, topic: TopicImage, before: int, changed: Sequence[tuple[int, PartitionImage]]) -> None:
        now = len(topic.partitions)
        if not before and now:
            self._changes.append(TopicCreated(topic.name, topic.topic_id, now))
        elif now > before:
            self._changes.append(PartitionsAdded(topic.name, now))
        if changed:
            self._changes.append(PartitionsChanged(topic.name, tuple(changed)))

    def set_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace a topic's overrides; nothing happens when the topic is unknown."""
        topic = self.topics.get(name)
        if topic is not None:
            if self._watchers and (names := changed_names(topic.configs, configs)):
                self._changes.append(TopicConfigsChanged(name, names))
            topic.configs = MappingProxyType(dict(configs))

    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Replace a consumer group's overrides."""
        if self._watchers and (names := changed_names(self.group_configs.get(group_id, {}), configs)):
            self._changes.append(GroupConfigsChanged(group_id, names))
        if configs:
            self.group_configs[group_id] = MappingProxyType(dict(configs))
        else:
            self.group_configs.pop(group_id, None)

    def set_broker_configs(self, entity: str, configs: Mapping[str, str]) -> None:
        """Replace the overrides of a broker, given by its id, or ``<default>``: all brokers."""
        if self._watchers and (names := changed_names(self.broker_configs.get(entity, {}), configs)):
            self._changes.append(BrokerConfigsChanged(int(entity) if entity.isdecimal() else None, names))
        if configs:
            self.broker_configs[entity] = MappingProxyType(dict(configs))
        else:
            self.broker_configs.pop(entity, None)

    def remove_topic(self, name: str, topic_id: UUID | None = None) -> TopicImage | None:
        """Remove a topic (only if it still has ``topic_id``, when that is given); return its image, if any."""
        topic = self.topics.get(name)
        if topic is None or (topic_id is not None and topic.topic_id != topic_id):
            return None
        del self.topics[name]
        self._by_id.pop(topic.topic_id, None)
        self._gone.append(name)
        self._removed[topic.topic_id] = None
        if len(self._removed) > MAX_REMOVED:
            del self._removed[next(iter(self._removed))]
        if self._watchers:
            self._changes.append(TopicDeleted(name, topic.topic_id))
        return topic
