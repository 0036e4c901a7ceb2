"""Collects records into batches, for each partition (Kafka: RecordAccumulator). Pure."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from logbus.client.producer.encoded_batch import EncodedBatch
from logbus.client.producer.partition_queue import BatchOutcome, BatchWritten, PartitionQueue, ProducerBatch
from logbus.model import TopicPartition
from logbus.records.batch import BatchBuilder, Headers
from logbus.records.compression import Codec

__all__ = ["RecordAccumulator", "ProducerBatch", "BatchWritten", "BatchOutcome", "PartitionQueue"]


@define(eq=False)
class RecordAccumulator:
    """
    The batches of all partitions: in each partition one that grows, and complete ones in front of it.

    :ivar batch_bytes: the size at which a batch is full, uncompressed; a larger record gets a batch of its own.
    :ivar codec: compresses batches.
    :ivar level: compression level; None: the codec's default.
    """

    batch_bytes: int
    codec: Codec = Codec.NONE
    level: int | None = None
    _queues: dict[TopicPartition, PartitionQueue] = field(factory=dict, init=False)
    _growing: dict[TopicPartition, PartitionQueue] = field(factory=dict, init=False)
    _ready: dict[TopicPartition, PartitionQueue] = field(factory=dict, init=False)

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        """The queue of a partition, created at first use."""
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
    ) -> ProducerBatch:
        """
        Begin a batch with a record, if the growing batch has no room for it, or there is none.

        :param now: seconds of the producer's clock.
        :param timestamp: milliseconds since 1970.
        :returns: the new batch.
        :raises ValueError: a number is out of range.
        """
        builder = BatchBuilder(self.codec, self.level)
        builder.append(timestamp, key, value, headers)
        self.seal(queue)
        self._growing[queue.partition] = queue
        return queue.begin(builder, now)

    def append_batch(self, queue: PartitionQueue, builder: BatchBuilder | EncodedBatch, now: float) -> ProducerBatch:
        """Put a complete batch behind the others of a partition."""
        self.seal(queue)
        batch = queue.begin(builder, now)
        self.seal(queue)
        return batch

    def seal(self, queue: PartitionQueue) -> None:
        """Complete the growing batch of a partition."""
        if queue.growing is not None:
            self._growing.pop(queue.partition, None)
            queue.seal()
            self._ready[queue.partition] = queue

    def make_ready(self, created: float) -> float | None:
        """
        Release growing batches whose first record was added at or before ``created``. They take records until they are
        sent.

        :returns: when the oldest of the others was created; None if there are no others.
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
        """Release all growing batches."""
        self._ready.update(self._growing)
        self._growing.clear()

    def ready(self) -> Iterator[PartitionQueue]:
        """The partitions that have batches to send, least recently served first."""
        for partition, queue in list(self._ready.items()):
            if queue.waiting or (queue.growing is not None and partition not in self._growing):
                yield queue
            else:
                del self._ready[partition]

    def mark_served(self, queue: PartitionQueue) -> None:
        """Move a partition behind the others after a batch of it was sent."""
        if self._ready.pop(queue.partition, None) is not None:
            self._ready[queue.partition] = queue

    def requeue(self, queue: PartitionQueue) -> None:
        """Release a partition whose batches have to be sent again."""
        if queue.waiting:
            self._ready[queue.partition] = queue

    def queues(self) -> list[PartitionQueue]:
        """All queues, in no order."""
        return list(self._queues.values())
