"""
Consumer groups: FindCoordinator (10), JoinGroup (11), Heartbeat (12), LeaveGroup (13), SyncGroup (14),
DescribeGroups (15), ListGroups (16), DeleteGroups (42).
"""

from __future__ import annotations

from logbus.wire.messages.metadata import OPERATIONS_UNKNOWN
from logbus.wire.schema import Bool, Bytes, Int8, Int16, Int32, String, field, message, struct


@message(10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """Find the coordinator of a group (type 0), transactional id (1) or share partition (2); from 4 on of several."""

    key: String = field("0-3", default="")
    key_type: Int8 = field("1+", default=0)
    coordinator_keys: list[String] = field("4+", factory=list)


@struct
class Coordinator:
    """A coordinator's address."""

    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@message(10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """The response to :class:`FindCoordinatorRequest`: one coordinator up to version 3, a list from 4."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = field("0-3", default=0)
    error_message: String | None = field("1-3", default=None, ignorable=True)
    node_id: Int32 = field("0-3", default=0)
    host: String = field("0-3", default="")
    port: Int32 = field("0-3", default=0)
    coordinators: list[Coordinator] = field("4+", factory=list)


@struct
class JoinGroupRequestProtocol:
    """An assignment strategy that a member supports, with its metadata for the leader."""

    name: String
    metadata: Bytes


@message(11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    """Join a group; ``member_id`` is empty the first time. Version 0 has a single timeout."""

    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = field("1+", default=-1, ignorable=True)
    member_id: String
    group_instance_id: String | None = field("5+", default=None)
    protocol_type: String
    protocols: list[JoinGroupRequestProtocol]
    reason: String | None = field("8+", default=None, ignorable=True)


@struct
class JoinGroupResponseMember:
    """A member, for the group's leader."""

    member_id: String
    group_instance_id: String | None = field("5+", default=None, ignorable=True)
    metadata: Bytes


@message(11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    """The response to :class:`JoinGroupRequest`; only the leader gets the members."""

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: String | None = field("7+", default=None, ignorable=True)
    protocol_name: String | None = field(default="", nullable="7+")
    leader: String = ""
    skip_assignment: Bool = field("9+", default=False)
    member_id: String = ""
    members: list[JoinGroupResponseMember] = field(factory=list)


@message(12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    """Keep a member's session alive."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field("3+", default=None)


@message(12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    """The response to :class:`HeartbeatRequest`."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = 0


@struct
class MemberIdentity:
    """A member that leaves."""

    member_id: String
    group_instance_id: String | None = None
    reason: String | None = field("5+", default=None, ignorable=True)


@message(13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """Take members out of a group: one up to version 2, several from 3."""

    group_id: String
    member_id: String = field("0-2", default="")
    members: list[MemberIdentity] = field("3+", factory=list)


@struct
class MemberResponse:
    """The result for one member that left."""

    member_id: String
    group_instance_id: String | None = None
    error_code: Int16 = 0


@message(13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    """The response to :class:`LeaveGroupRequest`."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = 0
    members: list[MemberResponse] = field("3+", factory=list)


@struct
class SyncGroupRequestAssignment:
    """One member's assignment, from the leader."""

    member_id: String
    assignment: Bytes


@message(14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    """Get a member's assignment; the leader sends the assignments of all."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field("3+", default=None)
    protocol_type: String | None = field("5+", default=None, ignorable=True)
    protocol_name: String | None = field("5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field(factory=list)


@message(14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    """The response to :class:`SyncGroupRequest`."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = 0
    protocol_type: String | None = field("5+", default=None, ignorable=True)
    protocol_name: String | None = field("5+", default=None, ignorable=True)
    assignment: Bytes = b""


@message(15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    """Describe groups."""

    groups: list[String]
    include_authorized_operations: Bool = field("3+", default=False)


@struct
class DescribedGroupMember:
    """A member of a group."""

    member_id: String
    group_instance_id: String | None = field("4+", default=None, ignorable=True)
    client_id: String
    client_host: String
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@struct
class DescribedGroup:
    """A group and its members; a missing group is ``Dead`` (and from version 6 an error)."""

    error_code: Int16 = 0
    error_message: String | None = field("6+", default=None, ignorable=True)
    group_id: String
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: list[DescribedGroupMember] = field(factory=list)
    authorized_operations: Int32 = field("3+", default=OPERATIONS_UNKNOWN, ignorable=True)


@message(15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    """The response to :class:`DescribeGroupsRequest`."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    groups: list[DescribedGroup]


@message(16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    """List the groups that this broker coordinates, of some states and types; none stand for all."""

    states_filter: list[String] = field("4+", factory=list)
    types_filter: list[String] = field("5+", factory=list)


@struct
class ListedGroup:
    """A group."""

    group_id: String
    protocol_type: String
    group_state: String = field("4+", default="", ignorable=True)
    group_type: String = field("5+", default="", ignorable=True)


@message(16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    """The response to :class:`ListGroupsRequest`."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = 0
    groups: list[ListedGroup]


@message(42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    """Delete groups without members."""

    groups_names: list[String]


@struct
class DeletableGroupResult:
    """The result for one group."""

    group_id: String
    error_code: Int16 = 0


@message(42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    """The response to :class:`DeleteGroupsRequest`."""

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult]
