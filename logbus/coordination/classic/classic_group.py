"""
A group of the classic protocol (Kafka: ClassicGroup): JoinGroup, SyncGroup, Heartbeat and LeaveGroup. Pure.

Supports KIP-345 (static members), KIP-394 (a member joins with the id it was given) and KIP-814 (a returning static
leader need not assign).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from logbus.coordination.classic.classic_group_state import ClassicGroupState
from logbus.coordination.classic.group_join import GroupJoin
from logbus.coordination.classic.group_metadata import NO_TIMESTAMP, GroupMetadata
from logbus.coordination.classic.group_roster import GroupRoster
from logbus.coordination.classic.members import ClassicGroupMember
from logbus.coordination.classic.rebalance import Rebalance
from logbus.coordination.classic.requests import (
    ClassicGroupDescription,
    ClassicGroupSettings,
    ClassicMemberDescription,
    JoinCallback,
    JoinRequest,
    JoinResult,
    LeavingMember,
    SyncCallback,
    SyncRequest,
    SyncResult,
)
from logbus.coordination.classic.response_queue import ResponseQueue, Save
from logbus.coordination.group import Change, GroupType
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.wire.messages.group_log import GroupMetadataKey, GroupMetadataValue

__all__ = [
    "ClassicGroup",
    "ClassicGroupDescription",
    "ClassicMemberDescription",
    "ClassicGroupSettings",
    "ClassicGroupState",
    "JoinResult",
    "JoinRequest",
    "LeavingMember",
    "SyncResult",
    "SyncRequest",
]


class ClassicGroup:
    """
    One classic group. Inputs carry the time (in seconds of ``clock``); responses go to callbacks, each called exactly
    once, during the input that causes it.

    :param settings: the broker's present settings.
    :param save: writes the group's record; calls its second argument exactly once, possibly within the call: with None
        when the record is durable, else with the error.
    :param new_member_id: makes a unique member id that begins with a given prefix.
    :param now_ms: the time of day, in ms since 1970.
    :param clock: the same clock as the inputs' times; read when a record has been stored.
    """

    group_type = GroupType.CLASSIC

    def __init__(
        self,
        group_id: str,
        settings: Callable[[], ClassicGroupSettings],
        save: Save,
        new_member_id: Callable[[str], str],
        now_ms: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._metadata = GroupMetadata(group_id, now_ms)
        self._members = self._metadata.members
        self._responses = ResponseQueue(save)
        self._roster = GroupRoster(self._members, self._responses)
        self._rebalance = Rebalance(self._metadata, self._roster, self._responses, settings, clock)
        self._join = GroupJoin(
            self._metadata, self._roster, self._rebalance, self._responses, settings, new_member_id, clock
        )

    def load(self, now: float, value: GroupMetadataValue) -> None:
        """Restore a new group from its record; the members' sessions start anew."""
        self._metadata.load(value)
        for member in self._members:
            self._roster.renew_session(now, member)
        if len(self._members) > self._settings().max_size:
            # The size limit was lowered: the members must rejoin, and the last ones are rejected.
            self._rebalance.prepare(now)

    # Queries.

    @property
    def group_id(self) -> str:
        """Its name."""
        return self._metadata.group_id

    @property
    def state(self) -> ClassicGroupState:
        """Its state."""
        return self._metadata.state

    @property
    def state_name(self) -> str:
        """Its state, as DescribeGroups names it."""
        return self.state.value

    @property
    def protocol_type(self) -> str:
        """``consumer`` for consumers, ``connect`` for workers; empty if it never had members."""
        return self._metadata.protocol_type

    @property
    def generation(self) -> int:
        """The number of its generation; 0 if it never had members."""
        return self._metadata.generation

    @property
    def size(self) -> int:
        """The number of its members."""
        return len(self._members)

    @property
    def memory(self) -> int:
        """About how many bytes its members take."""
        return self._members.memory

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return self.state is ClassicGroupState.EMPTY

    @property
    def empty_since_ms(self) -> int | None:
        """
        The time at which its last member left, in ms since 1970; None while it has members, and if it never had any.
        """
        since = self._metadata.state_since_ms
        return since if self.is_empty and since != NO_TIMESTAMP else None

    @property
    def is_dead(self) -> bool:
        """Whether the object may be dropped: the group was given up, or has no members, record or reserved ids."""
        never_was = self.is_empty and not self._metadata.has_record and not self._members.pending
        return never_was or self.state is ClassicGroupState.DEAD

    @property
    def members(self) -> Sequence[ClassicGroupMember]:
        """Its members in the order they joined; for a migration to the consumer protocol."""
        return list(self._members)

    def rebalance(self, now: float) -> None:
        """Make all members join again, after a migration from the consumer protocol."""
        self._rebalance.members_changed(now)
        self._responses.flush()

    @property
    def expires(self) -> bool:
        """True."""
        return True

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members may be reading a topic; True if their subscription cannot be decoded."""
        if self.state in (ClassicGroupState.EMPTY, ClassicGroupState.DEAD):
            return False
        topics = self._metadata.topics
        return topics is None or self.state is ClassicGroupState.PREPARING_REBALANCE or topic in topics

    def describe(self) -> ClassicGroupDescription:
        """
        For DescribeGroups. Protocol and metadata are shown only while the group is stable; assignments also during a
        rebalance, where they are the ones before, so that tools can tell who reads what.
        """
        stable = self.state is ClassicGroupState.STABLE
        protocol = (self._metadata.protocol or "") if stable else ""
        return ClassicGroupDescription(
            self.state,
            self._metadata.protocol_type,
            protocol,
            tuple(
                ClassicMemberDescription(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.metadata(protocol) if stable else b"",
                    member.assignment,
                )
                for member in self._members
            ),
        )

    def change(self) -> Change:
        """Its record."""
        return self._metadata.change()

    def tombstones(self) -> Sequence[Change]:
        """The tombstone of its record, if it may have one."""
        return [(GroupMetadataKey(group=self.group_id), None)] if self._metadata.has_record else []

    # Checks for others.

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
        Refuse a commit that does not come from a member of the current generation.

        A client without group management commits with generation −1. It may do so while the group is empty, and in a
        transaction always: producers before KIP-447 do not send the member.

        :raise ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS,
            COORDINATOR_NOT_AVAILABLE.
        """
        if self.state is ClassicGroupState.DEAD:
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
        self._metadata.check_generation(epoch)
        if self.state is ClassicGroupState.COMPLETING_REBALANCE and not transactional:
            # The member has the new generation but no assignment yet, so the offsets belong to the generation before.
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """
        Anybody may fetch the offsets of a classic group; member and epoch are for consumer groups.

        :raise ApiError: GROUP_ID_NOT_FOUND.
        """
        if self.state is ClassicGroupState.DEAD:
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

    def join(self, now: float, joining: JoinRequest, reply: JoinCallback) -> None:
        """
        Become a member, or remain one in the next generation.

        :param reply: receives NONE with the generation, or MEMBER_ID_REQUIRED with an id to join with, or
            INVALID_SESSION_TIMEOUT, GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID,
            FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS (the member asked again meanwhile), NOT_COORDINATOR,
            COORDINATOR_NOT_AVAILABLE.
        """
        self._join.join(now, joining, reply)
        self._responses.flush()

    # SyncGroup, Heartbeat, LeaveGroup.

    def sync(self, now: float, syncing: SyncRequest, reply: SyncCallback) -> None:
        """
        Deliver the leader's assignment, or get a member's own.

        :param reply: receives NONE with the assignment, or UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
            INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, or the
            error of storing the assignment.
        """
        try:
            member = self._check_sync(syncing)
        except ApiError as refusal:
            self._responses.sync(reply, SyncResult(refusal.code))
        else:
            self._roster.renew_session(now, member)
            self._roster.unsynced.discard(member.member_id)
            if self.state is ClassicGroupState.STABLE:
                self._responses.sync(reply, self._metadata.sync_result(member))
            else:
                self._roster.await_sync(member, reply)
                if member.member_id == self._members.leader:
                    self._rebalance.assign(syncing.assignments)
        self._responses.flush()

    def _check_sync(self, syncing: SyncRequest) -> ClassicGroupMember:
        if self.state is ClassicGroupState.DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        member = self._members.known(syncing.member_id, syncing.instance_id)
        self._metadata.check_generation(syncing.generation)
        if (
            syncing.protocol_type not in (None, self.protocol_type)
            or syncing.protocol not in (None, self._metadata.protocol)
        ):  # fmt: skip
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        return member

    def heartbeat(self, now: float, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """
        Renew a member's session.

        :return: NONE, or REBALANCE_IN_PROGRESS: the member must rejoin; or UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
            ILLEGAL_GENERATION, COORDINATOR_NOT_AVAILABLE.
        """
        if self.state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            member = self._members.known(member_id, instance_id)
            self._metadata.check_generation(generation)
        except ApiError as refusal:
            return refusal.code
        self._roster.renew_session(now, member)
        preparing = self.state is ClassicGroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE

    def touch(self, now: float, member_id: str) -> None:
        """Renew the session of a member that committed."""
        member = self._members.get(member_id)
        if member is not None:
            self._roster.renew_session(now, member)

    def leave(self, now: float, leavings: Sequence[LeavingMember]) -> list[ErrorCode]:
        """
        Remove members that leave, or that an operator removes by their instance ids.

        :return: for each NONE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or COORDINATOR_NOT_AVAILABLE.
        """
        if self.state is ClassicGroupState.DEAD:
            return [ErrorCode.COORDINATOR_NOT_AVAILABLE for _ in leavings]
        size = len(self._members)
        errors = [self._leave(leaving) for leaving in leavings]
        if len(self._members) < size:
            self._rebalance.members_changed(now)
        else:
            self._rebalance.complete_if_all_joined(now)
        self._responses.flush()
        return errors

    def _leave(self, leaving: LeavingMember) -> ErrorCode:
        if leaving.member_id in self._members.pending:
            self._roster.forget_pending(leaving.member_id)
            return ErrorCode.NONE
        try:
            if not leaving.member_id:
                holder = self._members.instance(leaving.instance_id)
                member = holder or self._members.known("", leaving.instance_id)
            else:
                member = self._members.known(leaving.member_id, leaving.instance_id)
        except ApiError as refusal:
            return refusal.code
        self._roster.drop(member)
        return ErrorCode.NONE

    # Time, and resignation.

    @property
    def deadline(self) -> float | None:
        """The time at which :meth:`expire` is next to be called; may be early, never late."""
        return self._rebalance.deadline

    def expire(self, now: float) -> None:
        """End rebalances and sessions whose time is over."""
        self._rebalance.expire(now)
        self._responses.flush()

    def resign(self) -> None:
        """Answer all waiting members with NOT_COORDINATOR: the group moves to another broker, or is deleted."""
        self._rebalance.resign()
        self._responses.flush()
