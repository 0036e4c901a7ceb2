"""
Creates the groups of this broker, writes their records, and keeps their timers (Kafka: GroupMetadataManager).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.metadata_update import NO_OVERRIDES
from logbus.config import ConfigView, keys
from logbus.coordination.classic.classic_group import ClassicGroup
from logbus.coordination.consumer.consumer_group import ConsumerGroup
from logbus.coordination.consumer.migration import downgrade
from logbus.coordination.generation_log import log_generation, loggable_id
from logbus.coordination.group import Change, Group
from logbus.coordination.group_settings import classic_settings, consumer_settings, migration_policy
from logbus.coordination.group_shard import GroupShard, GroupTimer
from logbus.coordination.limit import Limit
from logbus.coordination.member_ids import MemberIds
from logbus.coordination.member_memory import MemberMemory
from logbus.coordination.metadata_topics import MetadataTopics
from logbus.coordination.share.share_group import ShareGroup
from logbus.coordination.share.share_group_settings import ShareGroupSettingsCache
from logbus.coordination.streams.streams_group import StreamsGroup
from logbus.coordination.streams.streams_group_settings import streams_group_settings
from logbus.errors import ApiError, ErrorCode
from logbus.net.arrivals import Arrivals
from logbus.net.request_context import RequestContext
from logbus.timers import Timers
from logbus.wire.messages.group_log import GroupMetadataValue


@define(eq=False, repr=False)
class GroupMetadataManager:
    """
    The life of groups, each within its shard.

    :ivar topics: the topics, for groups of the consumer protocol.
    :ivar group_limit: limits the number of groups.
    :ivar arrivals: the groups that clients create.
    :ivar member_memory: limits the memory of all members.
    """

    _metadata: ClusterMetadata
    _config: ConfigView
    _clock: IReactorTime
    _wall_ms: Callable[[], int]
    _member_ids: MemberIds
    group_limit: Limit
    arrivals: Arrivals
    member_memory: MemberMemory
    topics: MetadataTopics = field(init=False)
    _timers: Timers = field(init=False)
    _share_settings: ShareGroupSettingsCache = field(init=False)
    _log = Logger()

    @topics.default
    def _cluster_topics(self) -> MetadataTopics:
        return MetadataTopics(self._metadata)

    @_timers.default
    def _one_timer(self) -> Timers:
        return Timers(self._clock)

    @_share_settings.default
    def _settings_of_share_groups(self) -> ShareGroupSettingsCache:
        return ShareGroupSettingsCache(self._config, self._metadata.group_configs)

    def stop(self) -> None:
        """Stop the timers: the broker is stopping."""
        self._timers.close()

    def classic(self, shard: GroupShard, group_id: str) -> ClassicGroup:
        """A new classic group; it is not in the shard yet."""
        return ClassicGroup(
            group_id,
            partial(classic_settings, self._config, self.member_memory.admit),
            partial(self._save, shard, group_id),
            self._member_ids.named,
            self._wall_ms,
            self._clock.seconds,
        )

    def restored(self, shard: GroupShard, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """A classic group from its record; its members' sessions begin anew."""
        group = self.classic(shard, group_id)
        group.load(self._clock.seconds(), value)
        return group

    def consumer(self, shard: GroupShard, group_id: str) -> ConsumerGroup:
        """A new group of the consumer protocol (KIP-848); it is not in the shard yet."""
        return ConsumerGroup(
            group_id,
            lambda: consumer_settings(
                self._config, self._metadata.group_configs.get(group_id, NO_OVERRIDES), self.member_memory.admit
            ),
            self.topics,
            partial(self._append, shard, group_id),
            self._member_ids.unique,
        )

    def share(self, shard: GroupShard, group_id: str) -> ShareGroup:
        """A new share group (KIP-932); it is not in the shard yet."""
        return ShareGroup(
            group_id,
            partial(self._share_settings.of, group_id),
            self.topics,
            partial(self._append, shard, group_id),
            self.member_memory.admit,
        )

    def streams(self, shard: GroupShard, group_id: str) -> StreamsGroup:
        """A new streams group (KIP-1071); it is not in the shard yet."""
        return StreamsGroup(
            group_id,
            lambda: streams_group_settings(self._config.get, self._metadata.group_configs.get(group_id, NO_OVERRIDES)),
            self.topics,
            partial(self._append, shard, group_id),
            self.member_memory.admit,
        )

    def activate(self, group: ConsumerGroup | ShareGroup | StreamsGroup) -> None:
        """See :class:`.GroupMaker`."""
        group.activate(self._clock.seconds())

    def classic_group(self, shard: GroupShard, group_id: str, client: RequestContext | None = None) -> Group:
        """
        The group with this id, created if there is none. Call :meth:`touched` after its input.

        An empty consumer group or streams group is replaced by a classic one.

        :param client: who wants it.
        :raise ApiError: see :meth:`.StateLog.append` and :meth:`.Limit.check`.
        """
        former = group = shard.groups.get(group_id)
        if isinstance(group, (ConsumerGroup, StreamsGroup)) and group.is_empty:
            self._append(shard, group_id, group.tombstones(), lambda error: None)
            self.forget(shard, group)
            self._log.info("group {group} speaks the classic protocol from now on", group=loggable_id(group_id))
            group = None
        if group is None:
            self.group_limit.check()
            group = shard.groups[group_id] = self.classic(shard, group_id)
            if former is None:
                self.arrivals.add(client)
        return group

    def touched(self, shard: GroupShard, group: Group) -> None:
        """After a group's input: update its timer, and drop it if nothing is left of it."""
        group_id = group.group_id
        if shard.closed or shard.groups.get(group_id) is not group:
            return
        if group.is_dead and group_id not in shard.offsets:
            self.forget(shard, group)
            return
        if isinstance(group, ConsumerGroup) and group.has_only_classic_members and self._downgrade(shard, group):
            return
        deadline = group.deadline
        alarm = shard.alarms.get(group_id)
        if alarm is not None:
            # A timer that is too early is corrected when it fires, so that a heartbeat does not move timers.
            if deadline is not None and alarm.at <= deadline:
                return
            alarm.timer.cancel()
            del shard.alarms[group_id]
        if deadline is not None:
            timer = self._timers.call_later(deadline - self._clock.seconds(), partial(self._due, shard, group))
            shard.alarms[group_id] = GroupTimer(deadline, timer)

    def _downgrade(self, shard: GroupShard, group: ConsumerGroup) -> bool:
        """Downgrade a group whose members all speak the classic protocol, if the migration policy allows it."""
        if not migration_policy(self._config).down or group.size > self._config.get(keys.GROUP_MAX_SIZE):
            return False
        group_id = group.group_id
        changes, value = downgrade(group, self._wall_ms())
        try:
            self._append(shard, group_id, changes, lambda error: None)
        except ApiError:
            return False  # The next input of the group tries again.
        self.forget(shard, group)
        classic = shard.groups[group_id] = self.restored(shard, group_id, value)
        self._log.info("group {group} speaks the classic protocol from now on", group=loggable_id(group_id))
        classic.rebalance(self._clock.seconds())
        self.touched(shard, classic)
        return True

    def forget(self, shard: GroupShard, group: Group) -> None:
        """Drop a group whose tombstones are written, or that has no records."""
        del shard.groups[group.group_id]
        alarm = shard.alarms.pop(group.group_id, None)
        if alarm is not None:
            alarm.timer.cancel()
        group.resign()

    def _due(self, shard: GroupShard, group: Group) -> None:
        del shard.alarms[group.group_id]
        if shard.closed:
            return
        group.expire(self._clock.seconds())
        self.touched(shard, group)

    def _save(self, shard: GroupShard, group_id: str, change: Change, done: Callable[[ApiError | None], None]) -> None:
        """Write a group's record for it."""
        try:
            self._append(shard, group_id, [change], done)
        except ApiError as error:
            done(error)

    def _append(
        self, shard: GroupShard, group_id: str, changes: Sequence[Change], done: Callable[[ApiError | None], None]
    ) -> None:
        """
        Write a group's records for it.

        :raise ApiError: they were not written, and ``done`` will not be called.
        """
        durable = shard.save(changes)
        log_generation(group_id, changes, shard.groups.get(group_id))
        if durable.called:
            # Still within the group's input: the caller calls touched().
            durable.addCallbacks(lambda _: done(None), lambda failure: done(_error_of(failure)))
            return

        def settled(error: ApiError | None) -> None:
            done(error)
            group = shard.groups.get(group_id)
            if group is not None:
                self.touched(shard, group)

        durable.addCallbacks(lambda _: settled(None), lambda failure: settled(_error_of(failure)))
        durable.addErrback(
            lambda failure: self._log.failure("group {group} failed", failure, group=loggable_id(group_id))
        )


def _error_of(failure: Failure) -> ApiError:
    """The error of a failed write, for a group."""
    if isinstance(failure.value, ApiError):
        return failure.value
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, failure.getErrorMessage())
