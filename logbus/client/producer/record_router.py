"""Finds the queue of the partition that a record goes to."""

from __future__ import annotations

from random import Random

from attrs import define, field

from logbus.client.cluster.cluster import TopicMetadata
from logbus.client.producer.partitioner import Partitioner, choose, partition_for_key
from logbus.client.producer.record_accumulator import PartitionQueue, RecordAccumulator
from logbus.model import TopicPartition


@define(eq=False)
class _Route:
    """
    A topic's queues.

    :ivar queues: by partition number; ``candidates``: those of partitions that have a leader.
    :ivar sticky: the queue for records without keys, until its partition has taken ``until`` bytes.
    """

    topic: TopicMetadata
    indexes: list[int]
    queues: dict[int, PartitionQueue]
    candidates: list[PartitionQueue]
    sticky: PartitionQueue | None = None
    until: int = 0


@define(eq=False)
class RecordRouter:
    """
    Chooses a partition by key, by the partitioner, or the sticky one (KIP-480).

    :ivar random: chooses the sticky partition.
    :ivar batch_bytes: after this many bytes the sticky partition changes.
    :ivar partitioner: used instead of the key, if there is one.
    """

    accumulator: RecordAccumulator
    random: Random
    batch_bytes: int
    partitioner: Partitioner | None = None
    _routes: dict[str, _Route] = field(factory=dict, init=False)

    def find(
        self, topic: TopicMetadata, key: bytes | None, value: bytes | None, partition: int | None
    ) -> PartitionQueue:
        """
        The queue for a record.

        :param partition: None: choose one.
        :raises ApiError: UNKNOWN_TOPIC_OR_PARTITION: the topic has no such partition.
        :raises Exception: whatever the partitioner raises.
        """
        route = self._routes.get(topic.name)
        if route is None or route.topic is not topic:
            route = self._route(topic)
        if partition is None:
            if self.partitioner is not None:
                partition = self.partitioner(topic.name, key, value, route.indexes)
            elif key is None:
                sticky = route.sticky
                return sticky if sticky is not None and sticky.taken < route.until else self._turn(route)
            else:
                partition = route.indexes[partition_for_key(key, len(route.indexes))]
        queue = route.queues.get(partition)
        if queue is None:
            raise topic.has_no(partition)
        return queue

    def _route(self, topic: TopicMetadata) -> _Route:
        indexes = list(topic.partitions)
        queues = {index: self.accumulator.queue(TopicPartition(topic.name, index)) for index in indexes}
        candidates = [queues[each.index] for each in topic.partitions.values() if each.leader >= 0]
        route = _Route(topic, indexes, queues, candidates or list(queues.values()))
        old = self._routes.get(topic.name)
        if old is not None and old.sticky in route.candidates:
            route.sticky, route.until = old.sticky, old.until
        self._routes[topic.name] = route
        return route

    def _turn(self, route: _Route) -> PartitionQueue:
        """Switch to another sticky partition, if there is one."""
        others = [each for each in route.candidates if each is not route.sticky] or route.candidates
        sticky = route.sticky = choose(self.random, others, [len(each.waiting) for each in others])
        route.until = sticky.taken + self.batch_bytes
        return sticky
