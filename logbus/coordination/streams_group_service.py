"""
Handles the requests of streams groups (KIP-1071): heartbeats, and their description.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, evolve
from twisted.internet.defer import Deferred

from logbus.coordination.classic.classic_group import ClassicGroup
from logbus.coordination.group import Change, Group
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.group_shard import GroupShard
from logbus.coordination.modern_heartbeat import save_heartbeat
from logbus.coordination.streams.heartbeat import StreamsHeartbeat, StreamsHeartbeatResult, check_heartbeat
from logbus.coordination.streams.status import Status, StatusCode, some_of
from logbus.coordination.streams.streams_group import StreamsGroup, StreamsGroupDescription
from logbus.coordination.streams.streams_group_member import JOINING
from logbus.coordination.streams_internal_topics import StreamsInternalTopics
from logbus.errors import ApiError, ErrorCode
from logbus.net.request_context import RequestContext

ERRORS_FOR_HEARTBEATS = 2
"""For so many heartbeat intervals an error of an internal topic's creation is told, and nothing is tried again."""


@define(eq=False)
class StreamsGroupService:
    """
    Handles StreamsGroupHeartbeat and StreamsGroupDescribe for this broker's groups.

    :ivar internal_topics: creates the topics that applications need.
    """

    _coordinator: GroupCoordinator
    internal_topics: StreamsInternalTopics

    async def heartbeat(
        self,
        group_id: str,
        request: StreamsHeartbeat,
        client: RequestContext | None = None,
        may_create: Callable[[str], bool] = lambda topic: True,
    ) -> StreamsHeartbeatResult:
        """
        Let a member join, stay or leave; the first to join creates the group. Done when the changes are durable.

        The creation of missing internal topics begins, and goes on after the response.

        :param client: who sent it.
        :param may_create: whether the client may create a topic.
        :raise ApiError: nothing has changed: as :meth:`.GroupCoordinator.shard_of`, :meth:`.StreamsGroup.heartbeat`,
            :func:`.check_heartbeat` and :meth:`.StateLog.append`; GROUP_ID_NOT_FOUND.
        """
        check_heartbeat(request)
        result = await self._heartbeat(group_id, request, client)
        return self._create_topics(result, may_create) if result.missing_topics else result

    def _heartbeat(
        self, group_id: str, request: StreamsHeartbeat, client: RequestContext | None
    ) -> Deferred[StreamsHeartbeatResult]:
        coordinator = self._coordinator
        shard = coordinator.shard_of(group_id)
        group, first = self._group(shard, group_id, joins=request.epoch == JOINING)
        result, changes = group.heartbeat(coordinator.clock.seconds(), request)
        has_news = result.tasks is not None or result.epoch != request.epoch
        durable = save_heartbeat(coordinator, shard, group, changes, first=first, has_news=has_news, client=client)
        return durable.addCallback(lambda _: result)

    def _create_topics(
        self, result: StreamsHeartbeatResult, may_create: Callable[[str], bool]
    ) -> StreamsHeartbeatResult:
        """Begin to create missing topics, all or none, and add to the status why it cannot be."""
        missing = {topic.name: topic for topic in result.missing_topics}
        refused = [name for name in missing if not may_create(name)]
        if refused:
            return _with_detail(result, f"the client may not create {some_of(refused)}")
        retry_s = ERRORS_FOR_HEARTBEATS * result.heartbeat_interval_ms / 1000
        self.internal_topics.create(missing.values(), retry_s)
        errors = self.internal_topics.errors(missing)
        if not errors:
            return result
        shown = some_of(f"{name}: {why}" for name, why in errors.items())
        return _with_detail(result, f"they cannot be created: {shown}")

    def describe(self, group_id: str) -> StreamsGroupDescription:
        """
        Describe a group.

        :raise ApiError: as :meth:`.GroupCoordinator.shard_of`; GROUP_ID_NOT_FOUND.
        """
        group = self._coordinator.group(group_id)
        if not isinstance(group, StreamsGroup):
            raise _not_found(group_id, group)
        return group.describe()

    def _group(self, shard: GroupShard, group_id: str, *, joins: bool) -> tuple[StreamsGroup, Sequence[Change]]:
        """The group, which may not be in the shard yet, and the records to write if it replaces a classic one."""
        group = shard.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group, ()
        if group is None and joins:
            self._coordinator.manager.group_limit.check()
            return self._coordinator.manager.streams(shard, group_id), ()
        if isinstance(group, ClassicGroup) and joins and group.is_empty:
            return self._coordinator.manager.streams(shard, group_id), group.tombstones()
        raise _not_found(group_id, group)


def _with_detail(result: StreamsHeartbeatResult, detail: str) -> StreamsHeartbeatResult:
    """The result with more to its status of missing internal topics."""
    statuses = [
        Status(status.code, f"{status.detail}; {detail}")
        if status.code is StatusCode.MISSING_INTERNAL_TOPICS
        else status
        for status in result.statuses
    ]
    return evolve(result, statuses=tuple(statuses))


def _not_found(group_id: str, group: Group | None) -> ApiError:
    why = "there is no group" if group is None else f"a {group.group_type.value} group is"
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{why} {group_id!r}")
