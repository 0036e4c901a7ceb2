"""
The processed and committed positions of partitions. Pure.

A record is processed when its stream was asked for the next one. So a commit never goes past a record that is still
being processed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define, field

from logbus.model import TopicPartition


@define(eq=False)
class Positions:
    """
    The next offset of each partition that is read; None: there is none.

    Reports about a partition that was dropped are ignored.
    """

    _next: dict[TopicPartition, int | None] = field(factory=dict, init=False)
    _committed: dict[TopicPartition, int | None] = field(factory=dict, init=False)

    def begin(self, partition: TopicPartition, committed: int | None, start: int | None = None) -> None:
        """
        Start a partition, unless it was started already.

        :param committed: its committed offset; None: none.
        :param start: where to start without one; None: that is an error.
        """
        if partition not in self._next:
            self._committed[partition] = committed
            self._next[partition] = start if committed is None else committed

    def reached(self, partition: TopicPartition, offset: int) -> None:
        """All records before ``offset`` are processed."""
        if partition in self._next:
            self._next[partition] = offset

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._next

    def get(self, partition: TopicPartition) -> int | None:
        """The next offset; None if there is none."""
        return self._next.get(partition)

    def uncommitted(self, among: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """
        The offsets to commit.

        :param among: only of these partitions.
        """
        partitions = self._next if among is None else [each for each in among if each in self._next]
        return {
            each: offset
            for each in partitions
            if (offset := self._next[each]) is not None and offset != self._committed[each]
        }

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These offsets were committed."""
        for partition, offset in offsets.items():
            if partition in self._committed:
                self._committed[partition] = offset

    def all(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return list(self._next)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions that other members may read now."""
        for partition in list(partitions):
            self._next.pop(partition, None)
            self._committed.pop(partition, None)
