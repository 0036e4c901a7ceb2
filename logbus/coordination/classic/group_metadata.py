"""
The current state, generation and members of a classic group (Kafka: GroupMetadata). Pure.

All but the state is in the group's record, so that another broker can restore it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field
from attrs.setters import frozen

from logbus.coordination.classic.classic_group_state import ClassicGroupEvent, ClassicGroupState, next_state
from logbus.coordination.classic.members import ClassicGroupMember, ClassicGroupMembers
from logbus.coordination.classic.requests import JoinResult, SyncResult
from logbus.coordination.classic.subscriptions import SubscribedTopics, subscribed_topics
from logbus.coordination.group import Change
from logbus.errors import ApiError, ErrorCode
from logbus.wire.messages.group_log import GroupMetadataKey, GroupMetadataValue

NO_TIMESTAMP = -1
LAST_GENERATION = 2**31 - 1


@define(eq=False)
class GroupMetadata:
    """
    State, generation and members of one group.

    :ivar now_ms: the time of day, in ms since 1970.
    :ivar state_since_ms: when the group entered its state; −1 if unknown.
    :ivar has_record: whether the log may have a record of it.
    :ivar topics: the topics that its members are subscribed to.
    """

    group_id: str = field(on_setattr=frozen)
    now_ms: Callable[[], int]
    state: ClassicGroupState = ClassicGroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    members: ClassicGroupMembers = field(factory=ClassicGroupMembers)
    state_since_ms: int = NO_TIMESTAMP
    has_record: bool = False
    topics: SubscribedTopics = None

    def move(self, event: ClassicGroupEvent) -> None:
        """Go to the next state."""
        self.state = next_state(self.state, event)
        self.state_since_ms = self.now_ms()

    def next_generation(self) -> None:
        """Begin the next generation, of the present members."""
        self.generation = self.generation % LAST_GENERATION + 1
        if len(self.members):
            self.protocol = self.members.select_protocol()
            self.topics = subscribed_topics(self.protocol_type, self.protocol, self.members)
            self.move(ClassicGroupEvent.JOINED)
        else:
            self.protocol = None
            self.topics = frozenset()
            self.move(ClassicGroupEvent.EMPTIED)

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

    def sync_result(self, member: ClassicGroupMember) -> SyncResult:
        """The SyncGroup response for a member, with the assignment in effect."""
        return SyncResult(ErrorCode.NONE, self.protocol_type, self.protocol, member.assignment)

    # Its record.

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

    def load(self, value: GroupMetadataValue) -> None:
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
        if len(self.members):
            self.protocol = value.protocol or ""
            if value.leader in self.members:
                self.members.leader = value.leader
            self.topics = subscribed_topics(self.protocol_type, self.protocol, self.members)
            self.move(ClassicGroupEvent.LOADED)
        self.state_since_ms = value.current_state_timestamp
