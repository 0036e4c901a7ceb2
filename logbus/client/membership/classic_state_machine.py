"""
What a member of the classic protocol does next: pure, it knows neither time nor connections.

.. code-block:: text

    UNJOINED ── begin ──▶ (PREPARING) ──▶ JOINING ──▶ SYNCING ──▶ ASSIGNING ──▶ STABLE
        ▲                     ▲  the listener   │         │     the listener       │
        │                     │  gives up       │         │     is told            │
        │                     └─── rejoin, an error: join again ──────────────────┘
        └── LEAVING ◀── (PREPARING) ◀── stop, late, fenced

Each method is something that happened; it returns what is to be done for it, in this order. A request's answer that
comes after the member went on counts for nothing: the shell tells by :attr:`ClassicStateMachine.turn`.
"""

from __future__ import annotations

from attrs import define

from logbus.client.membership.actions import Action, ListenerEvent, NotifyListener, ReportFailure, ReportLeft
from logbus.client.membership.classic_states import (
    NO_GENERATION,
    AfterRevocation,
    ClassicMemberState,
    ErrorReaction,
    SendJoinGroup,
    SendLeaveGroup,
    SendSyncGroup,
    reaction_to,
)
from logbus.client.membership.failures import membership_failure
from logbus.errors import ErrorCode
from logbus.model import TopicPartition


@define
class ClassicStateMachine:
    """
    :ivar cooperative: keeps partitions while it joins (KIP-429).
    :ivar topics: what it reads; set before it joins.
    :ivar owned: the partitions that the listener has.
    :ivar turn: grows whenever answers to what was sent before are void.
    """

    group_id: str
    cooperative: bool = False
    group_instance_id: str | None = None
    topics: frozenset[str] = frozenset()
    phase: ClassicMemberState = ClassicMemberState.UNJOINED
    member_id: str = ""
    generation: int = NO_GENERATION
    owned: frozenset[TopicPartition] = frozenset()
    turn: int = 0
    paused: bool = False
    _then: AfterRevocation = AfterRevocation.JOIN
    _wait: bool = False
    _reason: str = ""
    _failure: ErrorCode | None = None
    _giving: frozenset[TopicPartition] = frozenset()
    _lost: bool = False
    _fresh: frozenset[TopicPartition] | None = None
    _again: bool = False

    @property
    def beats(self) -> bool:
        """Whether heartbeats are due."""
        return self.generation != NO_GENERATION and self.phase not in (
            ClassicMemberState.UNJOINED,
            ClassicMemberState.JOINING,
            ClassicMemberState.LEAVING,
        )

    @property
    def busy(self) -> bool:
        """Whether the listener has been told something, and is not done yet."""
        return self.phase in (ClassicMemberState.PREPARING, ClassicMemberState.ASSIGNING)

    # What somebody wants.

    def begin(self) -> list[Action]:
        """Become a member, unless one is or is about to be."""
        if self.phase is ClassicMemberState.LEAVING or (self.busy and self._then is not AfterRevocation.JOIN):
            self._again = True
            return []
        if self.phase is not ClassicMemberState.UNJOINED:
            return []
        self.paused = False
        return self._give_up(AfterRevocation.JOIN)

    def rejoin(self) -> list[Action]:
        """Have the group rebalance: what this member tells the leader is not the same any more."""
        if self.phase is ClassicMemberState.STABLE:
            return self._give_up(AfterRevocation.JOIN)
        if self.phase in (ClassicMemberState.JOINING, ClassicMemberState.SYNCING, ClassicMemberState.ASSIGNING):
            self._again = True
        return []

    def late(self) -> list[Action]:
        """The application did not ask for records for too long: leave, so that others take over, until it does."""
        if self.phase in (ClassicMemberState.UNJOINED, ClassicMemberState.LEAVING):
            return []
        # A static member keeps its place until its session ends (KIP-345).
        actions = [] if self.group_instance_id else self._leave("the consumer did not poll within max_poll_interval")
        self.generation, self.member_id = NO_GENERATION, ""
        return actions + self._end(AfterRevocation.PAUSE, lost=True)

    def stop(self, *, leave: bool) -> list[Action]:
        """End: give up what there is; then tell the coordinator, or not."""
        if self.phase is ClassicMemberState.LEAVING:
            self._again = False
            return []
        if self.phase is ClassicMemberState.UNJOINED:
            self.paused = False
            return [ReportLeft()]
        self._reason = "the consumer is being closed"
        return self._end(AfterRevocation.LEAVE if leave else AfterRevocation.STAY)

    # What the listener did.

    def told(self) -> list[Action]:
        """The listener is done with what it was told last."""
        if self._giving:
            self.owned -= self._giving
            self._giving = frozenset()
        if self.phase is ClassicMemberState.ASSIGNING:
            return self._assignment_delivered()
        assert self.phase is ClassicMemberState.PREPARING, self.phase
        if self._lost and self.owned:
            return self._give_up(self._then, lost=True, wait=self._wait)
        self._lost = False
        return self._go_on()

    def _assignment_delivered(self) -> list[Action]:
        if self._then is not AfterRevocation.JOIN or self._lost:
            self._fresh = None
            return self._give_up(self._then, lost=self._lost, wait=self._wait)
        if self._fresh is not None:
            fresh, self._fresh = self._fresh, None
            self.owned |= fresh
            return [NotifyListener(ListenerEvent.ASSIGNED, fresh)]
        if self._again:
            return self._give_up(AfterRevocation.JOIN)
        self.phase = ClassicMemberState.STABLE
        return []

    def _go_on(self) -> list[Action]:
        then, self._then = self._then, AfterRevocation.JOIN
        self.turn += 1
        if then is AfterRevocation.JOIN:
            self.phase = ClassicMemberState.JOINING
            self._again = False
            return [SendJoinGroup(self._wait)]
        if then is AfterRevocation.LEAVE:
            actions = self._leave(self._reason)
            if actions:
                self.phase = ClassicMemberState.LEAVING
                return actions
        return self._ended(then)

    def _ended(self, then: AfterRevocation) -> list[Action]:
        self.phase = ClassicMemberState.UNJOINED
        self.generation, self.member_id = NO_GENERATION, ""
        self.paused = then is AfterRevocation.PAUSE
        again, self._again = self._again, False
        if then is AfterRevocation.FAIL:
            assert self._failure is not None
            actions: list[Action] = [
                ReportFailure(membership_failure(self._failure, self.group_id, self.group_instance_id))
            ]
        else:
            actions = [] if then is AfterRevocation.PAUSE else [ReportLeft()]
        return actions + (self.begin() if again else [])

    # What the coordinator answered.

    def joined(self, member_id: str, generation: int) -> list[Action]:
        """JoinGroup: everybody is there."""
        self.member_id, self.generation = member_id, generation
        self.phase = ClassicMemberState.SYNCING
        return [SendSyncGroup()]

    def given_id(self, member_id: str) -> list[Action]:
        """JoinGroup: MEMBER_ID_REQUIRED (KIP-394)."""
        self.member_id = member_id
        return [SendJoinGroup()]

    def synced(self, assigned: frozenset[TopicPartition]) -> list[Action]:
        """SyncGroup: this is ours."""
        self.phase = ClassicMemberState.ASSIGNING
        # In the eager protocol nothing is owned by now.
        self._giving = self.owned - assigned
        self._fresh = assigned - self.owned
        if self._giving:
            # Only now can they be given to others: that takes another rebalance (KIP-429).
            self._again = True
            return [NotifyListener(ListenerEvent.REVOKED, self._giving)]
        return self.told()

    def refused(self, code: ErrorCode) -> list[Action]:
        """JoinGroup or SyncGroup: an error."""
        consequence = reaction_to(code)
        if consequence is ErrorReaction.FATAL:
            return self._fail(code)
        if consequence in (ErrorReaction.OUTDATED, ErrorReaction.UNKNOWN):
            self._forget(consequence)
            # Some coordinators say so each time: they are not asked at once each time.
            return self._give_up(AfterRevocation.JOIN, lost=True, wait=True)
        self.turn += 1
        self.phase, self._again = ClassicMemberState.JOINING, False
        return [SendJoinGroup(wait=True)]

    def heartbeat_answered(self, code: ErrorCode) -> list[Action]:
        """Heartbeat: an error; that of a coordinator that is away means nothing yet."""
        consequence = reaction_to(code)
        if consequence is ErrorReaction.WAIT:
            return []
        if consequence is ErrorReaction.FATAL:
            return self._fail(code)
        if consequence is ErrorReaction.REJOIN:
            return self.rejoin()
        self._forget(consequence)
        if self.busy:
            self._lost = True
            return []
        return self._give_up(AfterRevocation.JOIN, lost=True)

    def left(self) -> list[Action]:
        """LeaveGroup was answered, or could not be."""
        return self._ended(AfterRevocation.LEAVE)

    # How it works.

    def _forget(self, consequence: ErrorReaction) -> None:
        self.generation = NO_GENERATION
        if consequence is ErrorReaction.UNKNOWN:
            self.member_id = ""

    def _leave(self, reason: str) -> list[Action]:
        return [SendLeaveGroup(self.member_id, reason)] if self.member_id else []

    def _fail(self, code: ErrorCode) -> list[Action]:
        self._failure = code
        self.generation = NO_GENERATION
        return self._end(AfterRevocation.FAIL, lost=True)

    def _end(self, then: AfterRevocation, *, lost: bool = False) -> list[Action]:
        """Give up everything, once the listener has time for it."""
        self._again = False
        self.turn += 1
        if self.busy:
            self._then = max(then, self._then, key=lambda each: each.value)
            self._lost = self._lost or lost
            return []
        return self._give_up(then, lost=lost)

    def _give_up(self, then: AfterRevocation, *, lost: bool = False, wait: bool = False) -> list[Action]:
        """Have the listener give up what may not be kept; what was sent before does not count any more."""
        self.turn += 1
        self.phase, self._then, self._wait, self._lost = ClassicMemberState.PREPARING, then, wait, False
        if then is AfterRevocation.JOIN and self.cooperative and not lost:
            self._giving = frozenset(each for each in self.owned if each.topic not in self.topics)
        else:
            self._giving = self.owned
        if self._giving:
            return [NotifyListener(ListenerEvent.LOST if lost else ListenerEvent.REVOKED, self._giving)]
        return self.told()
