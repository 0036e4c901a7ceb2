"""
Serves members of a consumer group that still use the classic protocol (KIP-848, "Online migration").

The coordinator assigns their partitions, too; there is no leader. When a member has a reconciliation step to take, the
error of its heartbeat makes it join again: JoinGroup takes the step, and SyncGroup returns the assignment. The member's
generation is its member epoch.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, evolve

from logbus.coordination.classic.requests import (
    JoinCallback,
    JoinRequest,
    JoinResult,
    LeavingMember,
    SyncCallback,
    SyncRequest,
    SyncResult,
)
from logbus.coordination.classic.response_queue import response_error
from logbus.coordination.consumer import join_and_leave
from logbus.coordination.consumer.consumer_group import ConsumerGroup
from logbus.coordination.consumer.consumer_group_member import ClassicProtocols, ConsumerGroupMember, MemberState
from logbus.coordination.consumer.consumer_protocol import by_id, read_subscription, usable_version, write_assignment
from logbus.coordination.consumer.partition_sets import NO_PARTITIONS, difference, pairs
from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.wire.messages.consumer_protocol import PROTOCOL_TYPE


@define(eq=False)
class ClassicProtocolAdapter:
    """The classic protocol's view of a consumer group; the methods are those of a :class:`.ClassicGroup`."""

    group: ConsumerGroup

    def join(self, now: float, joining: JoinRequest, reply: JoinCallback) -> None:
        """JoinGroup: answered when the changes are durable."""
        try:
            self._join(now, joining, reply)
        except ApiError as e:
            reply(JoinResult(e.code, joining.member_id))

    def _join(self, now: float, joining: JoinRequest, reply: JoinCallback) -> None:
        group, recorded = self.group, self.group.recorded
        settings = group.settings
        if not settings.classic_min_session_ms <= joining.session_timeout_ms <= settings.classic_max_session_ms:
            raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)
        if group.is_empty:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        self._check_protocols(joining)
        try:
            subscription = read_subscription(joining.protocols[0][1])
        except DecodeError as e:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(e)) from None
        member_id = joining.member_id or group.new_member_id()
        if not joining.member_id and joining.instance_id is None and joining.requires_known_member_id:
            reply(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return
        with group.changing() as changes:
            if joining.instance_id is not None and joining.member_id:
                member = join_and_leave.find(recorded, member_id, joining.instance_id)
            else:
                member = join_and_leave.join(
                    recorded, member_id, joining.instance_id, classic=True, max_size=settings.max_size
                )
            wants = evolve(
                member,
                instance_id=joining.instance_id or member.instance_id,
                rack_id=subscription.rack_id or member.rack_id,
                client_id=joining.client_id,
                client_host=joining.client_host,
                topics=tuple(sorted(set(subscription.topics))),
                regex=None,
                rebalance_timeout_ms=joining.rebalance_timeout_ms,
                assignor=None,
                classic=ClassicProtocols(joining.session_timeout_ms, joining.protocols),
            )
            group.update(now, wants, member, settings.admit)
            # The member has revoked partitions that it does not name; eager clients revoke all before they join.
            position = group.advance(now, member_id, by_id(subscription.owned_partitions, group.topics))
        group.renew_session(now, member_id)
        group.await_step(now, member_id)
        joined = JoinResult(ErrorCode.NONE, member_id, position.epoch, PROTOCOL_TYPE, joining.protocols[0][0])
        group.save(
            changes, lambda error: reply(joined if error is None else JoinResult(response_error(error), member_id))
        )

    def _check_protocols(self, joining: JoinRequest) -> None:
        others = [
            {name for name, _ in member.classic.protocols}
            for member in self.group.recorded.members.values()
            if member.classic is not None and member.member_id != joining.member_id
        ]
        common = {name for name, _ in joining.protocols}.intersection(*others)
        if joining.protocol_type != PROTOCOL_TYPE or not common:
            raise ApiError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the group {self.group.group_id!r} is one of consumers, and its members have no protocol in common",
            )

    def sync(self, now: float, syncing: SyncRequest, reply: SyncCallback) -> None:
        """SyncGroup: answered at once."""
        try:
            member = self._find(syncing.member_id, syncing.instance_id, syncing.generation)
            protocols = self._protocols(member)
            if syncing.protocol_type not in (None, PROTOCOL_TYPE) or syncing.protocol not in (None, protocols[0][0]):
                raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            position = self.group.recorded.position(member.member_id)
            # A member that must revoke partitions has to learn that first; then it joins again by itself.
            behind = position.epoch < self.group.reachable_epoch(now)
            if behind and position.state is not MemberState.UNREVOKED_PARTITIONS:
                raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
            assignment = write_assignment(position.assigned, self.group.topics, usable_version(protocols[0][1]))
        except ApiError as e:
            reply(SyncResult(e.code))
            return
        self.group.deadlines.step_done(member.member_id)
        self.group.renew_session(now, member.member_id)
        reply(SyncResult(ErrorCode.NONE, syncing.protocol_type, syncing.protocol, assignment))

    def heartbeat(self, now: float, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Heartbeat: REBALANCE_IN_PROGRESS if the member must join again."""
        try:
            member = self._find(member_id, instance_id, generation)
        except ApiError as e:
            return e.code
        self.group.renew_session(now, member_id)
        if not self._has_to_join(now, member):
            return ErrorCode.NONE
        if not self.group.deadlines.awaits_step(member_id):
            self.group.await_step(now, member_id)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def _has_to_join(self, now: float, member: ConsumerGroupMember) -> bool:
        recorded = self.group.recorded
        position = recorded.position(member.member_id)
        if position.epoch < self.group.reachable_epoch(now) or position.state is MemberState.UNREVOKED_PARTITIONS:
            return True
        if position.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        missing = difference(recorded.targets.get(member.member_id, NO_PARTITIONS), position.assigned)
        return all(recorded.is_free(*partition) for partition in pairs(missing))

    def leave(self, now: float, leavings: Sequence[LeavingMember]) -> list[ErrorCode]:
        """
        LeaveGroup: an error code for each. It removes members of either protocol, by their ids or instance ids: an
        administrator's client removes all members by it.
        """
        group, recorded = self.group, self.group.recorded
        codes: list[ErrorCode] = []
        gone: list[str] = []
        for leaving in leavings:
            try:
                member_id = leaving.member_id
                if not member_id and leaving.instance_id is not None:
                    member_id = recorded.instances.get(leaving.instance_id, "")
                join_and_leave.find(recorded, member_id, leaving.instance_id)
                codes.append(ErrorCode.NONE if member_id not in gone else ErrorCode.UNKNOWN_MEMBER_ID)
                gone.append(member_id)
            except ApiError as e:
                codes.append(e.code)
        if not gone:
            return codes
        with group.changing() as changes:
            group.remove(now, list(dict.fromkeys(gone)))
        failed: list[ErrorCode] = []
        group.save(changes, lambda error: None if error is None else failed.append(response_error(error)))
        return [failed[0] if failed and code is ErrorCode.NONE else code for code in codes]

    def _find(self, member_id: str, instance_id: str | None, generation: int) -> ConsumerGroupMember:
        """
        A member of the classic protocol.

        :raise ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
        """
        member = join_and_leave.find(self.group.recorded, member_id, instance_id)
        self._protocols(member)
        epoch = self.group.recorded.position(member.member_id).epoch
        if epoch != generation:
            raise ApiError(
                ErrorCode.ILLEGAL_GENERATION, f"the member {member_id} is in epoch {epoch}, not in {generation}"
            )
        return member

    def _protocols(self, member: ConsumerGroupMember) -> tuple[tuple[str, bytes], ...]:
        if member.classic is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"the member {member.member_id} speaks the consumer protocol")
        return member.classic.protocols
