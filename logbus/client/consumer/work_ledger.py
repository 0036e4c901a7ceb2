"""
The records that a consumer processes side by side: which may begin, and from which offset on a partition is unfinished.
Pure.

Records with one order (of a key, in a partition) are processed one after another, as they were delivered; others side
by side. Of each partition the lowest unfinished offset is known, which is what may be committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Generic

from attrs import define

from logbus.client.consumer.consumer_record import ConsumerRecord, K, V
from logbus.model import NO_EPOCH, TopicPartition


@define(eq=False)
class Work(Generic[K, V]):
    """
    A record that is taken.

    :ivar order: records of one partition with the same order begin one after another; None: at any time.
    :ivar size: about so many bytes on the wire.
    :ivar epoch: the leader epoch of the record's batch.
    :ivar is_finished: it was processed.
    :ivar is_dropped: the consumer gave up its partition, or moved to another position, since it was taken.
    """

    partition: TopicPartition
    record: ConsumerRecord[K, V]
    order: Hashable = None
    size: int = 0
    epoch: int = NO_EPOCH
    is_finished: bool = False
    is_dropped: bool = False


class WorkLedger(Generic[K, V]):
    """
    Work by partition and order.

    :param concurrency: how many records may be under way.
    :param most_records: how many may be taken and not finished; ``most_bytes``: their size. One is always admitted.

    :ivar under_way: the work that began and did not end.
    """

    def __init__(self, concurrency: int, most_records: int, most_bytes: int) -> None:
        self.under_way: dict[Work[K, V], None] = {}
        self._concurrency = concurrency
        self._most_records, self._most_bytes = most_records, most_bytes
        self._records = self._bytes = 0
        self._ready: deque[Work[K, V]] = deque()
        # Orders of which one is ready or under way, and the work behind it.
        self._behind: dict[tuple[TopicPartition, Hashable], deque[Work[K, V]]] = {}
        self._unfinished: dict[TopicPartition, deque[Work[K, V]]] = {}

    @property
    def room(self) -> int:
        """The number of records that may be taken besides."""
        if not self._records:
            return self._most_records
        return max(0, self._most_records - self._records) if self._bytes < self._most_bytes else 0

    def add(self, work: Work[K, V]) -> None:
        """Take a record; those of a partition come in the order of their offsets."""
        self._records += 1
        self._bytes += work.size
        self._unfinished.setdefault(work.partition, deque()).append(work)
        behind = None if work.order is None else self._behind.get((work.partition, work.order))
        if behind is not None:
            behind.append(work)
            return
        if work.order is not None:
            self._behind[work.partition, work.order] = deque()
        self._ready.append(work)

    def begin(self) -> Work[K, V] | None:
        """The next record to process, which is under way from now on; None: none may begin now."""
        if not self._ready or len(self.under_way) >= self._concurrency:
            return None
        work = self._ready.popleft()
        self.under_way[work] = None
        return work

    def end(self, work: Work[K, V], *, is_finished: bool) -> None:
        """
        Processing ended.

        :param is_finished: False: it failed or was cancelled. The record stays unfinished.
        """
        del self.under_way[work]
        self._forget(work)
        work.is_finished = is_finished
        if work.order is not None:
            behind = self._behind[work.partition, work.order]
            if behind:
                self._ready.append(behind.popleft())
            else:
                del self._behind[work.partition, work.order]
        unfinished = self._unfinished.get(work.partition)
        while unfinished and unfinished[0].is_finished:
            unfinished.popleft()
        if unfinished is not None and not unfinished:
            del self._unfinished[work.partition]

    def unfinished(self, partition: TopicPartition) -> Work[K, V] | None:
        """The first unfinished record of a partition: what is before it may be committed. None: all are finished."""
        found = self._unfinished.get(partition)
        return found[0] if found else None

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions with unfinished records."""
        return list(self._unfinished)

    def under_way_of(self, partitions: Iterable[TopicPartition]) -> list[Work[K, V]]:
        """The work of these partitions that is under way, dropped or not."""
        wanted = set(partitions)
        return [each for each in self.under_way if each.partition in wanted]

    def withdraw(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin no more of the records that were taken of these partitions. They stay unfinished."""
        wanted = set(partitions)
        for each in [each for each in self._ready if each.partition in wanted]:
            self._forget(each)
            if each.order is not None:
                # What is behind it is of the same partition.
                for behind in self._behind.pop((each.partition, each.order)):
                    self._forget(behind)
        self._ready = deque(each for each in self._ready if each.partition not in wanted)
        for (partition, _), behind_it in self._behind.items():
            if partition in wanted:
                for behind in behind_it:
                    self._forget(behind)
                behind_it.clear()

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget all records of these partitions; the outcome of those under way does not matter any more."""
        partitions = list(partitions)
        self.withdraw(partitions)
        for each in partitions:
            for work in self._unfinished.pop(each, ()):
                work.is_dropped = True

    def _forget(self, work: Work[K, V]) -> None:
        self._records -= 1
        self._bytes -= work.size
