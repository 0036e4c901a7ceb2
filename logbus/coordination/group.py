"""
A group of the classic protocol: what its members ask, and what they are told. Pure.

The semantics are those of Kafka's classic groups, with KIP-345 (static members), KIP-394 (members must come back with
the id they were given) and KIP-814 (a static leader that returns need not assign).

============================================ ==========================================================================
:mod:`~logbus.coordination.states`           the states and the legal moves between them
:mod:`~logbus.coordination.requests`         requests and answers, as values
:mod:`~logbus.coordination.members`          who belongs to the group, who leads, what they have in common
:mod:`~logbus.coordination.sessions`         when each must have been heard of
:mod:`~logbus.coordination.subscriptions`    what they read
:mod:`~logbus.coordination.rebalance`        how one generation follows another
:mod:`~logbus.coordination.admission`        who may join, and as whom
:mod:`~logbus.coordination.answers`          answers that wait until the group is in its new state
============================================ ==========================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from logbus.coordination.admission import Admission
from logbus.coordination.answers import Answers, Save
from logbus.coordination.igroup import Change, GroupType
from logbus.coordination.members import Member
from logbus.coordination.rebalance import NO_TIMESTAMP, Rebalance
from logbus.coordination.requests import (
    ClassicGroupDescription,
    ClassicMemberDescription,
    GroupSettings,
    Joining,
    JoinReply,
    JoinResult,
    Leaving,
    Syncing,
    SyncReply,
    SyncResult,
)
from logbus.coordination.states import GroupState
from logbus.errors import ApiError, ErrorCode
from logbus.wire.messages.group_log import GroupMetadataKey, GroupMetadataValue

__all__ = [
    "ClassicGroup",
    "ClassicGroupDescription",
    "ClassicMemberDescription",
    "GroupSettings",
    "GroupState",
    "JoinResult",
    "Joining",
    "Leaving",
    "SyncResult",
    "Syncing",
]


class ClassicGroup:
    """
    One group. Inputs come with the time (in seconds of ``clock``); answers go to callbacks, each called exactly once,
    during the input that causes it.

    :param settings: the broker's present settings.
    :param save: has the group's record written; its second argument is to be called exactly once, possibly within the
        call: with None when the record is durable, else with the error.
    :param new_member_id: makes a unique member id that begins with a given name.
    :param now_ms: the time of day, in ms since 1970.
    :param clock: the time that inputs come with; asked for when a record has been stored.
    """

    group_type = GroupType.CLASSIC

    def __init__(
        self,
        group_id: str,
        settings: Callable[[], GroupSettings],
        save: Save,
        new_member_id: Callable[[str], str],
        now_ms: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self._rebalance = Rebalance(group_id, settings, Answers(save), now_ms, clock)
        self._admission = Admission(self._rebalance, new_member_id)
        self._members = self._rebalance.members

    def load(self, now: float, value: GroupMetadataValue) -> None:
        """Be what a record says, before anything else happened; the sessions of the members start afresh."""
        self._rebalance.load(now, value)

    # What everybody may know.

    @property
    def group_id(self) -> str:
        """Its name."""
        return self._rebalance.group_id

    @property
    def state(self) -> GroupState:
        """Where it is."""
        return self._rebalance.state

    @property
    def state_name(self) -> str:
        """Its state, as DescribeGroups spells it."""
        return self.state.value

    @property
    def protocol_type(self) -> str:
        """``consumer`` for consumers, ``connect`` for workers; empty if it never had members."""
        return self._rebalance.protocol_type

    @property
    def generation(self) -> int:
        """The number of its generation; 0 if it never had members."""
        return self._rebalance.generation

    @property
    def size(self) -> int:
        """How many members it has."""
        return len(self._members)

    @property
    def memory(self) -> int:
        """About how many bytes it keeps of what its members told."""
        return self._members.memory

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return self.state is GroupState.EMPTY

    @property
    def empty_since_ms(self) -> int | None:
        """When its last member went, in ms since 1970; None while it has members, and when it never had any."""
        since = self._rebalance.state_since_ms
        return since if self.is_empty and since != NO_TIMESTAMP else None

    @property
    def is_dead(self) -> bool:
        """Whether it may be forgotten: it was given up, or nobody ever became a member, or is about to."""
        never_was = self.is_empty and not self._rebalance.recorded and not self._members.pending
        return never_was or self.state is GroupState.DEAD

    @property
    def members(self) -> Sequence[Member]:
        """Its members, in the order they came; for a migration to the consumer protocol."""
        return list(self._members)

    def rebalance(self, now: float) -> None:
        """Its members are to join again: it was a group of the consumer protocol until now."""
        self._rebalance.changed(now)
        self._rebalance.flush()

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members may be reading a topic: so it is if it cannot be known."""
        if self.state in (GroupState.EMPTY, GroupState.DEAD):
            return False
        topics = self._rebalance.topics
        return topics is None or self.state is GroupState.PREPARING_REBALANCE or topic in topics

    def describe(self) -> ClassicGroupDescription:
        """For DescribeGroups. What was agreed on is shown only while it is in force."""
        rebalance = self._rebalance
        stable = self.state is GroupState.STABLE
        protocol = (rebalance.protocol or "") if stable else ""
        return ClassicGroupDescription(
            self.state,
            rebalance.protocol_type,
            protocol,
            tuple(
                ClassicMemberDescription(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.metadata(protocol) if stable else b"",
                    member.assignment if stable else b"",
                )
                for member in self._members
            ),
        )

    def change(self) -> Change:
        """Its record."""
        return self._rebalance.change()

    def tombstones(self) -> Sequence[Change]:
        """The change that makes it forgotten; none if nothing was remembered."""
        return [(GroupMetadataKey(group=self.group_id), None)] if self._rebalance.recorded else []

    # Checks for others.

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, transactional: bool = False
    ) -> None:
        """
        Refuse a commit that does not come from a member of the current generation.

        Who uses no group management commits with generation −1, and may while nobody else does; in a transaction
        always, since a producer of old does not know for which member it commits (KIP-447).

        :raise ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS,
            COORDINATOR_NOT_AVAILABLE.
        """
        if self.state is GroupState.DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if epoch < 0 and self.is_empty:
            return
        if epoch < 0 and not member_id and instance_id is None:
            if transactional:
                return
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id!r} has members; only they may commit its offsets"
            )
        self._members.known(member_id, instance_id)
        self._rebalance.check_generation(epoch)
        if self.state is GroupState.COMPLETING_REBALANCE and not transactional:
            # It has the new generation, but not what it is to read: it cannot mean partitions of this one.
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """
        Anybody may fetch the offsets of a classic group; member and epoch are for consumer groups.

        :raise ApiError: GROUP_ID_NOT_FOUND.
        """
        if self.state is GroupState.DEAD:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {self.group_id!r} is dead")

    def check_deletable(self) -> None:
        """
        Refuse the deletion of a group in use.

        :raise ApiError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
        """
        self.check_fetch(None, 0)
        if not self.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"group {self.group_id!r} has {len(self._members)} members")

    # JoinGroup.

    def join(self, now: float, joining: Joining, reply: JoinReply) -> None:
        """
        Become a member, or remain one in the next generation.

        :param reply: hears NONE with the generation, or MEMBER_ID_REQUIRED with an id to come back with, or
            INVALID_SESSION_TIMEOUT, GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID,
            FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS (the member asked again meanwhile), NOT_COORDINATOR,
            COORDINATOR_NOT_AVAILABLE.
        """
        self._admission.join(now, joining, reply)
        self._rebalance.flush()

    # SyncGroup, Heartbeat, LeaveGroup.

    def sync(self, now: float, syncing: Syncing, reply: SyncReply) -> None:
        """
        Bring the assignment, or get one's own.

        :param reply: hears NONE with the assignment, or UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
            INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, or what
            kept the assignment from being stored.
        """
        rebalance = self._rebalance
        try:
            member = self._check_sync(syncing)
        except ApiError as refusal:
            rebalance.answers.sync(reply, SyncResult(refusal.code))
        else:
            rebalance.heard(now, member)
            rebalance.synced(member)
            if self.state is GroupState.STABLE:
                rebalance.answers.sync(reply, rebalance.sync_result(member))
            else:
                rebalance.await_sync(member, reply)
                if member.member_id == self._members.leader:
                    rebalance.assign(syncing.assignments)
        rebalance.flush()

    def _check_sync(self, syncing: Syncing) -> Member:
        if self.state is GroupState.DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        member = self._members.known(syncing.member_id, syncing.instance_id)
        self._rebalance.check_generation(syncing.generation)
        if (
            syncing.protocol_type not in (None, self.protocol_type)
            or syncing.protocol not in (None, self._rebalance.protocol)
        ):  # fmt: skip
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        return member

    def heartbeat(self, now: float, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """
        A member lives.

        :return: NONE, or REBALANCE_IN_PROGRESS: it is to join again; or UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
            ILLEGAL_GENERATION, COORDINATOR_NOT_AVAILABLE.
        """
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            member = self._members.known(member_id, instance_id)
            self._rebalance.check_generation(generation)
        except ApiError as refusal:
            return refusal.code
        self._rebalance.heard(now, member)
        preparing = self.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE

    def touch(self, now: float, member_id: str) -> None:
        """A member lives: it committed."""
        member = self._members.get(member_id)
        if member is not None:
            self._rebalance.heard(now, member)

    def leave(self, now: float, leavings: Sequence[Leaving]) -> list[ErrorCode]:
        """
        Members go, or are sent away by an operator who names their instance ids.

        :return: for each NONE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or COORDINATOR_NOT_AVAILABLE.
        """
        if self.state is GroupState.DEAD:
            return [ErrorCode.COORDINATOR_NOT_AVAILABLE for _ in leavings]
        size = len(self._members)
        errors = [self._leave(leaving) for leaving in leavings]
        if len(self._members) < size:
            self._rebalance.changed(now)
        else:
            self._rebalance.complete_if_all_joined(now)
        self._rebalance.flush()
        return errors

    def _leave(self, leaving: Leaving) -> ErrorCode:
        if leaving.member_id in self._members.pending:
            self._rebalance.forget_pending(leaving.member_id)
            return ErrorCode.NONE
        try:
            if not leaving.member_id:
                holder = self._members.instance(leaving.instance_id)
                member = holder or self._members.known("", leaving.instance_id)
            else:
                member = self._members.known(leaving.member_id, leaving.instance_id)
        except ApiError as refusal:
            return refusal.code
        self._rebalance.drop(member)
        return ErrorCode.NONE

    # Time, and the end.

    @property
    def deadline(self) -> float | None:
        """When :meth:`expire` is next to be called; may be early, never late."""
        return self._rebalance.deadline

    def expire(self, now: float) -> None:
        """End rebalances whose time is over, drop members that were not heard of."""
        self._rebalance.expire(now)
        self._rebalance.flush()

    def resign(self) -> None:
        """The group moves to another broker, or is deleted: answer everybody who waits with NOT_COORDINATOR."""
        self._rebalance.resign()
        self._rebalance.flush()
