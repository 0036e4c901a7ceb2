"""
The rebalance of a classic group, with its time limits. Pure.

A rebalance has two phases. While it is *prepared*, members join: it goes on when all have joined, or after the longest
rebalance timeout. While it is *completed*, the leader assigns partitions, and the others wait for the assignment, which
takes effect once it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field

from logbus.coordination.classic.classic_group_state import ClassicGroupEvent, ClassicGroupState
from logbus.coordination.classic.group_metadata import GroupMetadata
from logbus.coordination.classic.group_roster import GroupRoster
from logbus.coordination.classic.requests import NO_GENERATION, ClassicGroupSettings, SyncResult
from logbus.coordination.classic.response_queue import ResponseQueue, Stored, response_error
from logbus.errors import ApiError, ErrorCode

REST_MS = 1000
"""Shortest delay before a rebalance that no member joined is tried again, whatever timeout members ask for."""


@define(eq=False)
class _InitialDelay:
    """
    The delay of an empty group's first rebalance (KIP-134; Kafka: InitialDelayedJoin): members of a new group start at
    about the same time.

    :ivar delay_ms: the present delay.
    :ivar extension_ms: by how much it may still be extended.
    :ivar has_new_members: whether members have joined in it.
    """

    delay_ms: int
    extension_ms: int
    has_new_members: bool = False

    def extend(self) -> bool:
        """Whether there may be more members to come; then :attr:`delay_ms` is the next delay."""
        if not (self.extension_ms and self.has_new_members):
            return False
        self.has_new_members = False
        former, self.delay_ms = self.delay_ms, min(self.delay_ms, self.extension_ms)
        self.extension_ms = max(self.extension_ms - former, 0)
        return True


@define(eq=False)
class Rebalance:
    """
    Moves a group from one generation to the next.

    :ivar clock: the time, in seconds; read when a record has been stored, since other inputs carry the time.
    """

    _metadata: GroupMetadata
    _roster: GroupRoster
    _responses: ResponseQueue
    _settings: Callable[[], ClassicGroupSettings]
    _clock: Callable[[], float]
    _initial_delay: _InitialDelay | None = field(default=None, init=False)
    _join_deadline: float | None = field(default=None, init=False)
    _sync_deadline: float | None = field(default=None, init=False)
    _storing: int = field(default=NO_GENERATION, init=False)

    def members_changed(self, now: float) -> None:
        """React to a change of members: begin a rebalance, or complete it if all have joined."""
        if self._metadata.state is ClassicGroupState.PREPARING_REBALANCE:
            self.complete_if_all_joined(now)
        else:
            self.prepare(now)

    # The first phase: members join.

    def prepare(self, now: float) -> None:
        """Begin a rebalance: heartbeats tell members to join again."""
        group = self._metadata
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            self._answer_syncs(now, ErrorCode.REBALANCE_IN_PROGRESS)
        self._roster.unsynced.clear()
        is_first = group.state is ClassicGroupState.EMPTY
        group.move(ClassicGroupEvent.REBALANCE)
        delay_ms = self._settings().initial_rebalance_delay_ms if is_first else 0
        if delay_ms > 0:
            self._initial_delay = _InitialDelay(delay_ms, max(group.members.rebalance_timeout_ms - delay_ms, 0))
            self._join_deadline = now + delay_ms / 1000
        elif is_first or group.members.all_joined:
            self._complete(now)
        else:
            self._join_deadline = now + group.members.rebalance_timeout_ms / 1000

    def note_new_member(self) -> None:
        """Note a new member: it extends the delay of the first rebalance."""
        if self._initial_delay is not None:
            self._initial_delay.has_new_members = True

    def complete_if_all_joined(self, now: float) -> None:
        """Complete the join phase if all members have joined; a first rebalance waits for its delay in any case."""
        group = self._metadata
        if (
            group.state is ClassicGroupState.PREPARING_REBALANCE
            and self._initial_delay is None
            and group.members.all_joined
        ):
            self._complete(now)

    def _complete(self, now: float) -> None:
        """Begin the next generation, of members that joined and static members, which may return later."""
        self._join_deadline = self._initial_delay = None
        group, members = self._metadata, self._metadata.members
        for member in [one for one in members if one.join_reply is None and one.instance_id is None]:
            self._roster.drop(member)
        if len(members) and not members.elect():
            # Only static members, all absent: wait for one to join, or for their sessions to end.
            self._join_deadline = now + max(members.rebalance_timeout_ms, REST_MS) / 1000
            return
        self._storing = NO_GENERATION
        group.next_generation()
        if not len(members):
            # Stored, since the retention of its offsets starts now. If this fails, the log has the former generation,
            # whose members' sessions will expire: no harm.
            self.store(lambda error: None)
            return
        for member in members:
            self._roster.unsynced.add(member.member_id)
            if member.join_reply is not None:
                self._roster.answer_join(now, member, group.joined_result(member))
        self._sync_deadline = now + members.rebalance_timeout_ms / 1000

    # The second phase: the leader assigns.

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """Store the leader's assignment, then send it to the members."""
        group = self._metadata
        generation = group.generation
        if self._storing == generation:
            return  # A retry: the first assignment is being stored, and will be the response.
        self._storing = generation
        given = {member.member_id: assignments.get(member.member_id, b"") for member in group.members}

        def stored(error: ApiError | None) -> None:
            if group.state is ClassicGroupState.COMPLETING_REBALANCE and group.generation == generation:
                now = self._clock()
                if error is None:
                    self._take_effect(now, given)
                else:
                    self._answer_syncs(now, response_error(error))
                    self.prepare(now)
                self._responses.flush()

        self.store(stored, given)

    def _take_effect(self, now: float, given: Mapping[str, bytes]) -> None:
        self._metadata.move(ClassicGroupEvent.ASSIGNED)
        for member in self._metadata.members:
            member.assignment = given[member.member_id]
        self._answer_syncs(now, ErrorCode.NONE)

    def _answer_syncs(self, now: float, error: ErrorCode) -> None:
        for member in self._metadata.members:
            if error is ErrorCode.NONE:
                result = self._metadata.sync_result(member)
            else:
                member.assignment = b""
                result = SyncResult(error)
            self._roster.answer_sync(now, member, result)

    def store(self, stored: Stored, assignments: Mapping[str, bytes] | None = None) -> None:
        """Write the group's present record."""
        self._metadata.has_record = True
        self._responses.store(self._metadata.change(assignments), stored)

    # Time.

    @property
    def deadline(self) -> float | None:
        """The time at which :meth:`expire` is next to be called; may be early."""
        sync_deadline = self._sync_deadline if self._roster.unsynced else None
        times = [self._roster.sessions.first, self._join_deadline, sync_deadline]
        return min((time for time in times if time is not None), default=None)

    def expire(self, now: float) -> None:
        """End sessions and phases whose time is over."""
        self._expire_sessions(now)
        if self._join_deadline is not None and self._join_deadline <= now:
            self._expire_joining(now)
        if self._roster.unsynced and self._sync_deadline is not None and self._sync_deadline <= now:
            self._expire_syncing(now)

    def _expire_sessions(self, now: float) -> None:
        gone = False
        for member_id in self._roster.sessions.ended(now):
            member = self._metadata.members.get(member_id)
            if member is None:
                self._roster.forget_pending(member_id)
            elif member.is_waiting:
                self._roster.renew_session(now, member)
            else:
                self._roster.drop(member)
                gone = True
        if gone:
            self.members_changed(now)
        else:
            self.complete_if_all_joined(now)

    def _expire_joining(self, now: float) -> None:
        if self._initial_delay is not None and self._initial_delay.extend():
            self._join_deadline = now + self._initial_delay.delay_ms / 1000
        else:
            self._complete(now)

    def _expire_syncing(self, now: float) -> None:
        """Remove members that joined the generation and sent no SyncGroup in time."""
        for member_id in list(self._roster.unsynced):
            member = self._metadata.members.get(member_id)
            if member is not None:
                self._roster.drop(member)
        self.prepare(now)

    def resign(self) -> None:
        """Answer all waiting requests with NOT_COORDINATOR, and drop all members."""
        self._roster.clear(ErrorCode.NOT_COORDINATOR)
        self._join_deadline = self._initial_delay = None
        self._metadata.move(ClassicGroupEvent.RESIGNED)
