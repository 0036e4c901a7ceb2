"""
A share group (KIP-932; Kafka: ShareGroup). Pure.

The *group epoch* grows when members, subscriptions or share partitions change. The *target assignment* is then
computed, and carries the group epoch. A member gets its target and that epoch with its next heartbeat. Deliveries and
acknowledgements do not depend on epochs: who has a record is known to the leader of its partition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from attrs import define, evolve, field, frozen

from logbus.coordination.classic.requests import admit_all
from logbus.coordination.consumer.partition_sets import Partitions, TopicId, difference, is_subset
from logbus.coordination.group import Change, GroupType
from logbus.coordination.modern_group import ModernGroup
from logbus.coordination.share import simple_assignor
from logbus.coordination.share.heartbeat import ShareHeartbeat, ShareHeartbeatResult
from logbus.coordination.share.recorded_state import RecordedState
from logbus.coordination.share.share_group_member import JOINING, LEFT, ShareGroupMember, SharePosition
from logbus.coordination.share.share_group_settings import ShareGroupSettings
from logbus.coordination.share.target_assignment import TargetAssignment
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

PROTOCOL_TYPE = "share"
"""The protocol type of share groups, as ListGroups shows it."""


@frozen
class ShareGroupDescription:
    """A group, as ShareGroupDescribe shows it: each member with what it was told."""

    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: tuple[tuple[ShareGroupMember, SharePosition], ...]


@define(eq=False)
class ShareGroup(ModernGroup[ShareGroupSettings, RecordedState]):
    """
    One share group. Requests carry the time, in seconds; state changes are returned as records.
    """

    _admit: Callable[[int], None] = admit_all
    targets: TargetAssignment = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.recorded = RecordedState(self.group_id)
        self.targets = TargetAssignment(self.recorded, self.topics)

    # The interface of any group.

    @property
    def group_type(self) -> GroupType:
        """SHARE."""
        return GroupType.SHARE

    @property
    def protocol_type(self) -> str:
        """Always ``share``."""
        return PROTOCOL_TYPE

    @property
    def is_dead(self) -> bool:
        """Whether no record of it is left; Kafka notes offsets that are set for a new group without an epoch."""
        return self.recorded.epoch is None and self.is_empty and self.recorded.partitions.is_empty

    @property
    def expires(self) -> bool:
        """Whether it is removed when it is empty: not while it has share partitions (Kafka: never)."""
        return self.recorded.partitions.is_empty

    @property
    def state_name(self) -> str:
        """Empty, Stable or Dead."""
        if self.is_empty:
            return "Dead" if self.is_dead else "Empty"
        return "Stable"

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members are subscribed to a topic."""
        return topic in self.targets.names

    def describe(self) -> ShareGroupDescription:
        """The group and its members, in the order of their ids."""
        recorded = self.recorded
        return ShareGroupDescription(
            state=self.state_name,
            epoch=recorded.epoch or 0,
            target_epoch=recorded.target_epoch or 0,
            assignor=simple_assignor.NAME,
            members=tuple((member, recorded.position(each)) for each, member in sorted(recorded.members.items())),
        )

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        version: int,
        transactional: bool = False,
        partitions: Collection[TopicPartition] = (),
    ) -> None:
        """:raise ApiError: GROUP_ID_NOT_FOUND: it has no committed offsets."""
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"the share group {self.group_id!r} has no committed offsets")

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """
        Refuse an OffsetFetch of a member; requests without one are accepted, and find no offsets.

        :raise ApiError: GROUP_ID_NOT_FOUND.
        """
        if epoch >= 0 or member_id:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"the group {self.group_id!r} is a share group")

    # Records.

    def apply(self, change: Change) -> None:
        """Apply a record that was read back."""
        super().apply(change)
        self.targets.forget()

    def undo(self) -> None:
        """Undo the changes of the last request, which could not be appended."""
        super().undo()
        self.targets.forget()

    # Heartbeats.

    def heartbeat(self, now: float, request: ShareHeartbeat) -> tuple[ShareHeartbeatResult, list[Change]]:
        """
        Let a member join, stay, or leave.

        :param request: a valid one: see :func:`.check_heartbeat`.
        :return: the response, to be sent when the changes are durable. The changes are in effect already: call
            :meth:`undo` if they cannot be appended.
        :raise ApiError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, GROUP_MAX_SIZE_REACHED. Nothing is changed then.
        """
        with self.changing() as changes:
            if request.epoch == LEFT:
                self.remove(now, [self._known(request.member_id).member_id])
                return ShareHeartbeatResult(request.member_id, LEFT), changes
            return self._stay(now, request), changes

    def _stay(self, now: float, request: ShareHeartbeat) -> ShareHeartbeatResult:
        settings, recorded, member_id = self.settings, self.recorded, request.member_id
        before = recorded.position(member_id)
        member = recorded.members.get(member_id)
        if request.epoch != JOINING:
            member = self._known(member_id)
            if request.epoch not in (before.epoch, before.previous_epoch):
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    f"the member {member_id} is in epoch {before.epoch}, not in {request.epoch}",
                )
        elif member is None and self.size >= settings.max_size:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"the group {self.group_id!r} has {settings.max_size} members: the most it may",
            )
        self._update(now, member, request.applied_to(member or ShareGroupMember(member_id)))
        after, target = before, self.targets.of(member_id)
        if before.epoch != (recorded.target_epoch or 0):
            after = SharePosition(recorded.target_epoch or 0, before.epoch, target)
        elif not is_subset(before.assigned, target):
            after = evolve(before, assigned=target)
        if after != before:
            recorded.set_position(member_id, after)
        self.renew_session(now, member_id)
        told = request.epoch != before.epoch or after.assigned != before.assigned or request.topics is not None
        return ShareHeartbeatResult(
            member_id, after.epoch, settings.heartbeat_interval_ms, after.assigned if told else None
        )

    def seconds_until_assignment(self, now: float) -> float:
        """For how long the assignment for the group epoch must still wait; 0: not at all, or it is made."""
        wait_ms = self.targets.ms_until_update(int(now * 1000), self.settings.assignment_interval_ms)
        # One more, since times are cut to milliseconds.
        return (wait_ms + 1) / 1000 if wait_ms else 0.0

    def _known(self, member_id: str) -> ShareGroupMember:
        member = self.recorded.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"the group {self.group_id!r} has no member {member_id!r}")
        return member

    def _update(self, now: float, before: ShareGroupMember | None, member: ShareGroupMember) -> None:
        """Set a member's subscription, and update the group's epoch, share partitions and targets."""
        if member != before:
            self._admit(member.memory - (0 if before is None else before.memory))
            self.recorded.set_member(member.member_id, member)
        if before is None or member.topics != before.topics:
            self.targets.subscriptions_changed()
        self.targets.check_partitions()
        self.targets.update(int(now * 1000), self.settings.assignment_interval_ms)

    def remove(self, now: float, member_ids: Sequence[str]) -> None:
        """Remove members: the group's epoch grows, and others get their partitions at their next heartbeats."""
        for member_id in member_ids:
            self.recorded.remove(member_id)
        self.targets.subscriptions_changed()

    # Share partitions.

    @property
    def to_initialize(self) -> Partitions:
        """The partitions whose states are to be made at the share coordinator, of topics that exist."""
        partitions = self.recorded.partitions
        return {
            topic_id: numbers
            for topic_id, numbers in partitions.initializing.items()
            if topic_id not in partitions.deleting and self.topics.name(topic_id) is not None
        }

    def initialized(self, partitions: Partitions, names: Mapping[TopicId, str]) -> list[Change]:
        """
        Note that states are there: from the next heartbeats on, these partitions are assigned.

        :return: the changes, as those of :meth:`heartbeat`.
        """
        with self.changing() as changes:
            self.recorded.set_partitions(self.recorded.partitions.made(partitions, names))
            return changes

    def begin_alteration(self, partitions: Partitions, names: Mapping[TopicId, str]) -> list[Change]:
        """
        Increase the group epoch, which is the state epoch of new start offsets, and note that these partitions have
        states.

        :return: the changes, as those of :meth:`heartbeat`.
        """
        recorded = self.recorded
        with self.changing() as changes:
            recorded.set_epoch((recorded.epoch or 0) + 1)
            new = difference(partitions, recorded.partitions.known)
            recorded.set_partitions(recorded.partitions.begun(new, {each: names[each] for each in new}))
            return changes

    def raise_epoch(self, epoch: int) -> list[Change]:
        """
        Increase the group epoch to a number, or by one, since there are states with higher state epochs.

        :return: the changes, as those of :meth:`heartbeat`.
        """
        with self.changing() as changes:
            self.recorded.set_epoch(max((self.recorded.epoch or 0) + 1, epoch))
            return changes

    def begin_deletion(self, topics: frozenset[TopicId]) -> list[Change]:
        """
        Note that the states of topics are to be deleted: their partitions are not assigned any more.

        :return: the changes, as those of :meth:`heartbeat`.
        """
        with self.changing() as changes:
            self.recorded.set_partitions(self.recorded.partitions.deletion_begun(topics))
            return changes

    def deleted(self, topics: frozenset[TopicId]) -> list[Change]:
        """
        Note that the states of topics are deleted.

        :return: the changes, as those of :meth:`heartbeat`.
        """
        with self.changing() as changes:
            self.recorded.set_partitions(self.recorded.partitions.without(topics))
            return changes
