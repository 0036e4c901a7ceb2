"""
A group of the consumer protocol (KIP-848; Kafka: ConsumerGroup). Pure.

It has three kinds of epochs. The *group epoch* grows when members, subscriptions or topics change. The *target
assignment* is then computed, and carries the group epoch that it was computed for. Each *member* moves towards its
target by its own heartbeats, and reaches an epoch when it has revoked the partitions that this requires. Commits carry
the member's epoch, so that those for partitions that it got later, or has no longer, are refused. See
:mod:`~logbus.coordination.consumer.reconciliation` and :mod:`~logbus.coordination.assignment_epochs`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from attrs import define, evolve, field, frozen

from logbus.coordination.assignment_epochs import check_commit_epoch
from logbus.coordination.consumer import join_and_leave
from logbus.coordination.consumer.consumer_group_member import (
    AWAY,
    JOINING,
    LEFT,
    ConsumerGroupMember,
    MemberPosition,
    MemberState,
)
from logbus.coordination.consumer.consumer_group_settings import ConsumerGroupSettings
from logbus.coordination.consumer.heartbeat import ConsumerHeartbeat, ConsumerHeartbeatResult, check_heartbeat
from logbus.coordination.consumer.partition_sets import NO_PARTITIONS, Partitions
from logbus.coordination.consumer.reconciliation import reconcile
from logbus.coordination.consumer.recorded_state import RecordedState
from logbus.coordination.consumer.target_assignment import TargetAssignment
from logbus.coordination.group import Change, GroupType
from logbus.coordination.modern_group import NO_MEMBER, ModernGroup
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.wire.messages.consumer_protocol import PROTOCOL_TYPE

OFFSET_COMMIT_WITH_EPOCH = 9
"""The first version of OffsetCommit that carries a member's epoch."""


@frozen
class ConsumerGroupDescription:
    """A group, as ConsumerGroupDescribe shows it: each member with its subscription, position and target."""

    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: tuple[tuple[ConsumerGroupMember, MemberPosition, Partitions], ...]


@define(eq=False)
class ConsumerGroup(ModernGroup[ConsumerGroupSettings, RecordedState]):
    """
    One group of the consumer protocol. Requests carry the time, in seconds; state changes are returned as records.

    :ivar new_member_id: makes a unique id for a member that has none.
    """

    new_member_id: Callable[[], str]
    targets: TargetAssignment = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.recorded = RecordedState(self.group_id)
        self.targets = TargetAssignment(self.recorded, self.topics)

    # The interface of any group.

    @property
    def group_type(self) -> GroupType:
        """CONSUMER."""
        return GroupType.CONSUMER

    @property
    def protocol_type(self) -> str:
        """Always ``consumer``."""
        return PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        """Empty, Assigning, Reconciling, Stable or Dead."""
        recorded = self.recorded
        if self.is_empty:
            return "Dead" if self.is_dead else "Empty"
        if self.targets.is_due:
            return "Assigning"
        positions = map(recorded.position, recorded.members)
        if all(p.epoch == recorded.target_epoch and p.state is MemberState.STABLE for p in positions):
            return "Stable"
        return "Reconciling"

    @property
    def has_only_classic_members(self) -> bool:
        """Whether all members use the classic protocol, so that the group could be downgraded."""
        members = self.recorded.members.values()
        return bool(members) and all(member.classic is not None for member in members)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members are subscribed to a topic, by name or by regular expression."""
        return topic in self.targets.names

    def describe(self) -> ConsumerGroupDescription:
        """The group and its members, in the order of their ids."""
        recorded = self.recorded
        return ConsumerGroupDescription(
            state=self.state_name,
            epoch=recorded.epoch or 0,
            target_epoch=recorded.target_epoch or 0,
            assignor=self.targets.assignor,
            members=tuple(
                (member, recorded.position(member_id), recorded.targets.get(member_id, NO_PARTITIONS))
                for member_id, member in sorted(recorded.members.items())
            ),
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
        """
        Refuse a commit that does not come from a member in its epoch, or in an earlier one in which it had got the
        partitions (KIP-1251). Other clients may commit to an empty group, and in a transaction always: producers need
        not send the member.

        :raise ApiError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH (ILLEGAL_GENERATION for classic members),
            UNSUPPORTED_VERSION.
        """
        if epoch < 0 and self.is_empty:
            return
        if transactional and (epoch, member_id, instance_id) == NO_MEMBER:
            return
        # As in Kafka, the member id alone counts: who takes over an instance id has another one.
        member = join_and_leave.find(self.recorded, member_id, None)
        if member.classic is None and version < OFFSET_COMMIT_WITH_EPOCH and not transactional:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"members of the consumer protocol commit with OffsetCommit {OFFSET_COMMIT_WITH_EPOCH} or later",
            )
        position, code = self.recorded.position(member_id), _wrong_epoch(member)

        def since(partition: TopicPartition) -> int | None:
            topic = self.topics.topic(partition.topic)
            return None if topic is None else position.since.get((topic.topic_id, partition.partition))

        check_commit_epoch(member_id, position.epoch, epoch, partitions, since, code)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """
        Refuse an OffsetFetch of a member that is not in its epoch; requests without a member id are accepted.

        :raise ApiError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH (ILLEGAL_GENERATION for classic members).
        """
        if epoch < 0 and member_id is None:
            return
        member = join_and_leave.find(self.recorded, member_id or "", None)
        current = self.recorded.position(member.member_id).epoch
        if epoch != current:
            raise ApiError(_wrong_epoch(member), f"the member {member.member_id} is in epoch {current}, not in {epoch}")

    # Records.

    def apply(self, change: Change) -> None:
        """Apply a record that was read back, or that a migration made."""
        super().apply(change)
        self.targets.forget()

    def undo(self) -> None:
        """Undo the changes of the last request, which could not be appended."""
        super().undo()
        self.targets.forget()

    def activate(self, now: float) -> None:
        """Start the members' session and revocation timeouts after a load."""
        for member_id in self.recorded.members:
            self.renew_session(now, member_id)
            if self.recorded.position(member_id).state is MemberState.UNREVOKED_PARTITIONS:
                self.await_step(now, member_id)

    # Heartbeats.

    def heartbeat(self, now: float, request: ConsumerHeartbeat) -> tuple[ConsumerHeartbeatResult, list[Change]]:
        """
        Let a member join, stay, or leave.

        :return: the response, to be sent when the changes are durable. The changes are in effect already: call
            :meth:`undo` if they cannot be appended.
        :raise ApiError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID,
            GROUP_MAX_SIZE_REACHED, INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION. Nothing is
            changed then.
        """
        check_heartbeat(request)
        with self.changing() as changes:
            if request.epoch in (LEFT, AWAY):
                member = join_and_leave.find(self.recorded, request.member_id, request.instance_id)
                if request.epoch == AWAY:
                    join_and_leave.leave_temporarily(self.recorded, member)
                    self.deadlines.step_done(member.member_id)
                else:
                    self.remove(now, [member.member_id])
                return ConsumerHeartbeatResult(request.member_id, request.epoch), changes
            return self._stay(now, request), changes

    def _stay(self, now: float, request: ConsumerHeartbeat) -> ConsumerHeartbeatResult:
        settings = self.settings
        if request.epoch == JOINING:
            request = request if request.member_id else evolve(request, member_id=self.new_member_id())
            member = join_and_leave.join(
                self.recorded, request.member_id, request.instance_id, classic=False, max_size=settings.max_size
            )
        else:
            member = join_and_leave.stay(self.recorded, request)
        before = self.recorded.position(request.member_id)
        self.update(now, request.applied_to(member), member, settings.admit, request.sees)
        after = self.advance(now, request.member_id, request.owned)
        self.renew_session(now, request.member_id)
        told = request.is_full or request.epoch != before.epoch or after.assigned != before.assigned
        return ConsumerHeartbeatResult(
            request.member_id, after.epoch, settings.heartbeat_interval_ms, after.assigned if told else None
        )

    # The parts of a request, for classic members too.

    def update(
        self,
        now: float,
        member: ConsumerGroupMember,
        before: ConsumerGroupMember,
        admit: Callable[[int], None],
        sees: Callable[[str], bool] | None = None,
    ) -> None:
        """
        Set a member's subscription, and update the group's epoch and targets.

        :param sees: whether the member may know of a topic; None: of all.
        :raise ApiError: from ``admit``.
        """
        known = self.recorded.members.get(member.member_id)
        is_new = known is None
        if is_new or member != before:
            admit(member.memory - (0 if known is None else known.memory))
            self.recorded.set_member(member.member_id, member)
        if is_new or (member.topics, member.regex) != (before.topics, before.regex):
            self.targets.subscriptions_changed(int(now * 1000), sees)
        self.targets.check_topics(int(now * 1000), sees)
        self.targets.update(int(now * 1000), self.settings.assignment_interval_ms)

    def reachable_epoch(self, now: float) -> int:
        """The group epoch, or while a new assignment has to wait that of the present one."""
        recorded = self.recorded
        waits = not self.targets.may_update(int(now * 1000), self.settings.assignment_interval_ms)
        return (recorded.target_epoch if waits else recorded.epoch) or 0

    def advance(self, now: float, member_id: str, owned: Partitions | None) -> MemberPosition:
        """Reconcile a member: move it towards its target as far as possible now."""
        recorded = self.recorded
        before = recorded.position(member_id)
        is_free = partial(recorded.is_free, member_id=member_id)
        after = reconcile(before, recorded.target_epoch or 0, self.targets.of(member_id), owned, is_free)
        if after != before:
            recorded.set_position(member_id, after)
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                self.await_step(now, member_id)
            else:
                self.deadlines.step_done(member_id)
        return after

    def remove(self, now: float, member_ids: Sequence[str]) -> None:
        """Remove members: their partitions become free, and the group's epoch grows."""
        for member_id in member_ids:
            self.recorded.remove(member_id)
        self.targets.subscriptions_changed(int(now * 1000))

    def renew_session(self, now: float, member_id: str) -> None:
        """Renew a member's session."""
        classic = self.recorded.members[member_id].classic
        timeout_ms = self.settings.session_timeout_ms if classic is None else classic.session_timeout_ms
        self.deadlines.renew_session(member_id, now + timeout_ms / 1000)

    def await_step(self, now: float, member_id: str) -> None:
        """Give a member its rebalance timeout to revoke partitions or to join again."""
        timeout_ms = self.recorded.members[member_id].rebalance_timeout_ms
        if timeout_ms < 0:
            timeout_ms = self.settings.session_timeout_ms
        self.deadlines.await_step(member_id, now + timeout_ms / 1000)


def _wrong_epoch(member: ConsumerGroupMember) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
