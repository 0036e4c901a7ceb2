"""
Removes groups and committed offsets: on expiration, when a topic is deleted, and on request (Kafka:
cleanupExpiredOffsets, DeleteGroups, OffsetDelete).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.config import keys
from logbus.coordination.generation_log import loggable_id
from logbus.coordination.group import Change, Group
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.group_loader import GROUPS_A_TURN
from logbus.coordination.group_shard import GroupShard
from logbus.coordination.periodic_scan import PeriodicScan
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.wire.messages.consumer_protocol import PROTOCOL_TYPE

OFFSETS_A_GROUP = 50
"""Number of offsets that take about as long to check as a group itself."""


@define(eq=False)
class GroupCleanup:
    """
    Expires offsets every ``offsets.retention.check.interval.ms``, and removes those of deleted topics.

    :ivar scan: expires offsets.
    """

    coordinator: GroupCoordinator
    scan: PeriodicScan = field(init=False)
    _log = Logger()

    @scan.default
    def _of_offsets(self) -> PeriodicScan:
        return PeriodicScan(self.coordinator, keys.OFFSETS_RETENTION_CHECK_INTERVAL_MS, self.expire)

    async def expire(self) -> None:
        """Remove expired offsets and empty groups, in slices between which the reactor runs."""
        left = GROUPS_A_TURN
        gone = 0
        before = self.coordinator.metrics.expired
        for shard in list(self.coordinator.active_shards()):
            for group_id in list(shard.groups):
                if shard.closed:
                    break
                group = shard.groups.get(group_id)
                if group is None:
                    continue
                try:
                    gone += self._expire(shard, group)
                except ApiError as error:
                    # It would fail for all groups of this shard: the next check tries again.
                    self._log.warn(
                        "offsets of group {group} cannot be expired: {error}",
                        group=loggable_id(group_id),
                        error=error.message,
                    )
                    break
                left -= 1 + len(shard.offsets.get(group_id, ())) // OFFSETS_A_GROUP
                if left <= 0:
                    await deferLater(self.coordinator.clock, 0)
                    left = GROUPS_A_TURN
        expired = self.coordinator.metrics.expired - before
        if expired or gone:
            self._log.info(
                "{count} committed offsets have expired; {groups} groups without offsets were removed",
                count=expired,
                groups=gone,
            )

    def _expire(self, shard: GroupShard, group: Group) -> bool:
        """
        Remove the expired offsets of one group, and the group if nothing is left.

        :return: whether the group was removed.
        :raise ApiError: not everything could be removed.
        """
        coordinator = self.coordinator
        group_id = group.group_id
        offsets = shard.offsets.get(group_id)
        changes: list[Change] = []
        if offsets is not None:
            retention_ms = coordinator.config.get(keys.OFFSETS_RETENTION_MINUTES) * 60_000
            changes += offsets.tombstones(list(offsets.expired(group, coordinator.wall_ms(), retention_ms)))
        expired = len(changes)
        # A group with a deadline has a member about to join.
        over = group.is_empty and group.deadline is None and (offsets is None or offsets.would_be_empty(expired))
        if over:
            changes += group.tombstones()
        if changes:
            self._watch(f"group {loggable_id(group_id)}", shard.save_all(changes))
            coordinator.metrics.expired += expired
        if over:
            coordinator.manager.forget(shard, group)
        return over

    def forget_topics(self, topics: Sequence[str]) -> None:
        """Remove the offsets of deleted topics. For :meth:`.ClusterMetadata.when_removed`."""
        gone = frozenset(topics)
        for shard in list(self.coordinator.shards.values()):
            if shard.loading:
                shard.when_loaded.append(partial(self._forget_topics, shard, gone))
            else:
                self._forget_topics(shard, gone)

    def _forget_topics(self, shard: GroupShard, gone: frozenset[str]) -> None:
        changes = [
            change for offsets in shard.offsets.values() for change in offsets.tombstones(offsets.of_topics(gone))
        ]
        if not changes:
            return
        touched = {change[0].group for change in changes}
        self._log.info(
            "removing {count} offsets of {groups} groups with the deleted topics {topics}",
            count=len(changes),
            groups=len(touched),
            topics=", ".join(sorted({change[0].topic for change in changes})),
        )
        try:
            self._watch("deleted topics", shard.save_all(changes))
        except ApiError as error:
            self._log.warn("offsets of deleted topics cannot be removed: {error}", error=error.message)
        for group_id in touched:
            group = shard.groups.get(group_id)
            if group is not None:
                self.coordinator.manager.touched(shard, group)

    def _watch(self, what: str, durable: Deferred[None]) -> None:
        def failed(failure: Failure) -> None:
            self._log.warn(
                "removed offsets ({what}) may come back: {error}", what=what, error=failure.getErrorMessage()
            )

        durable.addErrback(failed)

    # On request.

    async def delete_group(self, group_id: str) -> None:
        """
        Delete a group and its offsets; done when that is durable.

        :raise ApiError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, and as :meth:`.GroupCoordinator.shard_of`.
        """
        shard, group = self._existing(group_id)
        group.check_deletable()
        offsets = shard.offsets.get(group_id)
        changes = [*(() if offsets is None else offsets.tombstones()), *group.tombstones()]
        durable = shard.save_all(changes)
        self.coordinator.manager.forget(shard, group)
        self._log.info("group {group} was deleted", group=loggable_id(group_id))
        await durable

    async def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """
        Delete a group's offsets of some partitions; done when that is durable. A missing offset is no error.

        :return: for each partition NONE, or GROUP_SUBSCRIBED_TO_TOPIC: members may be reading it.
        :raise ApiError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (the topics of its members are unknown), and as
            :meth:`.GroupCoordinator.shard_of`.
        """
        shard, group = self._existing(group_id)
        if not group.is_empty and group.protocol_type != PROTOCOL_TYPE:
            raise ApiError(
                ErrorCode.NON_EMPTY_GROUP,
                f"group {group_id!r} has members of the protocol {group.protocol_type!r}: their topics are not known",
            )
        outcomes: dict[TopicPartition, ErrorCode] = {}
        for partition in partitions:
            used = not group.is_empty and group.is_subscribed_to(partition.topic)
            outcomes[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if used else ErrorCode.NONE
        offsets = shard.offsets.get(group_id)
        if offsets is not None:
            free = [partition for partition, code in outcomes.items() if code is ErrorCode.NONE]
            # The group stays, even without offsets, until the next check: tools delete it right afterwards.
            await shard.save_all(offsets.tombstones(free))
        return outcomes

    def _existing(self, group_id: str) -> tuple[GroupShard, Group]:
        shard = self.coordinator.shard_of(group_id)
        group = shard.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}")
        return shard, group
