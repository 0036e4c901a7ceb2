"""
DescribeGroups, ListGroups, DeleteGroups: the administration of groups.
"""

from __future__ import annotations

from typing import Self

from attrs import define

from logbus.coordination.classic.classic_group import ClassicGroup
from logbus.coordination.group_cleanup import GroupCleanup
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.share_group_service import ShareGroupService
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import serves, task
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

# Bits by Kafka's numbers of operations (AclOperation), those that make sense for a group: read, delete, describe,
# and for its configurations describe and alter.
GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
#: The first version of DescribeGroups with GROUP_ID_NOT_FOUND; before, a missing group is described as "Dead".
GROUP_ID_NOT_FOUND_VERSION = 6
DEAD = "Dead"


@define(eq=False)
class GroupAdminHandlers:
    """Lists, describes and deletes groups."""

    _coordinator: GroupCoordinator
    _upkeep: GroupCleanup
    _shares: ShareGroupService

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.group_coordinator, broker.group_cleanup, broker.share_groups)

    @serves(15, 0, 6)
    @task
    async def describe_groups(self, context: RequestContext, request: Request) -> DescribeGroupsResponse:
        message: DescribeGroupsRequest = request.message
        time_slice = context.time_slice(request)
        groups = []
        # Each group is described once, since a request can repeat ids at little cost.
        for group_id in await time_slice.distinct(message.groups):
            try:
                described = self._described(group_id, request.api_version)
            except ApiError as e:
                described = DescribedGroup(
                    group_id=group_id,
                    error_code=e.code,
                    error_message=e.message,
                    group_state=DEAD if e.code is ErrorCode.GROUP_ID_NOT_FOUND else "",
                )
            if message.include_authorized_operations and not described.error_code:
                described.authorized_operations = GROUP_OPERATIONS
            groups.append(described)
            if time_slice.used(3 + len(described.members)):
                await time_slice.next()
        return DescribeGroupsResponse(groups=groups)

    def _described(self, group_id: str, version: int) -> DescribedGroup:
        group = self._coordinator.group(group_id)
        if not isinstance(group, ClassicGroup):
            if version >= GROUP_ID_NOT_FOUND_VERSION:
                other = "not classic" if group is not None else "not there"
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"the group {group_id!r} is {other}")
            return DescribedGroup(group_id=group_id, group_state=DEAD)
        description = group.describe()
        return DescribedGroup(
            group_id=group_id,
            group_state=description.state.value,
            protocol_type=description.protocol_type,
            protocol_data=description.protocol,
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata,
                    member_assignment=member.assignment,
                )
                for member in description.members
            ],
        )

    @serves(16, 0, 5)
    @task
    async def list_groups(self, context: RequestContext, request: Request) -> ListGroupsResponse:
        message: ListGroupsRequest = request.message
        known = context.time_slice(request).over(list(self._coordinator.groups()))
        states = {state.lower() for state in message.states_filter}
        types = {kind.lower() for kind in message.types_filter}
        return ListGroupsResponse(
            # During a load the groups known so far are listed all the same.
            error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._coordinator.loading else ErrorCode.NONE,
            groups=[
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state_name,
                    group_type=group.group_type.value,
                )
                async for group in known
                if (not states or group.state_name.lower() in states) and (not types or group.group_type.value in types)
            ],
        )

    @serves(42, 0, 2)
    @task
    async def delete_groups(self, context: RequestContext, request: Request) -> DeleteGroupsResponse:
        message: DeleteGroupsRequest = request.message
        results = []
        async for group_id in context.time_slice(request).over(dict.fromkeys(message.groups_names), 3):
            result = DeletableGroupResult(group_id=group_id)
            try:
                if not context.terms.validate_only:
                    await self._shares.delete_states(group_id)
                await self._upkeep.delete_group(group_id, validate_only=context.terms.validate_only)
            except ApiError as e:
                result.error_code = e.code
            results.append(result)
        return DeleteGroupsResponse(results=results)
