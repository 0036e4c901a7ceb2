"""States, actions and error reactions of a member of the classic protocol. Pure."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from logbus.errors import ErrorCode

NO_GENERATION = -1
"""The generation of a client that is not a member."""


class ClassicMemberState(Enum):
    """The state of a member (Kafka: AbstractCoordinator.MemberState)."""

    UNJOINED = "unjoined"
    PREPARING = "preparing"
    JOINING = "joining"
    SYNCING = "syncing"
    ASSIGNING = "assigning"
    STABLE = "stable"
    LEAVING = "leaving"


class AfterRevocation(Enum):
    """The next step after partitions were revoked; a later one in this list replaces an earlier one."""

    JOIN = 0
    PAUSE = 1
    STAY = 2
    LEAVE = 3
    FAIL = 4


@frozen
class SendJoinGroup:
    """
    Send JoinGroup.

    :ivar wait: with backoff, after an error.
    """

    wait: bool = False


@frozen
class SendSyncGroup:
    """Send SyncGroup; the leader includes all assignments."""


@frozen
class SendLeaveGroup:
    """Send LeaveGroup for a member id; its response does not matter."""

    member_id: str
    reason: str


class ErrorReaction(Enum):
    """A member's reaction to an error code."""

    WAIT = "ask again after a while"
    REJOIN = "join again"
    OUTDATED = "the generation is over: join again as the same member"
    UNKNOWN = "join again as a new member"
    FATAL = "end"


_CONSEQUENCES = {
    ErrorCode.REBALANCE_IN_PROGRESS: ErrorReaction.REJOIN,
    ErrorCode.ILLEGAL_GENERATION: ErrorReaction.OUTDATED,
    ErrorCode.UNKNOWN_MEMBER_ID: ErrorReaction.UNKNOWN,
    ErrorCode.MEMBER_ID_REQUIRED: ErrorReaction.WAIT,
}


def reaction_to(code: ErrorCode) -> ErrorReaction:
    """
    The reaction to an error of JoinGroup, SyncGroup or Heartbeat. MEMBER_ID_REQUIRED is handled elsewhere the first
    time.
    """
    return _CONSEQUENCES.get(code, ErrorReaction.WAIT if code.retriable else ErrorReaction.FATAL)
