"""
A classic group's state, and how one generation of its members follows another. Pure.

A rebalance has two phases. While it is *prepared*, members join: it goes on when all have, or when the slowest of them
has had its rebalance timeout. While it is *completed*, the leader assigns, and the others wait for its assignment; it
is in force once it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field
from attrs.setters import frozen

from logbus.coordination.answers import Answers, Stored, answer_to
from logbus.coordination.igroup import Change
from logbus.coordination.members import Member, Members
from logbus.coordination.requests import NO_GENERATION, GroupSettings, JoinReply, JoinResult, SyncReply, SyncResult
from logbus.coordination.sessions import Sessions
from logbus.coordination.states import Event, GroupState, moved
from logbus.coordination.subscriptions import Topics, subscribed_topics
from logbus.errors import ApiError, ErrorCode
from logbus.wire.messages.group_log import GroupMetadataKey, GroupMetadataValue

NO_TIMESTAMP = -1
LAST_GENERATION = 2**31 - 1
REST_MS = 1000
"""A rebalance to which nobody came is tried again after this time at least, whatever timeout members ask for."""


@define(eq=False)
class Rebalance:
    """
    State, members and generation of one group.

    :ivar answers: what is to happen last.
    :ivar now_ms: the time of day, in ms since 1970.
    :ivar clock: the time, in seconds; asked when a record was stored, as only then no one brings it.
    :ivar state_since_ms: when the group got into its state, −1 if it is not known.
    :ivar recorded: whether the log may have a record of it.
    :ivar unsynced: members that got the generation and have not asked for their assignment.
    """

    group_id: str = field(on_setattr=frozen)
    settings: Callable[[], GroupSettings]
    answers: Answers
    now_ms: Callable[[], int]
    clock: Callable[[], float]
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    members: Members = field(factory=Members)
    sessions: Sessions = field(factory=Sessions)
    state_since_ms: int = NO_TIMESTAMP
    recorded: bool = False
    topics: Topics = None
    unsynced: set[str] = field(factory=set)
    # Milliseconds by which the first rebalance of an empty group may still be put off; None in any other.
    _extension_ms: int | None = None
    _delay_ms: int = 0
    _newcomers: bool = False
    _storing: int = NO_GENERATION
    _join_deadline: float | None = None
    _sync_deadline: float | None = None

    # Answers.

    def flush(self) -> None:
        """Answer and store what is due. To be called at the end of each input."""
        self.answers.flush()

    def check_generation(self, generation: int) -> None:
        """
        Refuse who is not of this generation.

        :raise ApiError: ILLEGAL_GENERATION.
        """
        if generation != self.generation:
            raise ApiError(
                ErrorCode.ILLEGAL_GENERATION,
                f"group {self.group_id!r} is at generation {self.generation}, the request at {generation}",
            )

    def joined_result(self, member: Member, skip_assignment: bool = False) -> JoinResult:
        """The current generation, as one of its members is told."""
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

    def move(self, event: Event) -> None:
        """To the next state."""
        self.state = moved(self.state, event)
        self.state_since_ms = self.now_ms()

    def changed(self, now: float) -> None:
        """The members are not those of the generation any more: rebalance, or see whether the rebalance can go on."""
        if self.state is GroupState.PREPARING_REBALANCE:
            self.complete_if_all_joined(now)
        else:
            self.prepare(now)

    def prepare(self, now: float) -> None:
        """Begin a rebalance: members are to join again, and hear of it by their heartbeats."""
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._answer_syncs(now, ErrorCode.REBALANCE_IN_PROGRESS)
        self.unsynced.clear()
        self._sync_deadline = None
        is_first = self.state is GroupState.EMPTY
        self.move(Event.REBALANCE)
        if is_first:
            self._prepare_first(now)
        elif self.members.all_joined:
            self._complete(now)
        else:
            self._join_deadline = now + self.members.rebalance_timeout_ms / 1000

    def _prepare_first(self, now: float) -> None:
        """Members of a new group start together: a delay saves a rebalance for each (KIP-134)."""
        delay_ms = self.settings().initial_rebalance_delay_ms
        if delay_ms <= 0:
            self._complete(now)
            return
        self._newcomers = False
        self._delay_ms = delay_ms
        self._extension_ms = max(self.members.rebalance_timeout_ms - delay_ms, 0)
        self._join_deadline = now + delay_ms / 1000

    def came(self) -> None:
        """A new member: worth a longer delay, if this is the first rebalance."""
        self._newcomers = True

    def complete_if_all_joined(self, now: float) -> None:
        """Go on, unless there is somebody to wait for; the first rebalance waits for its time in any case."""
        if self.state is GroupState.PREPARING_REBALANCE and self._extension_ms is None and self.members.all_joined:
            self._complete(now)

    def _complete(self, now: float) -> None:
        """The next generation: those who joined, and static members, who may come back later."""
        self._join_deadline = self._extension_ms = None
        for member in [one for one in self.members if one.join_reply is None and one.instance_id is None]:
            self.drop(member)
        if len(self.members) and not self.members.elect():
            # Static members only, and all are away: their sessions end, or one of them comes.
            self._join_deadline = now + max(self.members.rebalance_timeout_ms, REST_MS) / 1000
            return
        self.generation = self.generation % LAST_GENERATION + 1
        self._storing = NO_GENERATION
        if not len(self.members):
            self._desert()
            return
        self.protocol = self.members.select_protocol()
        self.topics = subscribed_topics(self.protocol_type, self.protocol, self.members)
        self.move(Event.JOINED)
        for member in self.members:
            self.unsynced.add(member.member_id)
            reply = self.members.take_join(member)
            if reply is not None:
                member.is_new = False
                self.heard(now, member)
                self.answers.join(reply, self.joined_result(member))
        self._sync_deadline = now + self.members.rebalance_timeout_ms / 1000

    def _desert(self) -> None:
        """Nobody is left. That is stored, too: committed offsets age from now on."""
        self.protocol = None
        self.topics = frozenset()
        self.move(Event.DESERTED)
        # Should this fail, the log has the former generation, whose members will not be heard of: no harm.
        self.store(lambda error: None)

    # Assignments.

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """The leader's assignment: it is stored, then given to the members."""
        generation = self.generation
        if self._storing == generation:
            return  # The leader asks again; what it said first is under way and will be the answer.
        self._storing = generation
        given = {member.member_id: assignments.get(member.member_id, b"") for member in self.members}

        def stored(error: ApiError | None) -> None:
            if self.state is GroupState.COMPLETING_REBALANCE and self.generation == generation:
                now = self.clock()
                if error is None:
                    self._in_force(now, given)
                else:
                    self._answer_syncs(now, answer_to(error))
                    self.prepare(now)
                self.flush()

        self.store(stored, given)

    def _in_force(self, now: float, given: Mapping[str, bytes]) -> None:
        self.move(Event.ASSIGNED)
        for member in self.members:
            member.assignment = given[member.member_id]
        self._answer_syncs(now, ErrorCode.NONE)

    def _answer_syncs(self, now: float, error: ErrorCode) -> None:
        for member in self.members:
            if error is not ErrorCode.NONE:
                member.assignment = b""
            reply, member.sync_reply = member.sync_reply, None
            if reply is not None:
                # It could not send heartbeats while it waited.
                self.heard(now, member)
                self.answers.sync(reply, self.sync_result(member) if error is ErrorCode.NONE else SyncResult(error))

    def sync_result(self, member: Member) -> SyncResult:
        """The assignment in force, as one of the members is told."""
        return SyncResult(ErrorCode.NONE, self.protocol_type, self.protocol, member.assignment)

    def synced(self, member: Member) -> None:
        """A member has asked for its assignment."""
        self.unsynced.discard(member.member_id)
        if not self.unsynced:
            self._sync_deadline = None

    # Records.

    def store(self, stored: Stored, assignments: Mapping[str, bytes] | None = None) -> None:
        """Have the record of this moment written."""
        self.recorded = True
        change = self.change(assignments)
        self.answers.store(change, stored)

    def change(self, assignments: Mapping[str, bytes] | None = None) -> Change:
        """
        The group's record.

        :param assignments: by member id, if others than those in force.
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
        Be what a record says. Only of a group in which nothing has happened.

        Nothing in a record is trusted: it may have been written by anybody, years ago.
        """
        self.recorded = True
        self.protocol_type = value.protocol_type
        self.generation = max(value.generation, 0)
        self.topics = frozenset()
        for one in value.members:
            member = Member.read(one, value.protocol or "")
            if member.member_id not in self.members and self.members.instance(member.instance_id) is None:
                self.members.add(member)
                self.heard(now, member)
        if len(self.members):
            self.protocol = value.protocol or ""
            if value.leader in self.members:
                self.members.leader = value.leader
            self.topics = subscribed_topics(self.protocol_type, self.protocol, self.members)
            self.move(Event.LOADED)
        self.state_since_ms = value.current_state_timestamp
        if len(self.members) > self.settings().max_size:
            # The limit is lower than it was: rejoining sorts out who may stay.
            self.prepare(now)

    # Members that come and go.

    def heard(self, now: float, member: Member) -> None:
        """It is alive."""
        self.sessions.renew(member.member_id, now + member.session_timeout_ms / 1000)

    def drop(self, member: Member, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        """It is a member no longer; what it waits for is answered with ``error``. What follows is up to the caller."""
        self.leave_waiting(member, error)
        self.members.remove(member)
        self.sessions.forget(member.member_id)
        self.synced(member)

    def replace(self, now: float, former: Member, member: Member, error: ErrorCode) -> None:
        """A static member goes on under another id; what waits for the former one is answered with ``error``."""
        self.leave_waiting(former, error)
        self.members.replace(former, member)
        self.sessions.forget(former.member_id)
        self.heard(now, member)
        if former.member_id in self.unsynced:
            self.unsynced.discard(former.member_id)
            self.unsynced.add(member.member_id)

    def await_join(self, member: Member, reply: JoinReply) -> None:
        """It waits for the next generation; a request of its that still did so it must have given up."""
        former = self.members.await_join(member, reply)
        if former is not None:
            self.answers.join(former, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))

    def await_sync(self, member: Member, reply: SyncReply) -> None:
        """It waits for its assignment; a request of its that still did so it must have given up."""
        former, member.sync_reply = member.sync_reply, reply
        if former is not None:
            self.answers.sync(former, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))

    def leave_waiting(self, member: Member, error: ErrorCode) -> None:
        """Answer what it waits for with an error."""
        join_reply = self.members.take_join(member)
        if join_reply is not None:
            self.answers.join(join_reply, JoinResult(error, member.member_id))
        sync_reply, member.sync_reply = member.sync_reply, None
        if sync_reply is not None:
            self.answers.sync(sync_reply, SyncResult(error))

    def forget_pending(self, member_id: str) -> None:
        """The one that was given this id never came."""
        self.members.pending.pop(member_id, None)
        self.sessions.forget(member_id)

    # Time.

    @property
    def deadline(self) -> float | None:
        """When :meth:`expire` is next to be called; may be early."""
        times = [self.sessions.first, self._join_deadline, self._sync_deadline]
        return min((time for time in times if time is not None), default=None)

    def expire(self, now: float) -> None:
        """Do what time demands."""
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
                self.heard(now, member)
            else:
                self.drop(member)
                gone = True
        if gone:
            self.changed(now)
        else:
            self.complete_if_all_joined(now)

    def _expire_joining(self, now: float) -> None:
        if self._extension_ms and self._newcomers:
            # Others came within the delay: there may be more.
            self._newcomers = False
            former, self._delay_ms = self._delay_ms, min(self._delay_ms, self._extension_ms)
            self._extension_ms = max(self._extension_ms - former, 0)
            self._join_deadline = now + self._delay_ms / 1000
        else:
            self._complete(now)

    def _expire_syncing(self, now: float) -> None:
        """Who has the generation and does not ask for its assignment is not working."""
        for member_id in list(self.unsynced):
            member = self.members.get(member_id)
            if member is not None:
                self.drop(member)
        self.prepare(now)

    def resign(self) -> None:
        """Answer everybody with NOT_COORDINATOR and forget all."""
        for member in list(self.members):
            self.drop(member, ErrorCode.NOT_COORDINATOR)
        self.members.pending.clear()
        self.sessions.clear()
        self._join_deadline = self._sync_deadline = self._extension_ms = None
        self.move(Event.RESIGNED)
