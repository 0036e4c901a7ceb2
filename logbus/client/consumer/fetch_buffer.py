"""
Fetched data that is not delivered yet, of all partitions (Kafka: FetchBuffer). Pure.

Partitions take turns. Paused ones keep their data until they are resumed.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from attrs import define, field

from logbus.client.consumer.consumer_record import Fetched
from logbus.errors import LogbusError
from logbus.model import TopicPartition


class BufferedFetch(Protocol):
    """Fetched data of one partition."""

    @property
    def size(self) -> int:
        """Bytes that are left in it."""

    def take(self) -> Fetched:
        """Take some records; nothing is left once ``size`` is 0."""


@define(eq=False)
class PartitionProblem:
    """An error of a partition, raised when its turn comes."""

    error: LogbusError
    size: int = field(default=0, init=False)

    def take(self) -> Fetched:
        """
        :raises LogbusError: always.
        """
        raise self.error


@define(eq=False)
class FetchBuffer:
    """
    Queues of fetched data, one for each partition.

    :ivar size: total bytes.
    :ivar paused_size: bytes of paused partitions.
    """

    size: int = field(default=0, init=False)
    paused_size: int = field(default=0, init=False)
    _held: dict[TopicPartition, deque[BufferedFetch]] = field(factory=dict, init=False)
    _sizes: dict[TopicPartition, int] = field(factory=dict, init=False)
    _ready: dict[TopicPartition, None] = field(factory=dict, init=False)
    _paused: set[TopicPartition] = field(factory=set, init=False)

    def __bool__(self) -> bool:
        """Whether there is something to take."""
        return bool(self._ready)

    @property
    def next(self) -> TopicPartition:
        """The partition whose turn it is."""
        return next(iter(self._ready))

    def holds(self, partition: TopicPartition) -> bool:
        """Whether there is data of a partition."""
        return partition in self._held

    def size_of(self, partition: TopicPartition) -> int:
        """Bytes held of a partition."""
        return self._sizes.get(partition, 0)

    def paused(self) -> list[TopicPartition]:
        """The paused partitions that have data."""
        return [each for each in self._held if each in self._paused]

    def put(self, partition: TopicPartition, item: BufferedFetch) -> None:
        """Put something behind what is held of a partition."""
        self._held.setdefault(partition, deque()).append(item)
        self._grow(partition, item.size)
        if partition not in self._paused:
            self._ready[partition] = None

    def take(self) -> Fetched:
        """
        Take records of the partition whose turn it is.

        :raises LogbusError: the next item of that partition is an error.
        :raises StopIteration: nothing can be taken.
        """
        partition = self.next
        item = self._held[partition][0]
        del self._ready[partition]
        before = item.size
        try:
            fetched = item.take()
        except LogbusError:
            # What follows cannot be read either.
            self.drop(partition)
            raise
        self._grow(partition, item.size - before)
        if not item.size:
            self._held[partition].popleft()
        if self._held[partition]:
            self._ready[partition] = None
        else:
            del self._held[partition]
            self._sizes.pop(partition, None)
        return fetched

    def drop(self, partition: TopicPartition) -> None:
        """Drop the data of a partition."""
        self._grow(partition, -self._sizes.get(partition, 0))
        self._held.pop(partition, None)
        self._sizes.pop(partition, None)
        self._ready.pop(partition, None)

    def pause(self, partition: TopicPartition) -> None:
        """Take nothing more of a partition."""
        if partition not in self._paused:
            self._paused.add(partition)
            self.paused_size += self._sizes.get(partition, 0)
            self._ready.pop(partition, None)

    def resume(self, partition: TopicPartition) -> None:
        """Take from a partition again."""
        if partition in self._paused:
            self._paused.discard(partition)
            self.paused_size -= self._sizes.get(partition, 0)
            if partition in self._held:
                self._ready[partition] = None

    def _grow(self, partition: TopicPartition, count: int) -> None:
        self.size += count
        self._sizes[partition] = self._sizes.get(partition, 0) + count
        if partition in self._paused:
            self.paused_size += count
