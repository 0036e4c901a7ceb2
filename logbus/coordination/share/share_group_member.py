"""A member of a share group (Kafka: ShareGroupMember): its subscription, and what it was told. Pure."""

from __future__ import annotations

from attrs import frozen

from logbus.coordination.consumer.partition_sets import NO_PARTITIONS, Partitions
from logbus.coordination.group import MEMBER_BYTES, TEXT_BYTES

JOINING = 0
"""The epoch of a member that joins."""

LEFT = -1
"""The epoch in the last heartbeat of a member that leaves."""


@frozen
class ShareGroupMember:
    """
    A member, as it described itself.

    :ivar topics: the topic names that it is subscribed to, sorted.
    """

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()

    @property
    def memory(self) -> int:
        """About how many bytes it takes."""
        size = MEMBER_BYTES + len(self.member_id) + len(self.rack_id or "") + len(self.client_id)
        return size + sum(map(len, self.topics)) + TEXT_BYTES * len(self.topics)


@frozen
class SharePosition:
    """
    A member's epoch and assignment.

    :ivar epoch: the epoch of the target that it was told.
    :ivar previous_epoch: the one before; a member that still sends it has missed a response.
    """

    epoch: int = JOINING
    previous_epoch: int = JOINING
    assigned: Partitions = NO_PARTITIONS
