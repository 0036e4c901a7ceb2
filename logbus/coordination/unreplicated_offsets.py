"""
The changes of committed offsets that not all in-sync replicas have yet (Kafka: the uncommitted state of a coordinator).
Pure.

If the coordinator fails over now, the next one may not know them: OffsetFetch must show what was committed before.
"""

from __future__ import annotations

from collections import deque

from attrs import define, field

from logbus.coordination.committed_offset import CommittedOffset
from logbus.model import TopicPartition


@define(eq=False)
class UnreplicatedOffsets:
    """The changes of one shard, in the order of their records."""

    _changes: deque[tuple[int, str, TopicPartition, CommittedOffset | None]] = field(factory=deque, init=False)

    def changed(
        self, group_id: str, partition: TopicPartition, record_offset: int, before: CommittedOffset | None
    ) -> None:
        """
        Add a change, which is in no other replica yet.

        :param record_offset: where it is in ``__consumer_offsets``.
        :param before: what it replaces; None: nothing.
        """
        self._changes.append((record_offset, group_id, partition, before))

    def replicated(self, high_watermark: int) -> None:
        """Forget the changes below the high watermark of ``__consumer_offsets``."""
        while self._changes and self._changes[0][0] < high_watermark:
            self._changes.popleft()

    def before(self, group_id: str) -> dict[TopicPartition, CommittedOffset | None]:
        """The offset that a group had committed before its changes; None: there was none."""
        found: dict[TopicPartition, CommittedOffset | None] = {}
        for _, changed, partition, committed in self._changes:
            if changed == group_id:
                found.setdefault(partition, committed)
        return found
