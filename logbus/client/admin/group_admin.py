"""
The admin client's part for consumer groups: their members and committed offsets.

A request about several things returns a value or an error for each. The requests themselves are imported at first use,
so that clients that only administer topics start faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from logbus.client.admin.group_results import GroupDescription, ListedGroup
from logbus.client.cluster.cluster import Cluster
from logbus.client.group_metadata import CommittedOffset
from logbus.client.validators import texts
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError
from logbus.model import TopicPartition


class GroupAdmin:
    """The part of :class:`~logbus.client.admin.admin_client.AdminClient` for groups."""

    _cluster: Cluster
    _timeout: float

    @returns_deferred
    async def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        """
        The groups of all brokers, by id.

        :param states: only groups in one of these states, such as ``Stable``; empty: all.
        :param types: only these types, ``classic`` and ``consumer``; empty: all.
        :raises ApiError: (in the Deferred) a broker refuses, or is too old to report states or types.
        """
        from logbus.client.admin.group_requests import list_groups

        return await list_groups(self._cluster, self._timeout, texts("states", states), texts("types", types))

    @returns_deferred
    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription | ApiError]:
        """
        Groups with their members, of either protocol.

        The error for a group that does not exist is GROUP_ID_NOT_FOUND.
        """
        from logbus.client.admin.group_description import describe_at
        from logbus.client.cluster.coordinators import Coordinators

        return await Coordinators(self._cluster, self._timeout).ask(texts("group_ids", group_ids), describe_at)

    @returns_deferred
    async def list_group_offsets(
        self, group_ids: Iterable[str]
    ) -> dict[str, dict[TopicPartition, CommittedOffset | ApiError] | ApiError]:
        """All committed offsets of groups; empty for a group that does not exist."""
        from logbus.client.admin.group_requests import fetch_offsets
        from logbus.client.cluster.coordinators import Coordinators

        return await Coordinators(self._cluster, self._timeout).ask(texts("group_ids", group_ids), fetch_offsets)

    @returns_deferred
    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, ApiError | None]:
        """
        Commit offsets for a group that has no members; a group that does not exist is created.

        The error for a group with members is UNKNOWN_MEMBER_ID.
        """
        from logbus.client.admin.group_requests import alter_offsets
        from logbus.client.cluster.coordinators import Coordinators

        return await alter_offsets(Coordinators(self._cluster, self._timeout), group_id, offsets)

    @returns_deferred
    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ApiError | None]:
        """
        Delete a group's committed offsets of partitions.

        The error for a topic that the group subscribes to is GROUP_SUBSCRIBED_TO_TOPIC.
        """
        from logbus.client.admin.group_requests import delete_offsets
        from logbus.client.cluster.coordinators import Coordinators

        return await delete_offsets(Coordinators(self._cluster, self._timeout), group_id, list(partitions))

    @returns_deferred
    async def delete_groups(self, group_ids: Iterable[str]) -> dict[str, ApiError | None]:
        """
        Delete groups and their committed offsets.

        The error for a group with members is NON_EMPTY_GROUP; for one that does not exist, GROUP_ID_NOT_FOUND.
        """
        from logbus.client.admin.group_requests import delete_groups
        from logbus.client.cluster.coordinators import Coordinators

        return await Coordinators(self._cluster, self._timeout).ask(texts("group_ids", group_ids), delete_groups)
