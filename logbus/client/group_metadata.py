"""A member's identity in its group, the errors of an outdated one, and committed offsets."""

from __future__ import annotations

from attrs import field, frozen

from logbus.errors import ErrorCode
from logbus.model import TopicPartition

MOVED_ON = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)
"""Errors of commits that the coordinator rejects because of the member's generation or identity."""


@frozen
class CommittedOffset:
    """
    A group's committed offset for a partition (Kafka: OffsetAndMetadata).

    :ivar offset: the next offset to read.
    :ivar leader_epoch: of the record before it; −1: not known.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@frozen
class GroupMetadata:
    """
    A member's identity in its group, sent with commits, in transactions, too (KIP-447; Kafka: ConsumerGroupMetadata).

    :ivar generation: in the consumer protocol the member epoch; −1: no member, and the coordinator does not check it;
        0: not a member yet, and the coordinator refuses commits.
    :ivar member_id: empty: no member.
    :ivar assignment: the member's partitions; a transaction accepts offsets of no others. None: not known.
    """

    group_id: str
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    assignment: frozenset[TopicPartition] | None = field(default=None, eq=False, repr=False)

    @property
    def is_member(self) -> bool:
        """Whether it identifies a member, and not only the group."""
        return self.generation > 0
