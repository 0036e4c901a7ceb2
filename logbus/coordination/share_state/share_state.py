"""
The state of a share partition as the share coordinator keeps it. Pure.
"""

from __future__ import annotations

from uuid import UUID

from attrs import evolve, frozen

from logbus.metastore.znode_json import uuid_from_text, uuid_text
from logbus.model import NO_EPOCH, NO_OFFSET

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
"""The delivery states that are written (Kafka: RecordState); a record that a consumer has is written as available."""

LogEpochs = tuple[tuple[int, int], ...]
"""The last leader epochs of a partition's log, oldest first, each with the offset of its first record."""

UNKNOWN_COUNT = -1
"""The delivery complete count of a state whose writer did not know it."""


@frozen
class SharePartitionKey:
    """A partition as a share group reads it."""

    group_id: str
    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        """The key by which FindCoordinator finds its coordinator (Kafka: SharePartitionKey.asCoordinatorKey)."""
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"

    @classmethod
    def parse(cls, text: str) -> SharePartitionKey:
        """
        The key in its text.

        :raise ValueError: it is not such a text.
        """
        group_id, topic_id, partition = text.rsplit(":", 2)
        return cls(group_id, uuid_from_text(topic_id), int(partition))


@frozen
class StateBatch:
    """
    Records in the same delivery state.

    :ivar last_offset: of its last record, inclusive.
    :ivar delivery_state: one of :data:`AVAILABLE`, :data:`ACKNOWLEDGED`, :data:`ARCHIVED`.
    :ivar delivery_count: how often they were delivered.
    """

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@frozen
class ShareState:
    """
    The state of a share partition.

    :ivar state_epoch: increases when its start offset is set by an administrator.
    :ivar leader_epoch: of the share partition's leader that wrote or read it last; −1: none did since it was made.
    :ivar start_offset: of the first record that is not done; −1: not known yet.
    :ivar batches: from the start offset on, sorted, without overlaps. Records in none of them were never delivered.
    :ivar delivery_complete_count: the number of records from the start offset on that are done; −1: unknown.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int = NO_OFFSET
    batches: tuple[StateBatch, ...] = ()
    delivery_complete_count: int = UNKNOWN_COUNT

    @property
    def end_offset(self) -> int:
        """Behind the records that it knows of."""
        return max(self.start_offset, self.batches[-1].last_offset + 1) if self.batches else self.start_offset

    def known_end(self, log_end_offset: int, log_epochs: LogEpochs) -> int:
        """
        How far another leader's log has the records that this state is about: up to the first record of an epoch later
        than that of the leader who claimed it. An unclean election may have lost some, and others took their offsets.

        :param log_end_offset: of that log.
        """
        if self.leader_epoch == NO_EPOCH:
            return log_end_offset
        return next((start for epoch, start in log_epochs if epoch > self.leader_epoch), log_end_offset)

    def truncated(self, end_offset: int) -> ShareState:
        """What is left of it when the log ends at an offset."""
        kept = tuple(
            evolve(batch, last_offset=min(batch.last_offset, end_offset - 1))
            for batch in self.batches
            if batch.first_offset < end_offset
        )
        done = sum(each.last_offset + 1 - each.first_offset for each in kept if each.delivery_state != AVAILABLE)
        return evolve(
            self,
            start_offset=min(self.start_offset, end_offset),
            batches=kept,
            delivery_complete_count=done,
        )
