"""
JoinGroup, SyncGroup, Heartbeat, LeaveGroup: requests of members that use the classic protocol.

JoinGroup and SyncGroup are answered when the whole group has reached that phase. Until then the connection serves no
other requests; the response to a closed connection is dropped.
"""

from __future__ import annotations

from typing import Self

from attrs import define
from twisted.internet.defer import Deferred

from logbus.coordination.classic.classic_group import ClassicGroup
from logbus.coordination.classic.requests import JoinRequest, JoinResult, LeavingMember, SyncRequest, SyncResult
from logbus.coordination.consumer.classic_protocol_adapter import ClassicProtocolAdapter
from logbus.coordination.consumer.consumer_group import ConsumerGroup
from logbus.coordination.group import Group
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.group_shard import GroupShard
from logbus.coordination.share.share_group import ShareGroup
from logbus.coordination.streams.streams_group import StreamsGroup
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import Answer, serves
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

KNOWN_MEMBER_VERSION = 4
SKIP_ASSIGNMENT_VERSION = 9
NULLABLE_PROTOCOL_VERSION = 7
NAMED_PROTOCOL_VERSION = 5
"""From this version on a SyncGroup names the protocol that its member goes by, and the type (KIP-559)."""

SEVERAL_LEAVE_VERSION = 3


@define(eq=False)
class ClassicGroupHandlers:
    """Serves the members of groups that use the classic protocol."""

    _coordinator: GroupCoordinator

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.group_coordinator)

    def _shard(self, group_id: str) -> GroupShard:
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        return self._coordinator.shard_of(group_id)

    def _classic(self, group_id: str, group: Group | None) -> ClassicGroup | ClassicProtocolAdapter:
        """
        A group, or the adapter of a consumer group, for members that use the classic protocol.

        :raise ApiError: UNKNOWN_MEMBER_ID: there is no group, or it is a share group or streams group.
        """
        if isinstance(group, ClassicGroup):
            return group
        if isinstance(group, ConsumerGroup):
            return ClassicProtocolAdapter(group)
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {group_id!r}")

    def _touched(self, shard: GroupShard, group_id: str) -> None:
        group = shard.groups.get(group_id)
        if group is not None:
            self._coordinator.manager.touched(shard, group)

    @serves(11, 0, 9)
    def join_group(self, context: RequestContext, request: Request) -> Answer:
        message: JoinGroupRequest = request.message
        version = request.api_version
        joining = JoinRequest(
            member_id=message.member_id,
            instance_id=message.group_instance_id,
            client_id=context.client_id or "",
            client_host=f"/{context.host}",
            session_timeout_ms=message.session_timeout_ms,
            # Version 0 has one timeout for both.
            rebalance_timeout_ms=message.rebalance_timeout_ms if version >= 1 else message.session_timeout_ms,
            protocol_type=message.protocol_type,
            protocols=tuple((protocol.name, protocol.metadata) for protocol in message.protocols),
            requires_known_member_id=version >= KNOWN_MEMBER_VERSION,
            supports_skip_assignment=version >= SKIP_ASSIGNMENT_VERSION,
            reason=message.reason,
        )
        answer: Deferred[JoinGroupResponse] = Deferred()
        try:
            shard = self._shard(message.group_id)
            if joining.member_id:
                group = shard.groups.get(message.group_id)
            else:
                group = self._coordinator.manager.classic_group(shard, message.group_id, context)
            if isinstance(group, (ShareGroup, StreamsGroup)):
                kind = group.group_type.value
                raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"a {kind} group is {message.group_id!r}")
            classic = self._classic(message.group_id, group)
        except ApiError as e:
            return joined(JoinResult(e.code, joining.member_id), version)
        classic.join(
            self._coordinator.clock.seconds(), joining, lambda result: answer.callback(joined(result, version))
        )
        self._touched(shard, message.group_id)
        return answer

    @serves(14, 0, 5)
    def sync_group(self, context: RequestContext, request: Request) -> Answer:
        message: SyncGroupRequest = request.message
        syncing = SyncRequest(
            message.member_id,
            message.group_instance_id,
            message.generation_id,
            message.protocol_type,
            message.protocol_name,
            {one.member_id: one.assignment for one in message.assignments},
        )
        answer: Deferred[SyncGroupResponse] = Deferred()
        if request.api_version >= NAMED_PROTOCOL_VERSION and None in (message.protocol_type, message.protocol_name):
            return synced(SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        try:
            shard = self._shard(message.group_id)
            classic = self._classic(message.group_id, shard.groups.get(message.group_id))
        except ApiError as e:
            return synced(SyncResult(e.code))
        classic.sync(self._coordinator.clock.seconds(), syncing, lambda result: answer.callback(synced(result)))
        self._touched(shard, message.group_id)
        return answer

    @serves(12, 0, 4)
    def heartbeat(self, context: RequestContext, request: Request) -> Answer:
        message: HeartbeatRequest = request.message
        try:
            shard = self._shard(message.group_id)
            classic = self._classic(message.group_id, shard.groups.get(message.group_id))
            code = classic.heartbeat(
                self._coordinator.clock.seconds(), message.member_id, message.group_instance_id, message.generation_id
            )
            self._touched(shard, message.group_id)
        except ApiError as e:
            # Members must not rejoin just because the group is being loaded.
            loading = e.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            code = ErrorCode.NONE if loading else e.code
        return HeartbeatResponse(error_code=code)

    @serves(13, 0, 5)
    def leave_group(self, context: RequestContext, request: Request) -> Answer:
        message: LeaveGroupRequest = request.message
        several = request.api_version >= SEVERAL_LEAVE_VERSION
        if several:
            leaving = [LeavingMember(one.member_id, one.group_instance_id, one.reason) for one in message.members]
        else:
            leaving = [LeavingMember(message.member_id, None, None)]
        try:
            shard = self._shard(message.group_id)
            group = shard.groups.get(message.group_id)
            if group is None or isinstance(group, (ShareGroup, StreamsGroup)):
                codes = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
            else:
                codes = self._classic(message.group_id, group).leave(self._coordinator.clock.seconds(), leaving)
                self._coordinator.manager.touched(shard, group)
        except ApiError as e:
            return LeaveGroupResponse(error_code=e.code)
        if not several:
            return LeaveGroupResponse(error_code=codes[0])
        return LeaveGroupResponse(
            members=[
                MemberResponse(member_id=one.member_id, group_instance_id=one.instance_id, error_code=code)
                for one, code in zip(leaving, codes, strict=True)
            ]
        )


def joined(result: JoinResult, version: int) -> JoinGroupResponse:
    """The response to a JoinGroup."""
    nothing = None if version >= NULLABLE_PROTOCOL_VERSION else ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=nothing if result.protocol is None else result.protocol,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in result.members
        ],
    )


def synced(result: SyncResult) -> SyncGroupResponse:
    """The response to a SyncGroup."""
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        assignment=result.assignment,
    )
