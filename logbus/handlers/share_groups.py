"""
ShareGroupHeartbeat, ShareGroupDescribe: share groups (KIP-932).
"""

from __future__ import annotations

from typing import Self

from attrs import define

from logbus.coordination.share.heartbeat import ShareHeartbeat, ShareHeartbeatResult
from logbus.coordination.share_group_service import ShareGroupService
from logbus.errors import ApiError
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.consumer_groups import heartbeat_assignment, with_names
from logbus.handlers.modern_groups import check_heartbeat_group, describe_all
from logbus.handlers.request_router import serves, task
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.share_groups import (
    DescribedShareGroup,
    DescribedShareMember,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


@define(eq=False)
class ShareGroupHandlers:
    """Serves members of share groups, and describes these groups."""

    _groups: ShareGroupService

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.share_groups)

    @serves(76, 1, 1)
    @task
    async def heartbeat(self, context: RequestContext, request: Request) -> ShareGroupHeartbeatResponse:
        message: ShareGroupHeartbeatRequest = request.message
        heartbeat = ShareHeartbeat(
            member_id=message.member_id,
            epoch=message.member_epoch,
            rack_id=message.rack_id,
            topics=None if message.subscribed_topic_names is None else tuple(message.subscribed_topic_names),
            client_id=context.client_id or "",
            client_host=f"/{context.host}",
        )
        try:
            check_heartbeat_group(message.group_id)
            return answered(await self._groups.heartbeat(message.group_id, heartbeat, context))
        except ApiError as e:
            return ShareGroupHeartbeatResponse(error_code=e.code, error_message=e.message)

    @serves(77, 1, 1)
    @task
    async def describe(self, context: RequestContext, request: Request) -> ShareGroupDescribeResponse:
        return ShareGroupDescribeResponse(
            groups=await describe_all(context, request, self._described, DescribedShareGroup)
        )

    def _described(self, group_id: str) -> DescribedShareGroup:
        description = self._groups.describe(group_id)
        return DescribedShareGroup(
            group_id=group_id,
            group_state=description.state,
            group_epoch=description.epoch,
            assignment_epoch=description.target_epoch,
            assignor_name=description.assignor,
            members=[
                DescribedShareMember(
                    member_id=member.member_id,
                    rack_id=member.rack_id,
                    member_epoch=position.epoch,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    subscribed_topic_names=list(member.topics),
                    assignment=with_names(position.assigned, self._groups.topic_name),
                )
                for member, position in description.members
            ],
        )


def answered(result: ShareHeartbeatResult) -> ShareGroupHeartbeatResponse:
    """The response to a heartbeat."""
    return ShareGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=None if result.assignment is None else heartbeat_assignment(result.assignment),
    )
