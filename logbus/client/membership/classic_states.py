"""
The words of :mod:`~logbus.client.membership.classic_state_machine`: where a member is, what it has done, what errors
mean.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from logbus.errors import ErrorCode

NO_GENERATION = -1
"""The generation of who is no member."""


class ClassicMemberState(Enum):
    """Where a member is."""

    UNJOINED = "unjoined"
    PREPARING = "preparing"
    JOINING = "joining"
    SYNCING = "syncing"
    ASSIGNING = "assigning"
    STABLE = "stable"
    LEAVING = "leaving"


class AfterRevocation(Enum):
    """What comes after the listener gave something up; a later one takes the place of an earlier one."""

    JOIN = 0
    PAUSE = 1
    STAY = 2
    LEAVE = 3
    FAIL = 4


@frozen
class SendJoinGroup:
    """
    Send JoinGroup.

    :ivar wait: a while before; something was wrong.
    """

    wait: bool = False


@frozen
class SendSyncGroup:
    """Send SyncGroup; the leader with everybody's assignment."""


@frozen
class SendLeaveGroup:
    """Send LeaveGroup for a member id; whatever is answered."""

    member_id: str
    reason: str


class ErrorReaction(Enum):
    """What an error means for a member."""

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
    """What an error in an answer to JoinGroup, SyncGroup or Heartbeat means; MEMBER_ID_REQUIRED is none at first."""
    return _CONSEQUENCES.get(code, ErrorReaction.WAIT if code.retriable else ErrorReaction.FATAL)
