"""
A committed offset as a value (Kafka: OffsetAndMetadata), and its conversion from and to records. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

from logbus.coordination.group import Change
from logbus.model import NO_EPOCH, TopicPartition
from logbus.wire.messages.group_log import OffsetCommitKey, OffsetCommitValue

NO_EXPIRY = -1


class CommittedOffset(NamedTuple):
    """
    An offset that a group committed.

    :ivar offset: of the next record to read.
    :ivar leader_epoch: of the last record that was read; −1 if the client did not send it.
    :ivar metadata: free text from the client.
    :ivar commit_timestamp: ms since 1970.
    :ivar expire_timestamp: ms since 1970, from clients up to OffsetCommit 4; −1: the broker's retention applies.
    """

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_timestamp: int = -1
    expire_timestamp: int = NO_EXPIRY


def offset_commit_change(group_id: str, partition: TopicPartition, committed: CommittedOffset) -> Change:
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


def offset_from_record(value: OffsetCommitValue) -> CommittedOffset:
    """The offset in a record."""
    return CommittedOffset(
        value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.expire_timestamp
    )
