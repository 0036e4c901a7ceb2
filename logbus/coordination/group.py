"""
The interface of a group of either protocol (Kafka: Group), as the coordinator uses it. Pure.

Groups are plain objects without a reactor: they take inputs with the time, and respond through callbacks. They emit
their state as :data:`Change` s, which the coordinator appends before any response is sent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import Any, Protocol

from logbus.model import TopicPartition

Change = tuple[Any, Any]
"""
A record of ``__consumer_offsets``: a key and a value of :mod:`logbus.wire.messages.group_log`; a value of None deletes.
"""


MEMBER_BYTES = 1500
"""Estimated memory of a member, without the texts that it sends."""

TEXT_BYTES = 60
"""Estimated memory of a text, without its characters."""

PENDING_BYTES = 300
"""Estimated memory of an id that was given to a client that has not joined with it yet."""


class GroupType(Enum):
    """The protocol of a group's members, as ListGroups 5 names it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


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
        """The embedded protocol of its members: ``consumer`` for consumers, empty if it never had members."""

    @property
    def state_name(self) -> str:
        """Its state, as DescribeGroups names it."""

    @property
    def size(self) -> int:
        """The number of its members."""

    @property
    def memory(self) -> int:
        """About how many bytes its members take."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""

    @property
    def empty_since_ms(self) -> int | None:
        """
        The time at which its last member left, in ms since 1970; None while it has members, and if it never had any.
        """

    @property
    def is_dead(self) -> bool:
        """Whether nothing is left of it but committed offsets: the coordinator may drop the object."""

    @property
    def expires(self) -> bool:
        """Whether it is removed when it has neither members nor committed offsets."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members may be reading a topic: then its offsets do not expire and may not be deleted."""

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        version: int,
        transactional: bool = False,
        partitions: Collection[TopicPartition] = (),
    ) -> None:
        """
        Refuse a commit that does not come from a member of the current generation (or epoch).

        :param epoch: the generation id, or the member epoch.
        :param version: of OffsetCommit: older ones do not know every error.
        :param transactional: the commit is a TxnOffsetCommit: up to version 2 it names no member, and it is accepted
            during a rebalance.
        :param partitions: those whose offsets it commits.
        :raise ApiError: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID,
            STALE_MEMBER_EPOCH.
        """

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """
        Refuse an OffsetFetch 9 from a client that is not, or no longer, a member of this group.

        :raise ApiError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
        """

    def check_deletable(self) -> None:
        """
        Refuse the deletion of a group in use.

        :raise ApiError: NON_EMPTY_GROUP.
        """

    def tombstones(self) -> Sequence[Change]:
        """The tombstones of its records, except those of its offsets."""

    @property
    def deadline(self) -> float | None:
        """
        The time at which :meth:`expire` is next to be called, in the seconds of the clock; may be early, never late.
        """

    def expire(self, now: float) -> None:
        """End rebalances and sessions whose time is over."""

    def resign(self) -> None:
        """Answer all waiting members with NOT_COORDINATOR: the group moves to another broker."""
