"""
The rebalance of a classic group: its state, members and generation. Pure.

A rebalance has two phases. While it is *prepared*, members join: it goes on when all have joined, or after the longest
rebalance timeout. While it is *completed*, the leader assigns partitions, and the others wait for the assignment, which
takes effect once it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field
from attrs.setters import frozen

from logbus.coordination.classic.classic_group_state import ClassicGroupEvent, ClassicGroupState, next_state
from logbus.coordination.classic.member_sessions import MemberSessions
from logbus.coordination.classic.members import ClassicGroupMember, ClassicGroupMembers
from logbus.coordination.classic.requests import (
    NO_GENERATION,
    ClassicGroupSettings,
    JoinCallback,
    JoinResult,
    SyncCallback,
    SyncResult,
)
from logbus.coordination.classic.response_queue import ResponseQueue, Stored, response_error
from logbus.coordination.classic.subscriptions import SubscribedTopics, subscribed_topics
from logbus.coordination.group import Change
from logbus.errors import ApiError, ErrorCode
from logbus.wire.messages.group_log import GroupMetadataKey, GroupMetadataValue

NO_TIMESTAMP = -1
LAST_GENERATION = 2**31 - 1
REST_MS = 1000
"""Shortest delay before a rebalance that no member joined is tried again, whatever timeout members ask for."""


@define(eq=False)
class Rebalance:
    """
    State, members and generation of one group.

    :ivar responses: responses and record writes that run at the end of an input.
    :ivar now_ms: the time of day, in ms since 1970.
    :ivar clock: the time, in seconds; read when a record has been stored, since other inputs carry the time.
    :ivar state_since_ms: when the group entered its state; −1 if unknown.
    :ivar has_record: whether the log may have a record of it.
    :ivar unsynced: members of the generation that have not sent SyncGroup yet.
    """

    group_id: str = field(on_setattr=frozen)
    settings: Callable[[], ClassicGroupSettings]
    responses: ResponseQueue
    now_ms: Callable[[], int]
    clock: Callable[[], float]
    state: ClassicGroupState = ClassicGroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    members: ClassicGroupMembers = field(factory=ClassicGroupMembers)
    sessions: MemberSessions = field(factory=MemberSessions)
    state_since_ms: int = NO_TIMESTAMP
    has_record: bool = False
    topics: SubscribedTopics = None
    unsynced: set[str] = field(factory=set)
    # Milliseconds by which the first rebalance of an empty group may still be delayed; None in any other.
    _extension_ms: int | None = None
    _delay_ms: int = 0
    _new_members: bool = False
    _storing: int = NO_GENERATION
    _join_deadline: float | None = None
    _sync_deadline: float | None = None

    # Answers.

    def flush(self) -> None:
        """Send the queued responses and record writes. Called at the end of each input."""
        self.responses.flush()

    def check_generation(self, generation: int) -> None:
        """
        Refuse a request of another generation.

        :raise ApiError: ILLEGAL_GENERATION.
        """
        if generation != self.generation:
            raise ApiError(
                ErrorCode.ILLEGAL_GENERATION,
                f"group {self.group_id!r} is at generation {self.generation}, the request at {generation}",
            )

    def joined_result(self, member: ClassicGroupMember, skip_assignment: bool = False) -> JoinResult:
        """The JoinGroup response for a member of the current generation."""
        everybody: tuple[tuple[str, str | None, bytes], ...] = ()
        leads = member.member_id == self.members.leader
        if leads:
            everybody = tuple((one.member_id, one.instance_id, one.metadata(self.protocol)) for one in self.members)
        return JoinResult(
            ErrorCode.NONE,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.members.leader or "",
            skip_assignment and leads,
            everybody,
        )

    # Moves.

    def move(self, event: ClassicGroupEvent) -> None:
        """Go to the next state."""
        self.state = next_state(self.state, event)
        self.state_since_ms = self.now_ms()

    def members_changed(self, now: float) -> None:
        """React to a change of members: begin a rebalance, or complete it if all have joined."""
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            self.complete_if_all_joined(now)
        else:
            self.prepare(now)

    def prepare(self, now: float) -> None:
        """Begin a rebalance: heartbeats tell members to join again."""
        if self.state is ClassicGroupState.COMPLETING_REBALANCE:
            self._answer_syncs(now, ErrorCode.REBALANCE_IN_PROGRESS)
        self.unsynced.clear()
        self._sync_deadline = None
        is_first = self.state is ClassicGroupState.EMPTY
        self.move(ClassicGroupEvent.REBALANCE)
        if is_first:
            self._prepare_first(now)
        elif self.members.all_joined:
            self._complete(now)
        else:
            self._join_deadline = now + self.members.rebalance_timeout_ms / 1000

    def _prepare_first(self, now: float) -> None:
        """Delay the first rebalance, since members of a new group start at about the same time (KIP-134)."""
        delay_ms = self.settings().initial_rebalance_delay_ms
        if delay_ms <= 0:
            self._complete(now)
            return
        self._new_members = False
        self._delay_ms = delay_ms
        self._extension_ms = max(self.members.rebalance_timeout_ms - delay_ms, 0)
        self._join_deadline = now + delay_ms / 1000

    def note_new_member(self) -> None:
        """Note a new member: it extends the delay of the first rebalance."""
        self._new_members = True

    def complete_if_all_joined(self, now: float) -> None:
        """Complete the join phase if all members have joined; a first rebalance waits for its delay in any case."""
        if (
            self.state is ClassicGroupState.PREPARING_REBALANCE
            and self._extension_ms is None
            and self.members.all_joined
        ):
            self._complete(now)

    def _complete(self, now: float) -> None:
        """Begin the next generation, of members that joined and static members, which may return later."""
        self._join_deadline = self._extension_ms = None
        for member in [one for one in self.members if one.join_reply is None and one.instance_id is None]:
            self.drop(member)
        if len(self.members) and not self.members.elect():
            # Only static members, all absent: wait for one to join, or for their sessions to end.
            self._join_deadline = now + max(self.members.rebalance_timeout_ms, REST_MS) / 1000
            return
        self.generation = self.generation % LAST_GENERATION + 1
        self._storing = NO_GENERATION
        if not len(self.members):
            self._become_empty()
            return
        self.protocol = self.members.select_protocol()
        self.topics = subscribed_topics(self.protocol_type, self.protocol, self.members)
        self.move(ClassicGroupEvent.JOINED)
        for member in self.members:
            self.unsynced.add(member.member_id)
            reply = self.members.take_join(member)
            if reply is not None:
                member.is_new = False
                self.renew_session(now, member)
                self.responses.join(reply, self.joined_result(member))
        self._sync_deadline = now + self.members.rebalance_timeout_ms / 1000

    def _become_empty(self) -> None:
        """Make the group empty and store that, since the retention of its offsets starts now."""
        self.protocol = None
        self.topics = frozenset()
        self.move(ClassicGroupEvent.EMPTIED)
        # If this fails, the log has the former generation, whose members' sessions will expire: no harm.
        self.store(lambda error: None)

    # Assignments.

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """Store the leader's assignment, then send it to the members."""
        generation = self.generation
        if self._storing == generation:
            return  # A retry: the first assignment is being stored, and will be the response.
        self._storing = generation
        given = {member.member_id: assignments.get(member.member_id, b"") for member in self.members}

        def stored(error: ApiError | None) -> None:
            if self.state is ClassicGroupState.COMPLETING_REBALANCE and self.generation == generation:
                now = self.clock()
                if error is None:
                    self._take_effect(now, given)
                else:
                    self._answer_syncs(now, response_error(error))
                    self.prepare(now)
                self.flush()

        self.store(stored, given)

    def _take_effect(self, now: float, given: Mapping[str, bytes]) -> None:
        self.move(ClassicGroupEvent.ASSIGNED)
        for member in self.members:
            member.assignment = given[member.member_id]
        self._answer_syncs(now, ErrorCode.NONE)

    def _answer_syncs(self, now: float, error: ErrorCode) -> None:
        for member in self.members:
            if error is not ErrorCode.NONE:
                member.assignment = b""
            reply, member.sync_reply = member.sync_reply, None
            if reply is not None:
                # The member could not send heartbeats while it waited.
                self.renew_session(now, member)
                self.responses.sync(reply, self.sync_result(member) if error is ErrorCode.NONE else SyncResult(error))

    def sync_result(self, member: ClassicGroupMember) -> SyncResult:
        """The SyncGroup response for a member, with the assignment in effect."""
        return SyncResult(ErrorCode.NONE, self.protocol_type, self.protocol, member.assignment)

    def synced(self, member: ClassicGroupMember) -> None:
        """Note that a member has sent SyncGroup."""
        self.unsynced.discard(member.member_id)
        if not self.unsynced:
            self._sync_deadline = None

    # Records.

    def store(self, stored: Stored, assignments: Mapping[str, bytes] | None = None) -> None:
        """Write the group's present record."""
        self.has_record = True
        change = self.change(assignments)
        self.responses.store(change, stored)

    def change(self, assignments: Mapping[str, bytes] | None = None) -> Change:
        """
        The group's record.

        :param assignments: by member id, if different from those in effect.
        """
        members = [
            one.record(self.protocol, one.assignment if assignments is None else assignments[one.member_id])
            for one in self.members
        ]
        return GroupMetadataKey(group=self.group_id), GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol,
            leader=self.members.leader,
            current_state_timestamp=self.state_since_ms,
            members=members,
        )

    def load(self, now: float, value: GroupMetadataValue) -> None:
        """
        Restore a new group from its record.

        The record is validated, since any client or version may have written it.
        """
        self.has_record = True
        self.protocol_type = value.protocol_type
        self.generation = max(value.generation, 0)
        self.topics = frozenset()
        for one in value.members:
            member = ClassicGroupMember.read(one, value.protocol or "")
            if member.member_id not in self.members and self.members.instance(member.instance_id) is None:
                self.members.add(member)
                self.renew_session(now, member)
        if len(self.members):
            self.protocol = value.protocol or ""
            if value.leader in self.members:
                self.members.leader = value.leader
            self.topics = subscribed_topics(self.protocol_type, self.protocol, self.members)
            self.move(ClassicGroupEvent.LOADED)
        self.state_since_ms = value.current_state_timestamp
        if len(self.members) > self.settings().max_size:
            # The size limit was lowered: the members must rejoin, and the last ones are rejected.
            self.prepare(now)

    # Members that join and leave.

    def renew_session(self, now: float, member: ClassicGroupMember) -> None:
        """Renew a member's session."""
        self.sessions.renew(member.member_id, now + member.session_timeout_ms / 1000)

    def drop(self, member: ClassicGroupMember, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        """Remove a member, and answer its waiting requests with ``error``. The caller begins a rebalance if needed."""
        self.answer_waiting(member, error)
        self.members.remove(member)
        self.sessions.forget(member.member_id)
        self.synced(member)

    def replace(self, now: float, former: ClassicGroupMember, member: ClassicGroupMember, error: ErrorCode) -> None:
        """Give a static member a new id; waiting requests of the former one are answered with ``error``."""
        self.answer_waiting(former, error)
        self.members.replace(former, member)
        self.sessions.forget(former.member_id)
        self.renew_session(now, member)
        if former.member_id in self.unsynced:
            self.unsynced.discard(former.member_id)
            self.unsynced.add(member.member_id)

    def await_join(self, member: ClassicGroupMember, reply: JoinCallback) -> None:
        """Let a JoinGroup wait for the next generation; an earlier waiting one of the member is answered."""
        former = self.members.await_join(member, reply)
        if former is not None:
            self.responses.join(former, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))

    def await_sync(self, member: ClassicGroupMember, reply: SyncCallback) -> None:
        """Let a SyncGroup wait for the assignment; an earlier waiting one of the member is answered."""
        former, member.sync_reply = member.sync_reply, reply
        if former is not None:
            self.responses.sync(former, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))

    def answer_waiting(self, member: ClassicGroupMember, error: ErrorCode) -> None:
        """Answer a member's waiting requests with an error."""
        join_reply = self.members.take_join(member)
        if join_reply is not None:
            self.responses.join(join_reply, JoinResult(error, member.member_id))
        sync_reply, member.sync_reply = member.sync_reply, None
        if sync_reply is not None:
            self.responses.sync(sync_reply, SyncResult(error))

    def forget_pending(self, member_id: str) -> None:
        """Drop a reserved member id that no client joined with."""
        self.members.pending.pop(member_id, None)
        self.sessions.forget(member_id)

    # Time.

    @property
    def deadline(self) -> float | None:
        """When :meth:`expire` is next to be called; may be early."""
        times = [self.sessions.first, self._join_deadline, self._sync_deadline]
        return min((time for time in times if time is not None), default=None)

    def expire(self, now: float) -> None:
        """End sessions and phases whose time is over."""
        self._expire_sessions(now)
        if self._join_deadline is not None and self._join_deadline <= now:
            self._expire_joining(now)
        if self._sync_deadline is not None and self._sync_deadline <= now:
            self._expire_syncing(now)

    def _expire_sessions(self, now: float) -> None:
        gone = False
        for member_id in self.sessions.ended(now):
            member = self.members.get(member_id)
            if member is None:
                self.forget_pending(member_id)
            elif member.is_waiting:
                self.renew_session(now, member)
            else:
                self.drop(member)
                gone = True
        if gone:
            self.members_changed(now)
        else:
            self.complete_if_all_joined(now)

    def _expire_joining(self, now: float) -> None:
        if self._extension_ms and self._new_members:
            # Members joined within the delay: extend it, there may be more.
            self._new_members = False
            former, self._delay_ms = self._delay_ms, min(self._delay_ms, self._extension_ms)
            self._extension_ms = max(self._extension_ms - former, 0)
            self._join_deadline = now + self._delay_ms / 1000
        else:
            self._complete(now)

    def _expire_syncing(self, now: float) -> None:
        """Remove members that joined the generation and sent no SyncGroup in time."""
        for member_id in list(self.unsynced):
            member = self.members.get(member_id)
            if member is not None:
                self.drop(member)
        self.prepare(now)

    def resign(self) -> None:
        """Answer all waiting requests with NOT_COORDINATOR, and drop all members."""
        for member in list(self.members):
            self.drop(member, ErrorCode.NOT_COORDINATOR)
        self.members.pending.clear()
        self.sessions.clear()
        self._join_deadline = self._sync_deadline = self._extension_ms = None
        self.move(ClassicGroupEvent.RESIGNED)
