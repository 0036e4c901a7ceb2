"""
OffsetCommit: checks that a member may commit, and appends its offsets to the group's shard.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, frozen
from twisted.internet.defer import Deferred

from logbus.coordination.classic.classic_group import ClassicGroup
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.group_offsets import CommittedOffset, offset_commit_change
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.net.request_context import RequestContext

#: The first version of OffsetCommit that supports the consumer protocol, and GROUP_ID_NOT_FOUND.
GROUP_ID_NOT_FOUND_VERSION = 9


@frozen
class OffsetCommitter:
    """
    The sender of an OffsetCommit.

    :ivar member_id: empty for a client that is not a member: a consumer with a manual assignment, or a tool.
    :ivar epoch: the generation, or the member epoch; −1 for a client that is not a member.
    :ivar version: of the request: older ones do not know every error.
    :ivar client: whose connection it came by.
    """

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    epoch: int = -1
    version: int = GROUP_ID_NOT_FOUND_VERSION
    client: RequestContext | None = None


@define(eq=False)
class OffsetCommits:
    """Commits offsets outside of transactions."""

    _coordinator: GroupCoordinator

    def commit(
        self, committer: OffsetCommitter, offsets: Sequence[tuple[TopicPartition, CommittedOffset]]
    ) -> Deferred[None]:
        """
        Commit offsets, all or none.

        A group that does not exist is created if the committer is not a member.

        :return: fires when they are durable.
        :raise ApiError: nothing changed: as :meth:`.GroupCoordinator.shard_of`, :meth:`.Group.check_commit` and
            :meth:`.StateLog.append`; INVALID_COMMIT_OFFSET_SIZE: more than one batch can hold.
        """
        coordinator = self._coordinator
        shard = coordinator.shard_of(committer.group_id)
        group = shard.groups.get(committer.group_id)
        if group is None:
            if committer.epoch >= 0:
                known = committer.version >= GROUP_ID_NOT_FOUND_VERSION
                raise ApiError(
                    ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION,
                    f"there is no group {committer.group_id!r}",
                )
            group = coordinator.manager.classic_group(shard, committer.group_id, committer.client)
        try:
            group.check_commit(
                committer.member_id,
                committer.instance_id,
                committer.epoch,
                committer.version,
                partitions=[partition for partition, _ in offsets],
            )
            if committer.epoch >= 0 and isinstance(group, ClassicGroup):
                group.touch(coordinator.clock.seconds(), committer.member_id)
            durable = shard.save(
                [offset_commit_change(committer.group_id, partition, offset) for partition, offset in offsets],
                ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
            )
        finally:
            coordinator.manager.touched(shard, group)
        coordinator.metrics.commits += len(offsets)
        return durable
