"""
The members of a classic group (Kafka: ClassicGroupMember), their leader and the protocols they share. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from attrs import define, field

from logbus.coordination.classic.requests import JoinCallback, JoinRequest, MemberProtocol, SyncCallback
from logbus.coordination.group import MEMBER_BYTES, PENDING_BYTES, TEXT_BYTES
from logbus.errors import ApiError, ErrorCode
from logbus.wire.messages.group_log import GroupMemberMetadata


def distinct(protocols: tuple[MemberProtocol, ...]) -> tuple[MemberProtocol, ...]:
    """The protocols without duplicate names, which would give a member two votes; the first counts."""
    first: dict[str, bytes] = {}
    for name, metadata in protocols:
        first.setdefault(name, metadata)
    return tuple(first.items())


@define(eq=False)
class ClassicGroupMember:
    """
    A member.

    :ivar instance_id: of a static member (KIP-345), else None.
    :ivar protocols: in the order it prefers them, each name once.
    :ivar assignment: the leader's assignment for it in the current generation.
    :ivar is_new: its first JoinGroup is not answered yet: it may not know its id, and cannot send heartbeats.
    :ivar join_reply: the callback of its waiting JoinGroup, if any.
    :ivar sync_reply: the callback of its waiting SyncGroup, if any.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    join_reply: JoinCallback | None = None
    sync_reply: SyncCallback | None = None

    @classmethod
    def of(cls, member_id: str, joining: JoinRequest) -> ClassicGroupMember:
        """A member from its JoinGroup."""
        return cls(
            member_id,
            joining.instance_id,
            joining.client_id,
            joining.client_host,
            joining.session_timeout_ms,
            max(joining.rebalance_timeout_ms, 0),
            distinct(joining.protocols),
            is_new=True,
        )

    @classmethod
    def read(cls, record: GroupMemberMetadata, protocol: str) -> ClassicGroupMember:
        """A member from a record; before version 1 the session timeout is the rebalance timeout, too."""
        rebalance_timeout = record.rebalance_timeout if record.rebalance_timeout >= 0 else record.session_timeout
        return cls(
            record.member_id,
            record.group_instance_id,
            record.client_id,
            record.client_host,
            record.session_timeout,
            max(rebalance_timeout, 0),
            ((protocol, record.subscription),),
            record.assignment,
        )

    def record(self, protocol: str | None, assignment: bytes) -> GroupMemberMetadata:
        """Its part of the group's record."""
        return GroupMemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a response, and so sends no heartbeats."""
        return self.sync_reply is not None or (self.join_reply is not None and not self.is_new)

    def wants(self, joining: JoinRequest) -> bool:
        """Whether a JoinGroup has the same protocols as before."""
        return self.protocols == distinct(joining.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for ``protocol``; empty if it does not support that any more."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def size(self) -> int:
        """Bytes of its metadata for all protocols."""
        return sum(len(name) + len(metadata) for name, metadata in self.protocols)

    @property
    def memory(self) -> int:
        """About how many bytes it takes."""
        names = len(self.member_id) + len(self.instance_id or "") + len(self.client_id)
        return MEMBER_BYTES + names + len(self.assignment) + self.size() + TEXT_BYTES * len(self.protocols)


@define(eq=False)
class ClassicGroupMembers:
    """
    The members of one group, in the order they joined.

    Invariants: ``leader`` is one of them, None when there are none; ``joined`` are those with a ``join_reply``.

    :ivar pending: ids that were given to clients that have not joined with them yet (KIP-394), oldest first.
    :ivar joined: how many wait for the next generation.
    :ivar size: bytes of all members' metadata.
    """

    leader: str | None = None
    pending: dict[str, None] = field(factory=dict)
    joined: int = 0
    size: int = 0
    _members: dict[str, ClassicGroupMember] = field(factory=dict)
    _static: dict[str, str] = field(factory=dict)
    _supported: Counter[str] = field(factory=Counter)

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[ClassicGroupMember]:
        return iter(self._members.values())

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._members

    def get(self, member_id: str) -> ClassicGroupMember | None:
        """The member with this id."""
        return self._members.get(member_id)

    @property
    def memory(self) -> int:
        """About how many bytes the members and the pending ids take."""
        expected = sum(PENDING_BYTES + len(member_id) for member_id in self.pending)
        return expected + sum(member.memory for member in self)

    def instance(self, instance_id: str | None) -> ClassicGroupMember | None:
        """The static member with this instance id."""
        member_id = None if instance_id is None else self._static.get(instance_id)
        return None if member_id is None else self._members[member_id]

    def known(self, member_id: str, instance_id: str | None) -> ClassicGroupMember:
        """
        The member that a request comes from.

        :raise ApiError: UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID: another process took over its instance id (KIP-345).
        """
        if instance_id is not None:
            holder = self._static.get(instance_id)
            if holder is not None and holder != member_id:
                raise ApiError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"member {holder!r} took over the instance {instance_id!r} of member {member_id!r}",
                )
            if holder is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id!r}")
        member = self._members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the id {member_id!r}")
        return member

    @property
    def all_joined(self) -> bool:
        """Whether all members have joined, and no id is pending."""
        return self.joined == len(self._members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def add(self, member: ClassicGroupMember) -> None:
        """Add a member; the first one becomes the leader."""
        self.pending.pop(member.member_id, None)
        self._members[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._count(member, 1)

    def remove(self, member: ClassicGroupMember) -> None:
        """Remove a member; if it was the leader, the oldest member becomes the leader."""
        del self._members[member.member_id]
        if member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self._members), None)
        self._count(member, -1)

    def replace(self, old: ClassicGroupMember, new: ClassicGroupMember) -> None:
        """Give a static member a new id; it stays the leader if it was."""
        led = self.leader == old.member_id
        self.remove(old)
        self.add(new)
        if led:
            self.leader = new.member_id

    def update(self, member: ClassicGroupMember, joining: JoinRequest) -> None:
        """Update a member that joins again, perhaps with other protocols or timeouts."""
        self._count(member, -1)
        member.protocols = distinct(joining.protocols)
        member.session_timeout_ms = joining.session_timeout_ms
        member.rebalance_timeout_ms = max(joining.rebalance_timeout_ms, 0)
        self._count(member, 1)

    def await_join(self, member: ClassicGroupMember, reply: JoinCallback) -> JoinCallback | None:
        """Register a waiting JoinGroup; return the callback of an earlier one, which the client has given up."""
        former, member.join_reply = member.join_reply, reply
        self.joined += former is None
        return former

    def take_join(self, member: ClassicGroupMember) -> JoinCallback | None:
        """Take the callback of a member's waiting JoinGroup, if any."""
        reply, member.join_reply = member.join_reply, None
        self.joined -= reply is not None
        return reply

    def elect(self) -> bool:
        """Make sure that the leader is one of the members that joined; False: none has joined."""
        leader = None if self.leader is None else self._members[self.leader]
        if leader is None or leader.join_reply is None:
            joined = next((member for member in self if member.join_reply is not None), None)
            if joined is None:
                return False
            self.leader = joined.member_id
        return True

    def supports(self, protocols: tuple[MemberProtocol, ...]) -> bool:
        """Whether all members support one of these protocols."""
        return any(self._supported[name] == len(self._members) for name, _ in protocols)

    def select_protocol(self) -> str:
        """
        The protocol that most members prefer among those that all support; "" with no members.

        Each member votes for the first supported protocol in its list; the first one voted for wins a tie.
        """
        candidates = {name for name, count in self._supported.items() if count == len(self._members)}
        votes = Counter(
            next((name for name, _ in member.protocols if name in candidates), "") for member in self._members.values()
        )
        return votes.most_common(1)[0][0] if votes else ""

    def _count(self, member: ClassicGroupMember, sign: int) -> None:
        """Update the totals for a member: add it (``sign`` 1) or subtract it (−1)."""
        self.size += sign * member.size()
        self.joined += sign * (member.join_reply is not None)
        for name, _ in member.protocols:
            self._supported[name] += sign
            if not self._supported[name]:
                del self._supported[name]
