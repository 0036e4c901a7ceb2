"""
How far partitions were read, and what of that is committed. Pure.

A record counts as read when it is *done*: its stream was asked for the next one. What is committed is therefore never
past a record that somebody is still busy with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define, field

from logbus.model import TopicPartition


@define(eq=False)
class Positions:
    """
    The offset of the next record of each partition that is read; None where there is none.

    What a stream says of a partition that was dropped, or begun again since, is not heard.
    """

    _next: dict[TopicPartition, int | None] = field(factory=dict, init=False)
    _committed: dict[TopicPartition, int | None] = field(factory=dict, init=False)

    def begin(self, partition: TopicPartition, committed: int | None, start: int | None = None) -> None:
        """
        A partition is read from now on, unless it was already.

        :param committed: the offset it begins at; None: nobody has committed any.
        :param start: where it begins then; None: nowhere, to begin is an error.
        """
        if partition not in self._next:
            self._committed[partition] = committed
            self._next[partition] = start if committed is None else committed

    def reached(self, partition: TopicPartition, offset: int) -> None:
        """Everything before ``offset`` is done."""
        if partition in self._next:
            self._next[partition] = offset

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._next

    def get(self, partition: TopicPartition) -> int | None:
        """The next offset; None if there is none."""
        return self._next.get(partition)

    def uncommitted(self, among: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """
        What a commit would have to say.

        :param among: only of these partitions.
        """
        partitions = self._next if among is None else [each for each in among if each in self._next]
        return {
            each: offset
            for each in partitions
            if (offset := self._next[each]) is not None and offset != self._committed[each]
        }

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These were committed."""
        for partition, offset in offsets.items():
            if partition in self._committed:
                self._committed[partition] = offset

    def all(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return list(self._next)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Others read these now, or may."""
        for partition in list(partitions):
            self._next.pop(partition, None)
            self._committed.pop(partition, None)
