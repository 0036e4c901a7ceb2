"""
Offsets that a group committed in transactions which are still open. Pure.

They hold when the transaction is committed, and are nothing if it is not. Until then nobody sees them. Where several
were committed for one partition the last in the log counts, whichever transaction ends first (KIP-98): so a
transaction that is committed late takes nothing back.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from logbus.coordination.committed import CommittedOffset
from logbus.model import TopicPartition


@define
class PendingOffset:
    """
    An offset that a transaction committed.

    :ivar record_offset: where the record is in ``__consumer_offsets``.
    :ivar committed: None: a record that is later in the log holds already. It is remembered all the same, because the
        partition is as unstable as it was.
    """

    record_offset: int
    committed: CommittedOffset | None


@define(eq=False)
class PendingOffsets:
    """What is pending of one group, by partition and producer."""

    _by_partition: dict[TopicPartition, dict[int, PendingOffset]] = field(factory=dict, init=False)
    _by_producer: dict[int, dict[TopicPartition, None]] = field(factory=dict, init=False)

    def __len__(self) -> int:
        """How many partitions have any."""
        return len(self._by_partition)

    def __contains__(self, partition: object) -> bool:
        """Whether a partition has any."""
        return partition in self._by_partition

    def __iter__(self) -> Iterator[TopicPartition]:
        """The partitions that have any."""
        return iter(self._by_partition)

    def of_producer(self, producer_id: int) -> bool:
        """Whether a producer has any here."""
        return producer_id in self._by_producer

    def first_of(self, producer_id: int) -> int | None:
        """Where the first record of a producer is that is pending; None: there is none."""
        partitions = self._by_producer.get(producer_id, ())
        return min((self._by_partition[partition][producer_id].record_offset for partition in partitions), default=None)

    def add(self, producer_id: int, partition: TopicPartition, record_offset: int, committed: CommittedOffset) -> None:
        """A transaction committed an offset; what it committed for that partition before counts no more."""
        self._by_partition.setdefault(partition, {})[producer_id] = PendingOffset(record_offset, committed)
        self._by_producer.setdefault(producer_id, {})[partition] = None

    def overtake(self, partition: TopicPartition, record_offset: int | None = None) -> None:
        """A record at this offset of the log (None: the last) holds: what is pending before it never will."""
        for pending in self._by_partition.get(partition, {}).values():
            if record_offset is None or pending.record_offset < record_offset:
                pending.committed = None

    def drop(self, partition: TopicPartition) -> None:
        """The partition's offset was deleted, and with it all that is pending."""
        for producer_id in self._by_partition.pop(partition, {}):
            self._forget(producer_id, partition)

    def take(self, producer_id: int, marker_offset: int) -> list[tuple[TopicPartition, PendingOffset]]:
        """
        A transaction ended: what it committed, which is pending no more.

        :param marker_offset: where its marker is. What is behind belongs to the producer's next transaction.
        """
        taken = []
        for partition in list(self._by_producer.get(producer_id, ())):
            of_partition = self._by_partition[partition]
            pending = of_partition[producer_id]
            if pending.record_offset > marker_offset:
                continue
            taken.append((partition, pending))
            del of_partition[producer_id]
            if not of_partition:
                del self._by_partition[partition]
            self._forget(producer_id, partition)
        return taken

    def _forget(self, producer_id: int, partition: TopicPartition) -> None:
        partitions = self._by_producer[producer_id]
        del partitions[partition]
        if not partitions:
            del self._by_producer[producer_id]
