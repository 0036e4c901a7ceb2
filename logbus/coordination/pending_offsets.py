"""
A group's pending offsets: committed in transactions that are still open (KIP-98). Pure.

They take effect when the transaction is committed, and are dropped when it is aborted. Until then they are not visible
to clients. If several are committed for one partition, the last in the log counts, whichever transaction ends first.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from logbus.coordination.committed_offset import CommittedOffset
from logbus.model import TopicPartition


@define
class PendingOffset:
    """
    An offset that a transaction committed.

    :ivar record_offset: offset of the record in ``__consumer_offsets``.
    :ivar committed: None: a later record in the log has taken effect already. The entry is kept, because the partition
        stays unstable (KIP-447) until the transaction ends.
    """

    record_offset: int
    committed: CommittedOffset | None


@define(eq=False)
class PendingOffsets:
    """The pending offsets of one group, by partition and producer."""

    _by_partition: dict[TopicPartition, dict[int, PendingOffset]] = field(factory=dict, init=False)
    _by_producer: dict[int, dict[TopicPartition, None]] = field(factory=dict, init=False)

    def __len__(self) -> int:
        """The number of partitions that have any."""
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
        """Offset of a producer's first pending record, if any."""
        partitions = self._by_producer.get(producer_id, ())
        return min((self._by_partition[partition][producer_id].record_offset for partition in partitions), default=None)

    def add(self, producer_id: int, partition: TopicPartition, record_offset: int, committed: CommittedOffset) -> None:
        """Add an offset of a transaction; it replaces one that the transaction committed for the partition before."""
        self._by_partition.setdefault(partition, {})[producer_id] = PendingOffset(record_offset, committed)
        self._by_producer.setdefault(producer_id, {})[partition] = None

    def overtake(self, partition: TopicPartition, record_offset: int | None = None) -> None:
        """Cancel the pending offsets before a record that took effect (at ``record_offset``; None: the last one)."""
        for pending in self._by_partition.get(partition, {}).values():
            if record_offset is None or pending.record_offset < record_offset:
                pending.committed = None

    def drop(self, partition: TopicPartition) -> None:
        """Drop a partition's pending offsets: its offset was deleted."""
        for producer_id in self._by_partition.pop(partition, {}):
            self._forget(producer_id, partition)

    def take(self, producer_id: int, marker_offset: int) -> list[tuple[TopicPartition, PendingOffset]]:
        """
        Remove and return the offsets of a transaction that ended.

        :param marker_offset: offset of its marker; later records belong to the producer's next transaction.
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
