"""
Requests and responses of the classic protocol, independent of their versions on the wire. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from logbus.coordination.classic.classic_group_state import ClassicGroupState
from logbus.errors import ErrorCode

MemberProtocol = tuple[str, bytes]
"""An assignment protocol that a member supports: its name, and the member's metadata for the leader."""

NO_GENERATION = -1


def admit_all(growth: int) -> None:
    """Accept any growth."""


@frozen
class ClassicGroupSettings:
    """
    The broker's settings for classic groups.

    :ivar initial_rebalance_delay_ms: how long the first rebalance of an empty group waits for more members.
    :ivar min_session_timeout_ms: shortest session timeout a member may ask for.
    :ivar max_session_timeout_ms: longest.
    :ivar max_size: maximum number of members.
    :ivar admit: counts bytes of memory that a group is about to take, or raises ApiError.
    """

    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 5000
    admit: Callable[[int], None] = admit_all


@frozen
class JoinRequest:
    """
    A JoinGroup request.

    :ivar member_id: empty the first time.
    :ivar instance_id: of a static member (KIP-345), else None.
    :ivar rebalance_timeout_ms: how long the member may take to rejoin; for JoinGroup 0 the session timeout.
    :ivar protocols: in the order the member prefers them.
    :ivar requires_known_member_id: a dynamic member without an id is given one and must join with it (KIP-394):
        JoinGroup 4 and later.
    :ivar supports_skip_assignment: a static leader may be told to skip the assignment (KIP-814): JoinGroup 9 and later.
    :ivar reason: the client's reason, as free text (KIP-800).
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    requires_known_member_id: bool = True
    supports_skip_assignment: bool = True
    reason: str | None = None


@frozen
class JoinResult:
    """
    A JoinGroup response.

    :ivar protocol_type: None when there is an error; as is ``protocol``.
    :ivar leader: its member id; empty when there is an error.
    :ivar skip_assignment: the leader must not assign: the present assignment stays in effect.
    :ivar members: member id, instance id and metadata of all, for the leader; empty for others.
    """

    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()


@frozen
class SyncRequest:
    """
    A SyncGroup request.

    :ivar protocol_type: the group's protocol type as the member knows it, None if not sent; likewise ``protocol``.
    :ivar assignments: by member id, from the leader; empty from others.
    """

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


@frozen
class SyncResult:
    """A SyncGroup response."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@frozen
class LeavingMember:
    """
    One member of a LeaveGroup request.

    :ivar member_id: empty when an operator removes a static member, whose instance id is given.
    """

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


JoinCallback = Callable[[JoinResult], None]
"""Receives the response to a JoinGroup, exactly once; must not raise."""

SyncCallback = Callable[[SyncResult], None]
"""Receives the response to a SyncGroup, exactly once; must not raise."""


@frozen
class ClassicMemberDescription:
    """
    A member, as DescribeGroups shows it.

    :ivar metadata: its metadata for the leader; like ``assignment``, empty unless the group is stable.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@frozen
class ClassicGroupDescription:
    """
    A classic group, as DescribeGroups shows it.

    :ivar protocol: the selected assignment protocol; empty unless the group is stable.
    """

    state: ClassicGroupState
    protocol_type: str
    protocol: str
    members: tuple[ClassicMemberDescription, ...]
