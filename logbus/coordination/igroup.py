"""
What the coordinator knows of any group, whichever protocol its members speak.

Groups are plain objects that take inputs and the time, and answer through callbacks: they know no reactor. What must
be remembered they hand out as :data:`Change` s; the coordinator appends them before anybody is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

Change = tuple[Any, Any]
"""
A record of ``__consumer_offsets``: a key and a value of :mod:`logbus.wire.messages.group_log`; a value of None deletes.
"""


MEMBER_BYTES = 1500
"""What a member takes in memory besides the texts that it sends."""

TEXT_BYTES = 60
"""What a text takes besides its characters."""

PENDING_BYTES = 300
"""What an id takes that was given to somebody who has not joined with it yet."""


class GroupType(Enum):
    """Which protocol a group's members speak, as ListGroups 5 spells it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(Protocol):
    """A group of any protocol."""

    @property
    def group_id(self) -> str:
        """Its name."""

    @property
    def group_type(self) -> GroupType:
        """Its protocol."""

    @property
    def protocol_type(self) -> str:
        """What its members call their embedded protocol: ``consumer`` for consumers, empty if it never had members."""

    @property
    def state_name(self) -> str:
        """Its state, as DescribeGroups spells it."""

    @property
    def size(self) -> int:
        """How many members it has."""

    @property
    def memory(self) -> int:
        """About how many bytes it keeps of what its members told."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""

    @property
    def empty_since_ms(self) -> int | None:
        """When its last member went, in ms since 1970; None while it has members, and when it never had any."""

    @property
    def is_dead(self) -> bool:
        """Whether nothing of it is left but committed offsets: the coordinator may forget the object."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members may be reading a topic: its offsets neither expire nor may be deleted then."""

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, transactional: bool = False
    ) -> None:
        """
        Refuse a commit that does not come from a member of the current generation (or epoch).

        :param epoch: the generation id, or the member epoch.
        :param version: of OffsetCommit: older ones do not know every error.
        :param transactional: it is part of a transaction (TxnOffsetCommit): those up to version 2 say nothing of
            members, and it is no matter how far a rebalance is.
        :raise ApiError: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID,
            STALE_MEMBER_EPOCH.
        """

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """
        Refuse an OffsetFetch 9 of a member that is not, or no longer, one of this group.

        :raise ApiError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
        """

    def check_deletable(self) -> None:
        """
        Refuse the deletion of a group in use.

        :raise ApiError: NON_EMPTY_GROUP.
        """

    def tombstones(self) -> Sequence[Change]:
        """The changes that make it forgotten, apart from its offsets."""

    @property
    def deadline(self) -> float | None:
        """When :meth:`expire` is next to be called, in the seconds of the clock; may be early, never late."""

    def expire(self, now: float) -> None:
        """Do what time demands: end rebalances, drop members that were not heard of."""

    def resign(self) -> None:
        """The group moves to another broker: answer everybody who waits with NOT_COORDINATOR."""
