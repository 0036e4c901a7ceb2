"""
Administration of groups: who is in them, what they have committed.

Part of :class:`~logbus.client.admin.AdminClient`, and in its manner: what concerns several things is answered for
each, with what was asked for or with the error as a value. What is asked of brokers is imported when it is: a client
that administers topics does not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from attrs import field, frozen
from twisted.internet.defer import Deferred

from logbus.client.cluster import Cluster
from logbus.errors import ApiError
from logbus.model import TopicPartition

if TYPE_CHECKING:
    from logbus.client.described_groups import GroupDescription


@frozen
class ListedGroup:
    """
    A group, as the broker lists it that coordinates it.

    :ivar protocol_type: ``consumer`` for consumers; empty if it never had members.
    :ivar state: such as ``Stable``; empty where brokers do not say (before Kafka 2.6).
    :ivar type: ``classic`` or ``consumer``; empty where brokers do not say (before Kafka 3.8).
    :ivar coordinator: the broker's id.
    """

    group_id: str
    protocol_type: str
    state: str
    type: str
    coordinator: int


@frozen
class CommittedOffset:
    """
    What a group committed for a partition.

    :ivar offset: of the next record to read.
    :ivar leader_epoch: of the record before it; −1: not known.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@frozen
class GroupMetadata:
    """
    Who somebody is in a group, and since when: what commits carry, be they plain or in a transaction (KIP-447).

    :ivar generation: in the consumer protocol the member epoch; −1: no member, and the coordinator does not check it;
        0: not a member yet, and the coordinator refuses what is committed.
    :ivar member_id: empty: no member.
    :ivar assignment: the partitions that the member had; a transaction takes offsets of no others. None: not known.
    """

    group_id: str
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    assignment: frozenset[TopicPartition] | None = field(default=None, eq=False, repr=False)

    @property
    def is_member(self) -> bool:
        """Whether this is somebody's place in the group, and not only the group's name."""
        return self.generation > 0


class GroupAdmin:
    """What an :class:`~logbus.client.admin.AdminClient` does with groups."""

    _cluster: Cluster
    _timeout: float

    def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> Deferred[list[ListedGroup]]:
        """
        The groups of all brokers, by id.

        :param states: only those in one of these states, such as ``Stable``; none: in any.
        :param types: only those of these types, ``classic`` and ``consumer``; none: of any.
        :raises ApiError: (in the Deferred) a broker refuses, or is too old to tell states or types.
        """

        async def ask() -> list[ListedGroup]:
            from logbus.client.group_requests import list_groups

            return await list_groups(self._cluster, self._timeout, list(states), list(types))

        return Deferred.fromCoroutine(ask())

    def describe_groups(self, group_ids: Iterable[str]) -> Deferred[dict[str, GroupDescription | ApiError]]:
        """
        Groups with their members, whichever protocol they speak.

        The error of a group that is not there is GROUP_ID_NOT_FOUND.
        """

        async def ask() -> dict[str, GroupDescription | ApiError]:
            from logbus.client.coordinators import Coordinators
            from logbus.client.described_groups import describe_at

            return await Coordinators(self._cluster, self._timeout).ask(group_ids, describe_at)

        return Deferred.fromCoroutine(ask())

    def list_group_offsets(
        self, group_ids: Iterable[str]
    ) -> Deferred[dict[str, dict[TopicPartition, CommittedOffset | ApiError] | ApiError]]:
        """All that groups have committed; nothing for a group that is not there."""

        async def ask() -> dict[str, dict[TopicPartition, CommittedOffset | ApiError] | ApiError]:
            from logbus.client.coordinators import Coordinators
            from logbus.client.group_requests import fetch_offsets

            return await Coordinators(self._cluster, self._timeout).ask(group_ids, fetch_offsets)

        return Deferred.fromCoroutine(ask())

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Deferred[dict[TopicPartition, ApiError | None]]:
        """
        Commit offsets in the place of a group that has no members now; a group that is not there begins to be.

        The error of a group with members is UNKNOWN_MEMBER_ID.
        """

        async def ask() -> dict[TopicPartition, ApiError | None]:
            from logbus.client.coordinators import Coordinators
            from logbus.client.group_requests import alter_offsets

            return await alter_offsets(Coordinators(self._cluster, self._timeout), group_id, offsets)

        return Deferred.fromCoroutine(ask())

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Deferred[dict[TopicPartition, ApiError | None]]:
        """
        Have a group forget what it committed for partitions.

        The error for a topic that the group is reading is GROUP_SUBSCRIBED_TO_TOPIC.
        """

        async def ask() -> dict[TopicPartition, ApiError | None]:
            from logbus.client.coordinators import Coordinators
            from logbus.client.group_requests import delete_offsets

            return await delete_offsets(Coordinators(self._cluster, self._timeout), group_id, list(partitions))

        return Deferred.fromCoroutine(ask())

    def delete_groups(self, group_ids: Iterable[str]) -> Deferred[dict[str, ApiError | None]]:
        """
        Delete groups with all that they committed.

        The error of a group with members is NON_EMPTY_GROUP, of one that is not there GROUP_ID_NOT_FOUND.
        """

        async def ask() -> dict[str, ApiError | None]:
            from logbus.client.coordinators import Coordinators
            from logbus.client.group_requests import delete_groups

            return await Coordinators(self._cluster, self._timeout).ask(group_ids, delete_groups)

        return Deferred.fromCoroutine(ask())
