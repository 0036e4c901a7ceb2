"""
A share group (KIP-932; Kafka: ShareGroup). Pure.

The *group epoch* grows when members, subscriptions or share partitions change. The *target assignment* is then
computed, and carries the group epoch. A member gets its target and that epoch with its next heartbeat. Deliveries and
acknowledgements do not depend on epochs: who has a record is known to the leader of its partition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from attrs import define, evolve, field, frozen

from logbus.coordination.classic.requests import admit_all
from logbus.coordination.consumer.consumer_group import Save
from logbus.coordination.consumer.member_deadlines import RETRY_S, MemberDeadlines
from logbus.coordination.consumer.partition_sets import Partitions, TopicId, difference, is_subset
from logbus.coordination.consumer.topics_view import TopicsView
from logbus.coordination.group import Change, GroupType
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
class ShareGroup:
    """
    One share group. Requests carry the time, in seconds; state changes are returned as records.

    :ivar topics: the topics of the cluster.
    :ivar recorded: the state in its records; :meth:`apply` restores it.
    """

    group_id: str
    _settings: Callable[[], ShareGroupSettings]
    topics: TopicsView
    _save: Save
    _admit: Callable[[int], None] = admit_all
    recorded: RecordedState = field(init=False)
    deadlines: MemberDeadlines = field(factory=MemberDeadlines, init=False)
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
    def memory(self) -> int:
        """About how many bytes its members take."""
        return sum(member.memory for member in self.recorded.members.values())

    @property
    def size(self) -> int:
        """The number of its members."""
        return len(self.recorded.members)

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.recorded.members

    @property
    def empty_since_ms(self) -> int | None:
        """None: it has no committed offsets that could expire."""
        return None

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

    def check_deletable(self) -> None:
        """:raise ApiError: NON_EMPTY_GROUP."""
        if not self.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"the group {self.group_id!r} has members")

    # Records.

    def apply(self, change: Change) -> None:
        """Apply a record that was read back."""
        self.recorded.apply(change)
        self.targets.forget()

    def tombstones(self) -> Sequence[Change]:
        """The records that delete it."""
        return self.recorded.tombstones()

    def undo(self) -> None:
        """Undo the changes of the last request, which could not be appended."""
        self.recorded.undo()
        self.targets.forget()

    def activate(self, now: float) -> None:
        """Start the members' sessions after a load."""
        for member_id in self.recorded.members:
            self._renew_session(now, member_id)

    @contextmanager
    def changing(self) -> Iterator[list[Change]]:
        """Collect the changes made within the block; an error undoes them."""
        self.recorded.begin()
        try:
            yield self.recorded.written()
        except BaseException:
            self.undo()
            raise

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
                self._remove([self._known(request.member_id).member_id])
                return ShareHeartbeatResult(request.member_id, LEFT), changes
            return self._stay(now, request), changes

    def _stay(self, now: float, request: ShareHeartbeat) -> ShareHeartbeatResult:
        settings, recorded, member_id = self._settings(), self.recorded, request.member_id
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
        self._renew_session(now, member_id)
        told = request.epoch != before.epoch or after.assigned != before.assigned or request.topics is not None
        return ShareHeartbeatResult(
            member_id, after.epoch, settings.heartbeat_interval_ms, after.assigned if told else None
        )

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
        self.targets.update(int(now * 1000), self._settings().assignment_interval_ms)

    def _remove(self, member_ids: Sequence[str]) -> None:
        """Remove members: the group's epoch grows, and others get their partitions at their next heartbeats."""
        for member_id in member_ids:
            self.recorded.remove(member_id)
        self.targets.subscriptions_changed()

    def _renew_session(self, now: float, member_id: str) -> None:
        self.deadlines.renew_session(member_id, now + self._settings().session_timeout_ms / 1000)

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

    # Time.

    @property
    def deadline(self) -> float | None:
        """The time at which to call :meth:`expire` next."""
        return self.deadlines.next

    def expire(self, now: float) -> None:
        """Remove members that missed a deadline."""
        late = self.deadlines.due(now, self.recorded.members)
        if late:
            self._expel(now, late)

    def _expel(self, now: float, late: Sequence[str]) -> None:
        with self.changing() as changes:
            self._remove(late)
        try:
            self._save(changes, lambda error: None)
        except ApiError:
            self.undo()
            for member_id in late:
                self.deadlines.renew_session(member_id, now + RETRY_S)
        else:
            self.deadlines.forget(late)

    def resign(self) -> None:
        """Nothing to do: no request waits in a share group."""
