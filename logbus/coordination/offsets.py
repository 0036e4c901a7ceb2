"""
What one group has committed, and when that expires. Pure: it makes the records, and is told which of them hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from attrs import define, field

from logbus.coordination.committed import NO_EXPIRY, CommittedOffset, commit_change, committed_by
from logbus.coordination.igroup import Change, Group
from logbus.coordination.pending import PendingOffsets
from logbus.model import TopicPartition
from logbus.wire.messages.group_log import OffsetCommitKey, OffsetCommitValue

__all__ = ["NO_EXPIRY", "CommittedOffset", "GroupOffsets", "commit_change"]


@define(eq=False)
class GroupOffsets:
    """
    The offsets of one group.

    :ivar group_id: whose they are.
    :ivar pending: what open transactions have committed: to be looked at only.
    """

    group_id: str
    pending: PendingOffsets = field(factory=PendingOffsets, init=False)
    _committed: dict[TopicPartition, CommittedOffset] = field(factory=dict, init=False)

    def __len__(self) -> int:
        """How many partitions have an offset, apart from what is pending."""
        return len(self._committed)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing, and nothing pending."""
        return not self._committed and not self.pending

    def would_be_empty(self, without: int) -> bool:
        """Whether nothing would be left, and nothing pending, without so many committed offsets."""
        return len(self._committed) == without and not self.pending

    @property
    def committed(self) -> Mapping[TopicPartition, CommittedOffset]:
        """All of them. Read only."""
        return self._committed

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        """What is committed for a partition."""
        return self._committed.get(TopicPartition(topic, partition))

    # What holds.

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """A record holds, the last of the log: it was appended, or read back."""
        partition = TopicPartition(key.topic, key.partition)
        if value is None:
            self._committed.pop(partition, None)
            self.pending.drop(partition)
        else:
            self._committed[partition] = committed_by(value)
            self.pending.overtake(partition)

    def apply_pending(
        self, producer_id: int, record_offset: int, key: OffsetCommitKey, value: OffsetCommitValue
    ) -> None:
        """A record, the last of the log, will hold if its transaction is committed."""
        self.pending.add(producer_id, TopicPartition(key.topic, key.partition), record_offset, committed_by(value))

    def complete(self, producer_id: int, committed: bool, marker_offset: int) -> None:
        """
        A producer's transaction has ended.

        :param marker_offset: where it says so in the log: what is behind belongs to the next transaction.
        """
        for partition, pending in self.pending.take(producer_id, marker_offset):
            if committed and pending.committed is not None:
                self._committed[partition] = pending.committed
                self.pending.overtake(partition, pending.record_offset)

    # What goes.

    def tombstones(self, partitions: Iterable[TopicPartition] | None = None) -> list[Change]:
        """The records that forget some partitions, or all, and what is pending; nothing for those without any."""
        wanted = self._partitions() if partitions is None else filter(self._has, partitions)
        return [(OffsetCommitKey(group=self.group_id, topic=topic, partition=number), None) for topic, number in wanted]

    def _has(self, partition: TopicPartition) -> bool:
        return partition in self._committed or partition in self.pending

    def _partitions(self) -> Iterator[TopicPartition]:
        yield from self._committed
        yield from (partition for partition in self.pending if partition not in self._committed)

    def of_topics(self, topics: Collection[str]) -> list[TopicPartition]:
        """The partitions of some topics that have an offset, or one pending."""
        return [partition for partition in self._partitions() if partition.topic in topics]

    def expired(self, group: Group | None, now_ms: int, retention_ms: int) -> Iterator[TopicPartition]:
        """
        What may be forgotten (KIP-211): each offset ``retention_ms`` after its commit, and as long as that after the
        group became empty. Of a group that has members, only what they do not read.

        An offset that was committed with a time of its own expires then, and not before. What is pending says that
        somebody is at work: nothing of such a partition expires.

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
