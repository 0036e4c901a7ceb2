"""
The members of a classic group with their sessions, and their requests that wait for a response. Pure.
"""

from __future__ import annotations

from attrs import define, field

from logbus.coordination.classic.member_sessions import MemberSessions
from logbus.coordination.classic.members import ClassicGroupMember, ClassicGroupMembers
from logbus.coordination.classic.requests import JoinCallback, JoinResult, SyncCallback, SyncResult
from logbus.coordination.classic.response_queue import ResponseQueue
from logbus.errors import ErrorCode


@define(eq=False)
class GroupRoster:
    """
    Keeps members, their sessions and their waiting requests consistent.

    :ivar unsynced: members of the generation that have not sent SyncGroup yet (Kafka: pendingSyncMembers).
    """

    members: ClassicGroupMembers
    _responses: ResponseQueue
    sessions: MemberSessions = field(factory=MemberSessions, init=False)
    unsynced: set[str] = field(factory=set, init=False)

    def renew_session(self, now: float, member: ClassicGroupMember) -> None:
        """Renew a member's session."""
        self.sessions.renew(member.member_id, now + member.session_timeout_ms / 1000)

    def drop(self, member: ClassicGroupMember, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        """Remove a member, and answer its waiting requests with ``error``. The caller begins a rebalance if needed."""
        self._answer_waiting(member, error)
        self.members.remove(member)
        self.sessions.forget(member.member_id)
        self.unsynced.discard(member.member_id)

    def replace(self, now: float, former: ClassicGroupMember, member: ClassicGroupMember, error: ErrorCode) -> None:
        """Give a static member a new id; waiting requests of the former one are answered with ``error``."""
        self._answer_waiting(former, error)
        self.members.replace(former, member)
        self.sessions.forget(former.member_id)
        self.renew_session(now, member)
        if former.member_id in self.unsynced:
            self.unsynced.discard(former.member_id)
            self.unsynced.add(member.member_id)

    def forget_pending(self, member_id: str) -> None:
        """Drop a reserved member id that no client joined with."""
        self.members.pending.pop(member_id, None)
        self.sessions.forget(member_id)

    def clear(self, error: ErrorCode) -> None:
        """Drop all members and reserved ids."""
        for member in list(self.members):
            self.drop(member, error)
        self.members.pending.clear()
        self.sessions.clear()

    # Waiting requests.

    def await_join(self, member: ClassicGroupMember, reply: JoinCallback) -> None:
        """Let a JoinGroup wait for the next generation; an earlier waiting one of the member is answered."""
        former = self.members.await_join(member, reply)
        if former is not None:
            self._responses.join(former, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))

    def await_sync(self, member: ClassicGroupMember, reply: SyncCallback) -> None:
        """Let a SyncGroup wait for the assignment; an earlier waiting one of the member is answered."""
        former, member.sync_reply = member.sync_reply, reply
        if former is not None:
            self._responses.sync(former, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))

    def answer_join(self, now: float, member: ClassicGroupMember, result: JoinResult) -> None:
        """Answer a member's waiting JoinGroup, if any: it can send heartbeats from now on."""
        reply = self.members.take_join(member)
        if reply is not None:
            member.is_new = False
            self.renew_session(now, member)
            self._responses.join(reply, result)

    def answer_sync(self, now: float, member: ClassicGroupMember, result: SyncResult) -> None:
        """Answer a member's waiting SyncGroup, if any."""
        reply, member.sync_reply = member.sync_reply, None
        if reply is not None:
            # The member could not send heartbeats while it waited.
            self.renew_session(now, member)
            self._responses.sync(reply, result)

    def _answer_waiting(self, member: ClassicGroupMember, error: ErrorCode) -> None:
        join_reply = self.members.take_join(member)
        if join_reply is not None:
            self._responses.join(join_reply, JoinResult(error, member.member_id))
        sync_reply, member.sync_reply = member.sync_reply, None
        if sync_reply is not None:
            self._responses.sync(sync_reply, SyncResult(error))
