"""
A member, in two parts that change at different times and are recorded separately: what it wants, and where it is.
"""

from __future__ import annotations

from enum import IntEnum

from attrs import frozen

from logbus.coordination.consumer.partitions import NOTHING, Partitions, union
from logbus.coordination.igroup import MEMBER_BYTES, TEXT_BYTES

JOINING = 0
"""The epoch of a member that owns nothing yet."""

LEFT = -1
"""The epoch a member leaves with."""

AWAY = -2
"""The epoch a static member leaves with that will be back: it keeps its partitions until its session ends."""


class MemberState(IntEnum):
    """What a member has to do before it has what it is to have, by the numbers in its record."""

    STABLE = 0
    """Nothing: it has all that its epoch gives it."""

    UNREVOKED_PARTITIONS = 1
    """Give up partitions, and say so; it stays in its epoch until then."""

    UNRELEASED_PARTITIONS = 2
    """Wait for partitions that others have not given up yet."""

    UNKNOWN = 127
    """Something a later release knows of: it starts anew."""


@frozen
class ClassicProtocols:
    """
    What a member brought that speaks the classic protocol.

    :ivar protocols: name and metadata of each assignment strategy it supports, the one it likes best first.
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@frozen
class Member:
    """
    What a member said about itself.

    :ivar topics: the names it is subscribed to, sorted.
    :ivar regex: the expression it is subscribed to, too.
    :ivar assignor: the assignor it would like.
    :ivar classic: None for a member that speaks the consumer protocol.
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
class Position:
    """
    Where a member is on its way to its target.

    :ivar epoch: the epoch it has reached; commits must carry it.
    :ivar previous_epoch: the one before: a member that still names it has missed an answer.
    :ivar assigned: what it may read.
    :ivar revoking: what it must give up and may still be reading.
    """

    epoch: int = JOINING
    previous_epoch: int = JOINING
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NOTHING
    revoking: Partitions = NOTHING

    @property
    def held(self) -> Partitions:
        """What nobody else may be given."""
        return union(self.assigned, self.revoking)
