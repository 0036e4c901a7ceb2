"""
What one group has committed, and when that expires. Pure: it makes the records, and is told which of them hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from attrs import define, field

from logbus.coordination.igroup import Change, Group
from logbus.model import NO_EPOCH, TopicPartition
from logbus.wire.messages.group_log import OffsetCommitKey, OffsetCommitValue

NO_EXPIRY = -1


class CommittedOffset(NamedTuple):
    """
    An offset that a group committed.

    :ivar offset: of the next record to read.
    :ivar leader_epoch: of the last record that was read, −1 if the client did not say.
    :ivar metadata: the client's own words.
    :ivar commit_timestamp: ms since 1970.
    :ivar expire_timestamp: when it expires, ms since 1970, as clients up to OffsetCommit 4 could demand; −1: when the
        broker's retention says so.
    """

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_timestamp: int = -1
    expire_timestamp: int = NO_EXPIRY


def commit_change(group_id: str, partition: TopicPartition, committed: CommittedOffset) -> Change:
    """The record of a commit."""
    return (
        OffsetCommitKey(group=group_id, topic=partition.topic, partition=partition.partition),
        OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_timestamp,
            expire_timestamp=committed.expire_timestamp,
        ),
    )


@define(eq=False)
class GroupOffsets:
    """
    The offsets of one group.

    :ivar group_id: whose they are.
    """

    group_id: str
    _committed: dict[TopicPartition, CommittedOffset] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._committed)

    @property
    def committed(self) -> Mapping[TopicPartition, CommittedOffset]:
        """All of them. Read only."""
        return self._committed

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        """What is committed for a partition."""
        return self._committed.get(TopicPartition(topic, partition))

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """A record holds: it was appended, or read back."""
        partition = TopicPartition(key.topic, key.partition)
        if value is None:
            self._committed.pop(partition, None)
        else:
            self._committed[partition] = CommittedOffset(
                value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.expire_timestamp
            )

    def tombstones(self, partitions: Iterable[TopicPartition] | None = None) -> list[Change]:
        """The records that forget some partitions, or all; nothing for those that have no offset."""
        wanted = self._committed if partitions is None else [one for one in partitions if one in self._committed]
        return [(OffsetCommitKey(group=self.group_id, topic=topic, partition=number), None) for topic, number in wanted]

    def of_topics(self, topics: Collection[str]) -> list[TopicPartition]:
        """The partitions of some topics that have an offset."""
        return [partition for partition in self._committed if partition.topic in topics]

    def expired(self, group: Group | None, now_ms: int, retention_ms: int) -> Iterator[TopicPartition]:
        """
        What may be forgotten (KIP-211): each offset ``retention_ms`` after its commit, and as long as that after the
        group became empty. Of a group that has members, only what they do not read.

        An offset that was committed with a time of its own expires then, and not before.

        :param group: None: there never were members.
        """
        empty_since = None if group is None else group.empty_since_ms
        subscribed: dict[str, bool] = {}
        for partition, committed in self._committed.items():
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
