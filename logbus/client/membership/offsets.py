"""What groups commit, and look up; a consumer may do so without being a member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define
from twisted.internet.defer import Deferred

from logbus.client.cluster import Cluster
from logbus.client.groups import CommittedOffset
from logbus.client.membership.interface import GroupMetadata
from logbus.model import TopicPartition


@define(eq=False)
class GroupOffsets:
    """
    The committed offsets of a group.

    :ivar patience: seconds for which something is tried again.
    """

    cluster: Cluster
    group_id: str
    patience: float = 30.0

    def commit(
        self, offsets: Mapping[TopicPartition, CommittedOffset], member: GroupMetadata | None = None
    ) -> Deferred[None]:
        """
        Commit offsets.

        :param member: who commits; None: nobody, for a group without members.
        :raise CommitFailed: (in the Deferred) some are not committed; it says which and why.
        :raise LogbusError: no coordinator could be reached in time.
        """
        raise NotImplementedError

    def fetch(
        self, partitions: Sequence[TopicPartition], *, require_stable: bool = False
    ) -> Deferred[dict[TopicPartition, CommittedOffset | None]]:
        """
        What is committed for partitions; None for nothing.

        :param require_stable: wait for transactions that are open (KIP-447).
        :raise ApiError: (in the Deferred) the broker refuses, or transactions stay open for ``patience``.
        """
        raise NotImplementedError
