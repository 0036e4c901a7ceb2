"""
Removes groups and committed offsets: on expiration, when a topic is deleted, and on request (Kafka:
cleanupExpiredOffsets, DeleteGroups, OffsetDelete).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.config import keys
from logbus.coordination.generation_log import loggable_id
from logbus.coordination.group import Change, Group, GroupType
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.group_loader import GROUPS_A_TURN
from logbus.coordination.group_shard import GroupShard
from logbus.coordination.periodic_scan import PeriodicScan
from logbus.coordination.streams.streams_group import PROTOCOL_TYPE as STREAMS
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.net.time_slices import TimeSlice
from logbus.wire.messages.consumer_protocol import PROTOCOL_TYPE

OFFSETS_A_GROUP = 50
"""Number of offsets that take about as long to check as a group itself."""

EXPIRED_A_GROUP = 5
"""Number of expired offsets that take about as long to remove as a group to check."""

GROUP_CHANGED = 10
"""A group from which something is removed takes about as long as so many that are checked: its change is written."""

EXPIRED_A_TURN = 300
"""Upper bound of expired offsets of one group that are removed before the reactor gets a turn."""

OFFSETS_A_TURN = 10_000
"""Number of offsets whose topics are looked at before the reactor gets a turn; they take some milliseconds."""

OFFSETS_A_PART = 100
"""So many of one group between two looks at what is left of the turn; all of them may have to be removed."""

REMOVAL = 100
"""The removal of an offset takes about as long as a look at so many."""

LOGGED_TOPICS = 20
"""Number of deleted topics that are named in the log."""


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
                try:
                    while (group := shard.groups.get(group_id)) is not None and not shard.closed:
                        expired = self._expire(shard, group)
                        gone += group_id not in shard.groups
                        left -= 1 + len(shard.offsets.get(group_id, ())) // OFFSETS_A_GROUP + expired // EXPIRED_A_GROUP
                        if expired or group_id not in shard.groups:
                            left -= GROUP_CHANGED
                        if left <= 0:
                            await TimeSlice(self.coordinator.slices).next()
                            left = GROUPS_A_TURN
                        if expired < EXPIRED_A_TURN:
                            break
                except ApiError as error:
                    # It would fail for all groups of this shard: the next check tries again.
                    self._log.warn(
                        "offsets of group {group} cannot be expired: {error}",
                        group=loggable_id(group_id),
                        error=error.message,
                    )
                    break
        expired = self.coordinator.metrics.expired - before
        if expired or gone:
            self._log.info(
                "{count} committed offsets have expired; {groups} groups without offsets were removed",
                count=expired,
                groups=gone,
            )

    def _expire(self, shard: GroupShard, group: Group) -> int:
        """
        Remove expired offsets of one group, up to :data:`EXPIRED_A_TURN`, and the group if nothing is left.

        :return: how many offsets were removed.
        :raise ApiError: not everything could be removed.
        """
        coordinator = self.coordinator
        group_id = group.group_id
        offsets = shard.offsets.get(group_id)
        changes: list[Change] = []
        if offsets is not None:
            retention_ms = coordinator.config.get(keys.OFFSETS_RETENTION_MINUTES) * 60_000
            expired_now = offsets.expired(group, coordinator.wall_ms(), retention_ms)
            changes += offsets.tombstones(list(islice(expired_now, EXPIRED_A_TURN)))
        expired = len(changes)
        # A group with a deadline has a member about to join.
        unused = group.is_empty and group.expires and group.deadline is None
        over = unused and (offsets is None or offsets.would_be_empty(expired))
        if over:
            changes += group.tombstones()
        if changes:
            self._watch(f"group {loggable_id(group_id)}", shard.save_all(changes))
            coordinator.metrics.expired += expired
        if over:
            coordinator.manager.forget(shard, group)
        return expired

    def forget_topics(self, topics: Sequence[str]) -> None:
        """
        Remove the offsets of deleted topics, in slices between which the reactor runs; clients do not see them from now
        on. For :meth:`.ClusterMetadata.when_removed`.
        """
        for shard in list(self.coordinator.shards.values()):
            under_way = bool(shard.deleted)
            shard.deleted.add(topics)
            if under_way:
                continue
            if shard.loading:
                shard.when_loaded.append(partial(self._start_forgetting, shard))
            else:
                self._start_forgetting(shard)

    def _start_forgetting(self, shard: GroupShard) -> None:
        def failed(failure: Failure) -> None:
            self._log.failure("offsets of deleted topics cannot be removed", failure)
            shard.deleted.clear()

        Deferred.fromCoroutine(self._forget(shard)).addErrback(failed)

    async def _forget(self, shard: GroupShard) -> None:
        """Remove the offsets of deleted topics; topics that are deleted meanwhile have their turn afterwards."""
        deleted = shard.deleted
        while deleted:
            begun = deleted.begin()
            left, over, count = OFFSETS_A_TURN, [], 0
            for offsets in list(shard.offsets.values()):
                partitions = offsets.partitions()
                for start in range(0, len(partitions), OFFSETS_A_PART):
                    part = partitions[start : start + OFFSETS_A_PART]
                    found = offsets.tombstones(offsets.over(part))
                    over += found
                    left -= 1 + len(part) + REMOVAL * len(found)
                    if left > 0:
                        continue
                    # What was found must be removed in the same turn: later it may belong to a new topic.
                    if not self._remove(shard, over):
                        return
                    count += len(over)
                    await TimeSlice(self.coordinator.slices).next()
                    if shard.closed:
                        return
                    left, over = OFFSETS_A_TURN, []
            if not self._remove(shard, over):
                return
            count += len(over)
            deleted.end(begun)
            if count:
                self._log.info(
                    "removed {count} offsets of groups with the deleted topics {topics}{more}",
                    count=count,
                    topics=", ".join(sorted(begun)[:LOGGED_TOPICS]),
                    more=f" and {len(begun) - LOGGED_TOPICS} more" if len(begun) > LOGGED_TOPICS else "",
                )

    def _remove(self, shard: GroupShard, tombstones: Sequence[Change]) -> bool:
        """Write tombstones of deleted topics' offsets; returns whether that was possible."""
        if not tombstones:
            return True
        try:
            self._watch("deleted topics", shard.save_all(tombstones))
        except ApiError as error:
            self._log.warn("offsets of deleted topics cannot be removed: {error}", error=error.message)
            shard.deleted.clear()
            return False
        for group_id in {key.group for key, _ in tombstones}:
            group = shard.groups.get(group_id)
            if group is not None:
                self.coordinator.manager.touched(shard, group)
        return True

    def _watch(self, what: str, durable: Deferred[None]) -> None:
        def failed(failure: Failure) -> None:
            self._log.warn(
                "removed offsets ({what}) may come back: {error}", what=what, error=failure.getErrorMessage()
            )

        durable.addErrback(failed)

    # On request.

    async def delete_group(self, group_id: str, *, validate_only: bool = False) -> None:
        """
        Delete a group and its offsets; done when that is durable.

        :param validate_only: only check whether it can be deleted.
        :raise ApiError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, and as :meth:`.GroupCoordinator.shard_of`.
        """
        shard, group = self._existing(group_id)
        group.check_deletable()
        if validate_only:
            return
        offsets = shard.offsets.get(group_id)
        changes = [*(() if offsets is None else offsets.tombstones()), *group.tombstones()]
        durable = shard.save_all(changes)
        self.coordinator.manager.forget(shard, group)
        self._log.info("group {group} was deleted", group=loggable_id(group_id))
        await durable

    async def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition], *, validate_only: bool = False
    ) -> dict[TopicPartition, ErrorCode]:
        """
        Delete a group's offsets of some partitions; done when that is durable. A missing offset is no error.

        :param validate_only: only check which can be deleted.
        :return: for each partition NONE, or GROUP_SUBSCRIBED_TO_TOPIC: members may be reading it.
        :raise ApiError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (the topics of its members are unknown), and as
            :meth:`.GroupCoordinator.shard_of`.
        """
        shard, group = self._existing(group_id)
        if group.group_type is GroupType.SHARE:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"the share group {group_id!r} has no committed offsets")
        if not group.is_empty and group.protocol_type not in (PROTOCOL_TYPE, STREAMS):
            raise ApiError(
                ErrorCode.NON_EMPTY_GROUP,
                f"group {group_id!r} has members of the protocol {group.protocol_type!r}: their topics are not known",
            )
        outcomes: dict[TopicPartition, ErrorCode] = {}
        for partition in partitions:
            used = not group.is_empty and group.is_subscribed_to(partition.topic)
            outcomes[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if used else ErrorCode.NONE
        offsets = shard.offsets.get(group_id)
        if offsets is not None and not validate_only:
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
