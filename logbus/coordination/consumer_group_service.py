"""
Handles the requests of the consumer protocol (KIP-848), including a group's upgrade from the classic protocol.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define
from twisted.internet.defer import Deferred

from logbus.config import ConfigView, keys
from logbus.coordination.classic.classic_group import ClassicGroup
from logbus.coordination.consumer.consumer_group import ConsumerGroup, ConsumerGroupDescription
from logbus.coordination.consumer.consumer_group_member import JOINING
from logbus.coordination.consumer.heartbeat import ConsumerHeartbeat, ConsumerHeartbeatResult
from logbus.coordination.consumer.migration import upgrade
from logbus.coordination.group import Change, Group, GroupType
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.group_settings import migration_policy
from logbus.coordination.group_shard import GroupShard
from logbus.coordination.modern_heartbeat import save_heartbeat
from logbus.errors import ApiError, ErrorCode
from logbus.net.request_context import RequestContext

CONSUMER = "consumer"


def consumer_protocol_enabled(config: ConfigView) -> bool:
    """Whether groups may use the consumer protocol (``group.coordinator.rebalance.protocols``)."""
    return CONSUMER in config.get(keys.GROUP_COORDINATOR_REBALANCE_PROTOCOLS)


@define(eq=False)
class ConsumerGroupService:
    """Handles ConsumerGroupHeartbeat and ConsumerGroupDescribe for this broker's groups."""

    _coordinator: GroupCoordinator

    def heartbeat(
        self, group_id: str, request: ConsumerHeartbeat, client: RequestContext | None = None
    ) -> Deferred[ConsumerHeartbeatResult]:
        """
        Let a member join, stay or leave; the first to join creates the group.

        :param client: who sent it.
        :return: fires when the changes are durable.
        :raise ApiError: nothing has changed: as :meth:`.GroupCoordinator.shard_of`, :meth:`.ConsumerGroup.heartbeat`
            and :meth:`.StateLog.append`; GROUP_ID_NOT_FOUND; UNSUPPORTED_VERSION: the protocol is disabled here.
        """
        coordinator = self._coordinator
        if not consumer_protocol_enabled(coordinator.config):
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION, "group.coordinator.rebalance.protocols has no consumer protocol here"
            )
        shard = coordinator.shard_of(group_id)
        group, first = self._group(shard, group_id, joins=request.epoch == JOINING)
        result, changes = group.heartbeat(coordinator.clock.seconds(), request)
        has_news = result.assignment is not None or result.epoch != request.epoch
        durable = save_heartbeat(coordinator, shard, group, changes, first=first, has_news=has_news, client=client)
        return durable.addCallback(lambda _: result)

    def describe(self, group_id: str) -> ConsumerGroupDescription:
        """
        Describe a group.

        :raise ApiError: as :meth:`.GroupCoordinator.shard_of`; GROUP_ID_NOT_FOUND.
        """
        group = self._coordinator.group(group_id)
        if not isinstance(group, ConsumerGroup):
            raise _not_found(group_id, group)
        return group.describe()

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of a topic, if it still exists."""
        return self._coordinator.manager.topics.name(topic_id)

    def _group(self, shard: GroupShard, group_id: str, *, joins: bool) -> tuple[ConsumerGroup, Sequence[Change]]:
        """The group, which may not be in the shard yet, and the records to write if it is new."""
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group, ()
        if group is None and joins:
            self._coordinator.manager.group_limit.check()
            return self._coordinator.manager.consumer(shard, group_id), ()
        if isinstance(group, ClassicGroup) and joins and group.is_empty:
            return self._coordinator.manager.consumer(shard, group_id), group.tombstones()
        if isinstance(group, ClassicGroup) and joins and migration_policy(self._coordinator.config).up:
            upgraded = self._coordinator.manager.consumer(shard, group_id)
            return upgraded, upgrade(self._coordinator.clock.seconds(), group, upgraded)
        raise _not_found(group_id, group)


def _not_found(group_id: str, group: Group | None) -> ApiError:
    if group is None:
        why = f"there is no group {group_id!r}"
    elif group.group_type is GroupType.CLASSIC:
        why = f"the group {group_id!r} uses the classic protocol"
    else:
        why = f"the group {group_id!r} is a {group.group_type.value} group"
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, why)
