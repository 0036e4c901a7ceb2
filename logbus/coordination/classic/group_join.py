"""
Handles JoinGroup for a classic group: checks the request, then adds or updates the member. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, evolve

from logbus.coordination.classic.classic_group_state import ClassicGroupState
from logbus.coordination.classic.group_metadata import GroupMetadata
from logbus.coordination.classic.group_roster import GroupRoster
from logbus.coordination.classic.members import ClassicGroupMember, ClassicGroupMembers
from logbus.coordination.classic.rebalance import Rebalance
from logbus.coordination.classic.requests import ClassicGroupSettings, JoinCallback, JoinRequest, JoinResult
from logbus.coordination.classic.response_queue import ResponseQueue, response_error
from logbus.coordination.group import PENDING_BYTES
from logbus.errors import ApiError, ErrorCode

NEW_MEMBER_TIMEOUT_S = 300.0
"""Session timeout of a new member until its first JoinGroup is answered: it cannot send heartbeats before that."""

MAX_METADATA_BYTES = 64 * 1024 * 1024
"""Upper limit of the total size of the metadata that the members of one group send to their leader."""

MAX_TEXT_BYTES = 0x7FFF
"""Length limit, in bytes, of a string in a group's record."""

MAX_PROTOCOLS = 1000
"""Upper bound of the protocols that a member names: each is looked at in the turn in which it joins."""


@define(eq=False)
class GroupJoin:
    """
    Handles the JoinGroup requests of one group.

    :ivar new_member_id: makes a unique member id that begins with a given prefix.
    :ivar clock: the time, in seconds; read when a record has been stored.
    """

    _metadata: GroupMetadata
    _roster: GroupRoster
    _rebalance: Rebalance
    _responses: ResponseQueue
    _settings: Callable[[], ClassicGroupSettings]
    _new_member_id: Callable[[str], str]
    _clock: Callable[[], float]

    @property
    def _members(self) -> ClassicGroupMembers:
        return self._metadata.members

    @property
    def _state(self) -> ClassicGroupState:
        return self._metadata.state

    def join(self, now: float, joining: JoinRequest, reply: JoinCallback) -> None:
        """See :meth:`.ClassicGroup.join`."""
        try:
            self._check_joining(now, joining)
            if joining.member_id:
                self._join_known(now, joining, reply)
            else:
                self._join_new(now, joining, reply)
        except ApiError as refusal:
            self._responses.join(reply, JoinResult(refusal.code, joining.member_id))

    def _check_joining(self, now: float, joining: JoinRequest) -> None:
        settings = self._settings()
        if self._state is ClassicGroupState.DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not settings.min_session_timeout_ms <= joining.session_timeout_ms <= settings.max_session_timeout_ms:
            raise ApiError(
                ErrorCode.INVALID_SESSION_TIMEOUT,
                f"the session timeout is {joining.session_timeout_ms} ms; this broker allows"
                f" {settings.min_session_timeout_ms} to {settings.max_session_timeout_ms}",
            )
        if len(joining.protocols) > MAX_PROTOCOLS:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"the member names {len(joining.protocols)} protocols; at most {MAX_PROTOCOLS} are looked at",
            )
        for text in (joining.instance_id or "", joining.protocol_type, *(name for name, _ in joining.protocols)):
            if len(text.encode()) > MAX_TEXT_BYTES:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"{text[:20]!r}... is longer than {MAX_TEXT_BYTES} bytes")
        self._check_room(now, joining, settings.max_size)
        self._check_protocols(joining)
        if joining.member_id or joining.instance_id is not None or not joining.requires_known_member_id:
            member = self._members.get(joining.member_id) or self._members.instance(joining.instance_id)
            settings.admit(
                ClassicGroupMember.of(joining.member_id, joining).memory - (0 if member is None else member.memory)
            )

    def _check_room(self, now: float, joining: JoinRequest, max_size: int) -> None:
        member = self._members.get(joining.member_id) or self._members.instance(joining.instance_id)
        size = self._members.size + ClassicGroupMember.of("", joining).size() - (0 if member is None else member.size())
        if size > MAX_METADATA_BYTES:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"the members' metadata would have {size} bytes; at most {MAX_METADATA_BYTES} are kept",
            )
        if self._state is ClassicGroupState.PREPARING_REBALANCE:
            # Only members that have rejoined count: if the group is too large, the last to rejoin are rejected.
            accepted = (member is not None and member.join_reply is not None) or self._members.joined < max_size
        else:
            accepted = member is not None or len(self._members) < max_size
        if accepted:
            return
        self._roster.forget_pending(joining.member_id)
        if member is not None and member.member_id == joining.member_id:
            self._roster.drop(member)
        self._rebalance.complete_if_all_joined(now)
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"group {self._metadata.group_id!r} has no room for more than {max_size} members",
        )

    def _check_protocols(self, joining: JoinRequest) -> None:
        ours = self._metadata.protocol_type
        if not len(self._members):
            consistent = bool(joining.protocol_type and joining.protocols)
        else:
            consistent = joining.protocol_type == ours and self._members.supports(joining.protocols)
        if not consistent:
            raise ApiError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the group is of the type {ours!r}, and {joining.protocol_type!r} with"
                f" {[name for name, _ in joining.protocols[:10]]} has no protocol in common with all its members",
            )

    def _join_new(self, now: float, joining: JoinRequest, reply: JoinCallback) -> None:
        member_id = self._new_member_id(joining.instance_id or joining.client_id)
        former = self._members.instance(joining.instance_id)
        if former is not None:
            self._replace(now, former, member_id, joining, reply)
        elif joining.instance_id is None and joining.requires_known_member_id:
            self._expect(now, member_id, joining)
            self._responses.join(reply, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(now, member_id, joining, reply)

    def _expect(self, now: float, member_id: str, joining: JoinRequest) -> None:
        """Reserve an id that the client must rejoin with (KIP-394), so that a retry does not add a second member."""
        pending = self._members.pending
        if len(pending) >= self._settings().max_size:
            self._roster.forget_pending(next(iter(pending)))
        self._settings().admit(PENDING_BYTES + len(member_id))
        pending[member_id] = None
        self._roster.sessions.renew(member_id, now + joining.session_timeout_ms / 1000)

    def _join_known(self, now: float, joining: JoinRequest, reply: JoinCallback) -> None:
        if joining.member_id in self._members.pending and joining.instance_id is None:
            self._add(now, joining.member_id, joining, reply)
            return
        member = self._members.known(joining.member_id, joining.instance_id)
        as_before = member.wants(joining)
        leads = member.member_id == self._members.leader
        # The same subscription again: either the response was lost, or the request was not needed. A leader's request
        # in a stable group may mean that topics have changed, so it starts a rebalance.
        if as_before and (
            self._state is ClassicGroupState.COMPLETING_REBALANCE
            or (self._state is ClassicGroupState.STABLE and not leads)
        ):
            self._roster.renew_session(now, member)
            self._responses.join(reply, self._metadata.joined_result(member))
            return
        self._members.update(member, joining)
        self._roster.await_join(member, reply)
        self._rebalance.members_changed(now)

    def _add(self, now: float, member_id: str, joining: JoinRequest, reply: JoinCallback) -> None:
        if not len(self._members):
            self._metadata.protocol_type = joining.protocol_type
        member = ClassicGroupMember.of(member_id, joining)
        self._members.add(member)
        self._roster.await_join(member, reply)
        self._roster.sessions.renew(member_id, now + NEW_MEMBER_TIMEOUT_S)
        self._rebalance.note_new_member()
        self._rebalance.members_changed(now)

    # Static members (KIP-345).

    def _replace(
        self, now: float, former: ClassicGroupMember, member_id: str, joining: JoinRequest, reply: JoinCallback
    ) -> None:
        """Replace a static member whose process has restarted: same instance id, new member id."""
        leader_before = self._members.leader or ""
        member = evolve(former, member_id=member_id, join_reply=None, sync_reply=None, is_new=False)
        self._roster.replace(now, former, member, ErrorCode.FENCED_INSTANCE_ID)
        self._members.update(member, joining)
        self._roster.await_join(member, reply)
        if self._state is not ClassicGroupState.STABLE or self._members.select_protocol() != self._metadata.protocol:
            # The leader may still assign partitions to the former id.
            self._rebalance.members_changed(now)
            return

        # Nothing changes for the other members. The new id is stored before the member is answered.
        def stored(error: ApiError | None) -> None:
            if self._state is not ClassicGroupState.STABLE or member.join_reply is not reply:
                return  # A later event has answered, or will answer, the member.
            now = self._clock()
            if error is not None:
                self._members.take_join(member)
                self._responses.join(reply, JoinResult(response_error(error), ""))
                self._roster.replace(now, member, former, ErrorCode.UNKNOWN_MEMBER_ID)
            else:
                result = self._metadata.joined_result(member, skip_assignment=True)
                if not joining.supports_skip_assignment:
                    # A client without KIP-814 must not believe that it leads: its assignment would be ignored.
                    result = evolve(result, leader=leader_before, skip_assignment=False, members=())
                self._members.take_join(member)
                self._roster.renew_session(now, member)
                self._responses.join(reply, result)
            self._responses.flush()

        self._rebalance.store(stored)
