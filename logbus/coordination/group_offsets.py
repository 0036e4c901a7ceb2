"""
The committed offsets of one group, and their expiration (KIP-211). Pure: makes records, and applies those written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from attrs import define, field

from logbus.coordination.committed_offset import NO_EXPIRY, CommittedOffset, offset_commit_change, offset_from_record
from logbus.coordination.deleted_topics import DeletedTopics
from logbus.coordination.group import Change, Group
from logbus.coordination.pending_offsets import PendingOffsets
from logbus.model import TopicPartition
from logbus.wire.messages.group_log import OffsetCommitKey, OffsetCommitValue

__all__ = ["NO_EXPIRY", "CommittedOffset", "GroupOffsets", "offset_commit_change"]


@define(eq=False)
class GroupOffsets:
    """
    The offsets of one group.

    :ivar group_id: the group.
    :ivar deleted: the deleted topics whose offsets are still to be removed, here and in other groups.
    :ivar pending: the offsets that open transactions have committed. Read only.
    """

    group_id: str
    deleted: DeletedTopics = field(factory=DeletedTopics)
    pending: PendingOffsets = field(factory=PendingOffsets, init=False)
    _committed: dict[TopicPartition, CommittedOffset] = field(factory=dict, init=False)

    def __len__(self) -> int:
        """The number of partitions that have an offset, not counting pending ones."""
        return len(self._committed)

    @property
    def is_empty(self) -> bool:
        """Whether there are neither committed nor pending offsets."""
        return not self._committed and not self.pending

    def would_be_empty(self, without: int) -> bool:
        """Whether no committed or pending offset would be left after removing so many committed ones."""
        return len(self._committed) == without and not self.pending

    @property
    def committed(self) -> Mapping[TopicPartition, CommittedOffset]:
        """All committed offsets, including those of deleted topics that are still to be removed. Read only."""
        return self._committed

    def visible(self) -> Collection[TopicPartition]:
        """The partitions for which :meth:`get` finds an offset."""
        if not self.deleted:
            return self._committed.keys()
        return [one for one in self._committed if not self.deleted.over(self.group_id, one)]

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        """The committed offset of a partition, unless it is over because its topic was deleted."""
        asked = TopicPartition(topic, partition)
        return None if self.deleted and self.deleted.over(self.group_id, asked) else self._committed.get(asked)

    def before(self, changes: Mapping[TopicPartition, CommittedOffset | None]) -> GroupOffsets:
        """
        These offsets without some changes.

        :param changes: what was committed before them; None: nothing.
        """
        earlier = GroupOffsets(self.group_id, self.deleted)
        earlier.pending = self.pending
        for partition, committed in {**self._committed, **changes}.items():
            if committed is not None:
                earlier._committed[partition] = committed
        return earlier

    # Applying records.

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """Apply the last record of the log, which was appended or read back."""
        partition = TopicPartition(key.topic, key.partition)
        if value is None:
            self._committed.pop(partition, None)
            self.pending.drop(partition)
        else:
            self._committed[partition] = offset_from_record(value)
            self.pending.overtake(partition)

    def apply_pending(
        self, producer_id: int, record_offset: int, key: OffsetCommitKey, value: OffsetCommitValue
    ) -> None:
        """Add the last record of the log as pending: it takes effect if its transaction is committed."""
        self.pending.add(
            producer_id, TopicPartition(key.topic, key.partition), record_offset, offset_from_record(value)
        )

    def complete(self, producer_id: int, committed: bool, marker_offset: int) -> None:
        """
        Apply or drop a producer's pending offsets: its transaction has ended.

        :param marker_offset: offset of the marker; later records belong to the producer's next transaction.
        """
        for partition, pending in self.pending.take(producer_id, marker_offset):
            if committed and pending.committed is not None:
                self._committed[partition] = pending.committed
                self.pending.overtake(partition, pending.record_offset)

    # Removing offsets.

    def tombstones(self, partitions: Iterable[TopicPartition] | None = None) -> list[Change]:
        """Tombstones for the offsets, committed or pending, of some partitions, or of all."""
        wanted = self._partitions() if partitions is None else filter(self._has, partitions)
        return [(OffsetCommitKey(group=self.group_id, topic=topic, partition=number), None) for topic, number in wanted]

    def _has(self, partition: TopicPartition) -> bool:
        return partition in self._committed or partition in self.pending

    def _partitions(self) -> Iterator[TopicPartition]:
        yield from self._committed
        yield from (partition for partition in self.pending if partition not in self._committed)

    def partitions(self) -> list[TopicPartition]:
        """The partitions that have a committed or pending offset."""
        return list(self._partitions())

    def over(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The partitions among some whose offsets are to be removed, as their topics were deleted."""
        return [partition for partition in partitions if self.deleted.over(self.group_id, partition)]

    def expired(self, group: Group | None, now_ms: int, retention_ms: int) -> Iterator[TopicPartition]:
        """
        The partitions whose offsets have expired (KIP-211): ``retention_ms`` after the commit, and after the group
        became empty. In a group with members only offsets of topics that they do not read expire.

        An offset with an expiration time of its own expires exactly then. A partition with a pending offset does not
        expire.

        :param group: None: there never were members.
        """
        empty_since = None if group is None else group.empty_since_ms
        subscribed: dict[str, bool] = {}
        for partition, committed in self._committed.items():
            if partition in self.pending:
                continue
            if group is not None and not group.is_empty:
                topic = partition.topic
                if topic not in subscribed:
                    subscribed[topic] = group.is_subscribed_to(topic)
                if subscribed[topic]:
                    continue
            if committed.expire_timestamp != NO_EXPIRY:
                over = now_ms >= committed.expire_timestamp
            else:
                since = max(committed.commit_timestamp, empty_since or 0)
                over = now_ms - since >= retention_ms
            if over:
                yield partition
