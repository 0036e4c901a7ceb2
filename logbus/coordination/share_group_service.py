"""
Handles the requests of share groups (KIP-932): heartbeats, and their description.
"""

from __future__ import annotations

from attrs import define, evolve
from twisted.internet.defer import Deferred

from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.group_shard import GroupShard
from logbus.coordination.modern_heartbeat import save_heartbeat
from logbus.coordination.share.heartbeat import ShareHeartbeat, ShareHeartbeatResult, check_heartbeat
from logbus.coordination.share.share_group import ShareGroup, ShareGroupDescription
from logbus.coordination.share.share_group_member import JOINING
from logbus.coordination.share_group_states import ShareGroupStates
from logbus.coroutines import sleep
from logbus.errors import ApiError, ErrorCode
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import TimeSlice

FIRST_ASSIGNMENT_SECONDS = 2.0
"""
Longest time for which the response to a member that joins waits for its partitions' states to be made, and then for the
interval between two assignments to pass.
"""


@define(eq=False)
class ShareGroupService:
    """
    Handles ShareGroupHeartbeat and ShareGroupDescribe for this broker's groups.

    :ivar states: the states of their share partitions.
    """

    _coordinator: GroupCoordinator
    states: ShareGroupStates

    async def heartbeat(
        self, group_id: str, request: ShareHeartbeat, client: RequestContext | None = None
    ) -> ShareHeartbeatResult:
        """
        Let a member join, stay or leave; the first to join creates the group. Done when the changes are durable.

        Partitions are assigned when their states are made, and not too soon after the last assignment. A member that
        joins waits a little for that, so that it need not wait for its next heartbeat.

        :param client: who sent it.
        :raise ApiError: as :meth:`.GroupCoordinator.shard_of`, :meth:`.ShareGroup.heartbeat`,
            :func:`.check_heartbeat` and :meth:`.StateLog.append`; GROUP_ID_NOT_FOUND.
        """
        check_heartbeat(request)
        result = await self._heartbeat(group_id, request, client)
        shard = self._coordinator.shard_of(group_id)
        group = shard.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return result
        made = self.states.maintain(shard, group)
        if request.epoch != JOINING:
            return result
        if made is not None:
            await self.states.wait(made, FIRST_ASSIGNMENT_SECONDS)
            result = await self._stay(group_id, request, client, result)
        clock = self._coordinator.clock
        interval = group.seconds_until_assignment(clock.seconds())
        if 0 < interval <= FIRST_ASSIGNMENT_SECONDS:
            await sleep(clock, interval)
            result = await self._stay(group_id, request, client, result)
        return result

    async def _stay(
        self, group_id: str, joining: ShareHeartbeat, client: RequestContext | None, result: ShareHeartbeatResult
    ) -> ShareHeartbeatResult:
        """The next heartbeat of a member that has joined, in place of the member."""
        # Hundreds may have waited for the same moment.
        await TimeSlice(self._coordinator.slices).next()
        try:
            again = await self._heartbeat(
                group_id, evolve(joining, epoch=result.epoch, topics=None, rack_id=None), client
            )
        except ApiError:
            return result  # The group has moved, or the member is gone: the next heartbeat will tell.
        return again if again.assignment is not None else evolve(again, assignment=result.assignment)

    def _heartbeat(
        self, group_id: str, request: ShareHeartbeat, client: RequestContext | None
    ) -> Deferred[ShareHeartbeatResult]:
        coordinator = self._coordinator
        shard = coordinator.shard_of(group_id)
        group = self._group(shard, group_id, joins=request.epoch == JOINING)
        result, changes = group.heartbeat(coordinator.clock.seconds(), request)
        has_news = result.assignment is not None or result.epoch != request.epoch
        durable = save_heartbeat(coordinator, shard, group, changes, has_news=has_news, client=client)
        return durable.addCallback(lambda _: result)

    def describe(self, group_id: str) -> ShareGroupDescription:
        """
        Describe a group.

        :raise ApiError: as :meth:`.GroupCoordinator.shard_of`; GROUP_ID_NOT_FOUND.
        """
        return existing(self._coordinator.shard_of(group_id), group_id).describe()

    async def delete_states(self, group_id: str) -> None:
        """
        Delete the states of a share group that is about to be deleted. Of other groups, and if there is none, nothing.

        :raise ApiError: as :meth:`.GroupCoordinator.shard_of` and :meth:`.ShareGroupStates.delete`; NON_EMPTY_GROUP.
        """
        shard = self._coordinator.shard_of(group_id)
        group = shard.groups.get(group_id)
        if isinstance(group, ShareGroup):
            async with self.states.of(group):
                group.check_deletable()
                topics = frozenset(group.recorded.partitions.known)
                if topics:
                    await self.states.delete(shard, group, topics)

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of a topic, if it still exists."""
        return self._coordinator.manager.topics.name(topic_id)

    def _group(self, shard: GroupShard, group_id: str, *, joins: bool) -> ShareGroup:
        """The group, which may not be in the shard yet."""
        if joins and group_id not in shard.groups:
            self._coordinator.manager.group_limit.check()
            return self._coordinator.manager.share(shard, group_id)
        return existing(shard, group_id)


def existing(shard: GroupShard, group_id: str) -> ShareGroup:
    """
    A share group of a shard.

    :raise ApiError: GROUP_ID_NOT_FOUND: there is none, or it is of another type.
    """
    group = shard.groups.get(group_id)
    if isinstance(group, ShareGroup):
        return group
    why = "there is no share group" if group is None else f"a {group.group_type.value} group is"
    raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{why} {group_id!r}")
