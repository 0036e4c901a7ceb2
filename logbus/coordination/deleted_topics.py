"""
Which offsets of deleted topics are still to be removed. Pure.

Very many offsets are removed by and by. Meanwhile a topic of the same name may be created, and offsets be committed for
it: those stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from attrs import define, field

from logbus.model import TopicPartition

Kept: TypeAlias = set[tuple[str, TopicPartition]]
"""Groups and partitions: what was committed after the deletion."""


@define(eq=False)
class DeletedTopics:
    """
    The deleted topics of one shard whose offsets are being removed; false if there are none.

    An offset is *over* from the deletion of its topic on, until it is removed: clients must not see it any more.
    """

    _kept: dict[str, Kept] = field(factory=dict, init=False)

    def __bool__(self) -> bool:
        """Whether any offsets are still to be removed."""
        return bool(self._kept)

    def add(self, topics: Iterable[str]) -> None:
        """Topics were deleted, perhaps again: all their offsets are over."""
        for topic in topics:
            self._kept[topic] = set()

    def keep(self, group_id: str, partition: TopicPartition) -> None:
        """An offset was committed: it belongs to a new topic."""
        kept = self._kept.get(partition.topic)
        if kept is not None:
            kept.add((group_id, partition))

    def over(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether a group's offset of a partition, if there is one, is to be removed."""
        kept = self._kept.get(partition.topic)
        return kept is not None and (group_id, partition) not in kept

    def begin(self) -> Mapping[str, Kept]:
        """The topics whose offsets are looked for from now on. For :meth:`end`."""
        return dict(self._kept)

    def end(self, begun: Mapping[str, Kept]) -> None:
        """All offsets were looked at since :meth:`begin`. Topics that were deleted again meanwhile are left."""
        for topic, kept in begun.items():
            if self._kept.get(topic) is kept:
                del self._kept[topic]

    def clear(self) -> None:
        """The removal was given up."""
        self._kept.clear()
