"""Fake topics, a group with a fake log, and members that follow the consumer protocol, for tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from attrs import define, field

from logbus.coordination.consumer.consumer_group import ConsumerGroup
from logbus.coordination.consumer.consumer_group_settings import ConsumerGroupSettings
from logbus.coordination.consumer.heartbeat import ConsumerHeartbeat, ConsumerHeartbeatResult
from logbus.coordination.consumer.partition_sets import NO_PARTITIONS, Partitions, TopicId, pairs, union
from logbus.coordination.consumer.topics_view import Topic
from logbus.coordination.group import Change
from logbus.coordination.group_records import decode_change, encode_change
from logbus.errors import ApiError, ErrorCode


@define
class Cluster:
    """Fake topics of a cluster."""

    version: int = 0
    topics: dict[str, Topic] = field(factory=dict)
    _made: int = 0

    def create(self, name: str, partitions: int = 1) -> TopicId:
        """A topic, new or made anew; its id."""
        self._made += 1
        self.version += 1
        self.topics[name] = Topic(self._made.to_bytes(16, "big"), partitions)
        return self.topics[name].topic_id

    def grow(self, name: str, by: int = 1) -> None:
        """More partitions."""
        old = self.topics[name]
        self.topics[name] = Topic(old.topic_id, old.partitions + by)
        self.version += 1

    def delete(self, name: str) -> None:
        """A topic less."""
        del self.topics[name]
        self.version += 1

    def topic(self, name: str) -> Topic | None:
        """See TopicsView."""
        return self.topics.get(name)

    def name(self, topic_id: TopicId) -> str | None:
        """See TopicsView."""
        return next((name for name, topic in self.topics.items() if topic.topic_id == topic_id), None)

    def names(self) -> Collection[str]:
        """See TopicsView."""
        return list(self.topics)

    def every_partition(self, names: Collection[str]) -> Partitions:
        """All partitions of those of the topics that exist."""
        found = [self.topics[name] for name in names if name in self.topics]
        return {topic.topic_id: frozenset(range(topic.partitions)) for topic in found if topic.partitions}


@define
class Log:
    """
    The records of a group.

    :ivar broken: appends fail.
    """

    cluster: Cluster
    settings: ConsumerGroupSettings = field(factory=ConsumerGroupSettings)
    broken: bool = False
    records: list[tuple[bytes, bytes | None]] = field(factory=list)
    group: ConsumerGroup = field(init=False)
    _ids: int = 0

    def __attrs_post_init__(self) -> None:
        self.group = self.new_group()

    def new_group(self) -> ConsumerGroup:
        """An empty group."""
        return ConsumerGroup("group", lambda: self.settings, self.cluster, self.save, self.new_member_id)

    def new_member_id(self) -> str:
        """Member ids that tests can tell apart."""
        self._ids += 1
        return f"made-{self._ids}"

    def save(self, changes: Sequence[Change], done: Callable[[ApiError | None], None]) -> None:
        """See Save."""
        if self.broken:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        self.records += map(encode_change, changes)
        done(None)

    def heartbeat(self, now: float, beat: ConsumerHeartbeat) -> ConsumerHeartbeatResult:
        """A heartbeat as a coordinator serves it: append first, take back if that fails."""
        result, changes = self.group.heartbeat(now, beat)
        if changes and self.broken:
            self.group.undo()
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        self.records += map(encode_change, changes)
        return result

    def replayed(self) -> ConsumerGroup:
        """A group as another broker reads it from the log."""
        group = self.new_group()
        for key, value in self.records:
            change: Any = decode_change(key, value)
            group.apply(change)
        return group

    def restart(self, now: float) -> None:
        """Go on with what is in the log."""
        self.group = self.replayed()
        self.group.activate(now)


@define
class Client:
    """
    A member that follows the protocol.

    :ivar owned: what it reads, and what it was told to give up and still reads.
    :ivar told: what it was last told that it may read.
    """

    member_id: str
    instance_id: str | None = None
    topics: tuple[str, ...] = ()
    regex: str = ""
    assignor: str | None = None
    rebalance_timeout_ms: int = 60_000
    epoch: int = 0
    owned: Partitions = NO_PARTITIONS
    told: Partitions = NO_PARTITIONS
    full: bool = True
    heard: float = 0.0
    _said: Partitions | None = None

    def beat(self) -> ConsumerHeartbeat:
        """Its next heartbeat: all after an error, else what has changed."""
        if self.full or self.epoch == 0:
            return ConsumerHeartbeat(
                self.member_id,
                self.epoch,
                instance_id=self.instance_id,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                topics=self.topics,
                regex=self.regex,
                assignor=self.assignor,
                owned=self.owned,
            )
        owned = self.owned if self.owned != self._said else None
        return ConsumerHeartbeat(self.member_id, self.epoch, instance_id=self.instance_id, owned=owned)

    def receive(self, now: float, result: ConsumerHeartbeatResult) -> None:
        """Read what is new at once; what is to be given up is still read: see :meth:`obey`."""
        self._said = self.owned
        self.full = False
        self.heard = now
        self.member_id, self.epoch = result.member_id, result.epoch
        if result.assignment is not None:
            self.told = result.assignment
            self.owned = union(self.owned, result.assignment)

    def obey(self) -> None:
        """Give up what it is to give up."""
        self.owned = self.told

    def abandon(self) -> None:
        """Give up everything, to join anew."""
        self.owned = self.told = NO_PARTITIONS
        self.epoch = 0
        self.full = True


def overlap(clients: Sequence[Client]) -> set[tuple[TopicId, int]]:
    """Partitions that several read."""
    seen: set[tuple[TopicId, int]] = set()
    twice: set[tuple[TopicId, int]] = set()
    for client in clients:
        for partition in pairs(client.owned):
            (twice if partition in seen else seen).add(partition)
    return twice
