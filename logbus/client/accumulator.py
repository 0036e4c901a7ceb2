"""
Records on their way into batches. Pure: it knows neither the network nor the time.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from logbus.client.partition_queue import Batch, Delivered, Outcome, PartitionQueue
from logbus.model import TopicPartition
from logbus.records.batch import BatchBuilder, Headers
from logbus.records.compression import Codec

__all__ = ["Accumulator", "Batch", "Delivered", "Outcome", "PartitionQueue"]


@define(eq=False)
class Accumulator:
    """
    Collects records into batches: in each partition one that grows, and before it those that are full.

    :ivar batch_bytes: a batch is full at so many bytes, uncompressed; a larger record has one of its own.
    :ivar codec: how batches are compressed.
    :ivar level: the codec's level; None is its default.
    """

    batch_bytes: int
    codec: Codec = Codec.NONE
    level: int | None = None
    _queues: dict[TopicPartition, PartitionQueue] = field(factory=dict, init=False)
    _growing: dict[TopicPartition, PartitionQueue] = field(factory=dict, init=False)
    _ready: dict[TopicPartition, PartitionQueue] = field(factory=dict, init=False)

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        """What there is for a partition."""
        found = self._queues.get(partition)
        if found is None:
            found = self._queues[partition] = PartitionQueue(partition)
        return found

    def append(
        self,
        queue: PartitionQueue,
        now: float,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
    ) -> Batch:
        """
        Add a record that the growing batch has no room for, or where none grows.

        :param now: seconds of the producer's clock.
        :param timestamp: milliseconds since 1970.
        :returns: its batch, whose first record it is.
        :raises ValueError: a number is out of range.
        """
        builder = BatchBuilder(self.codec, self.level)
        builder.append(timestamp, key, value, headers)
        self.seal(queue)
        self._growing[queue.partition] = queue
        return queue.begin(builder, now)

    def seal(self, queue: PartitionQueue) -> None:
        """The growing batch of a partition is complete."""
        if queue.growing is not None:
            self._growing.pop(queue.partition, None)
            queue.seal()
            self._ready[queue.partition] = queue

    def make_ready(self, created: float) -> float | None:
        """
        Let the growing batches be sent whose first record came at or before ``created``. They go on to grow until they
        are.

        :returns: when the oldest one that is left was begun; None if none is.
        """
        for partition, queue in list(self._growing.items()):
            growing = queue.growing
            if growing is not None:
                if growing.created > created:
                    return growing.created
                self._ready[partition] = queue
            del self._growing[partition]
        return None

    def make_all_ready(self) -> None:
        """Let all growing batches be sent."""
        self._ready.update(self._growing)
        self._growing.clear()

    def ready(self) -> Iterator[PartitionQueue]:
        """The partitions with batches to be sent, those first that were not served last."""
        for partition, queue in list(self._ready.items()):
            if queue.waiting or (queue.growing is not None and partition not in self._growing):
                yield queue
            else:
                del self._ready[partition]

    def served(self, queue: PartitionQueue) -> None:
        """A batch of a partition was sent: the others come first the next time."""
        if self._ready.pop(queue.partition, None) is not None:
            self._ready[queue.partition] = queue

    def came_back(self, queue: PartitionQueue) -> None:
        """Batches of a partition are to be sent again."""
        if queue.waiting:
            self._ready[queue.partition] = queue

    def queues(self) -> list[PartitionQueue]:
        """All that is known of, in no order."""
        return list(self._queues.values())
