"""
A member of a consumer group (Kafka: ConsumerGroupMember): its subscription, and its position on the way to its target.

The two change at different times and have separate records.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from attrs import field, frozen

from logbus.coordination.consumer.partition_sets import NO_PARTITIONS, Partitions, TopicId, union
from logbus.coordination.group import MEMBER_BYTES, TEXT_BYTES

JOINING = 0
"""The epoch of a member that joins, which owns nothing yet."""

LEFT = -1
"""The epoch in the last heartbeat of a member that leaves."""

AWAY = -2
"""The epoch of a static member that leaves temporarily: it keeps its partitions until its session ends."""


class MemberState(IntEnum):
    """The state of a member's reconciliation; the values are those in its record (Kafka: MemberState)."""

    STABLE = 0
    """It has all partitions of its epoch's target."""

    UNREVOKED_PARTITIONS = 1
    """It must revoke partitions and confirm that; it stays in its epoch until then."""

    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members have not revoked yet."""

    UNKNOWN = 127
    """A state of a later release: the member must join again."""


@frozen
class ClassicProtocols:
    """
    The fields of a member that uses the classic protocol.

    :ivar protocols: name and metadata of each assignment protocol that it supports, in its order of preference.
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@frozen
class ConsumerGroupMember:
    """
    A member, as it described itself.

    :ivar topics: the topic names that it is subscribed to, sorted.
    :ivar regex: the regular expression that it is subscribed to as well.
    :ivar assignor: the assignor that it prefers.
    :ivar classic: None for a member that uses the consumer protocol.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicProtocols | None = None

    @property
    def memory(self) -> int:
        """About how many bytes it takes."""
        texts = (self.member_id, self.instance_id, self.rack_id, self.client_id, self.regex)
        size = MEMBER_BYTES + sum(len(text) for text in texts if text)
        size += sum(map(len, self.topics)) + TEXT_BYTES * len(self.topics)
        if self.classic is not None:
            size += sum(TEXT_BYTES + len(name) + len(metadata) for name, metadata in self.classic.protocols)
        return size


@frozen
class MemberPosition:
    """
    A member's epoch and present assignment.

    :ivar epoch: the epoch that it has reached.
    :ivar previous_epoch: the one before; a member that still sends it has missed a response.
    :ivar assigned: the partitions that it may read.
    :ivar revoking: the partitions that it must revoke and may still be reading.
    :ivar since: for each partition among both, the epoch in which the member got it. Commits of an earlier epoch are
        not the member's (KIP-1251).
    """

    epoch: int = JOINING
    previous_epoch: int = JOINING
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NO_PARTITIONS
    revoking: Partitions = NO_PARTITIONS
    since: Mapping[tuple[TopicId, int], int] = field(factory=dict)

    @property
    def held(self) -> Partitions:
        """The partitions that no other member may be given."""
        return union(self.assigned, self.revoking)
