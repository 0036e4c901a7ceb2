"""
The state machine of a member of the classic protocol (Kafka: AbstractCoordinator). Pure: it uses neither time nor
connections.

.. code-block:: text

    UNJOINED ── begin ──▶ (PREPARING) ──▶ JOINING ──▶ SYNCING ──▶ ASSIGNING ──▶ STABLE
        ▲                     ▲  on_revoked     │         │     on_assigned        │
        │                     │                 │         │                        │
        │                     └─── rejoin, an error: join again ──────────────────┘
        └── LEAVING ◀── (PREPARING) ◀── stop, late, fenced

Each method is an event, and returns the actions to execute, in order. A response that arrives after the state has moved
on is ignored; :attr:`ClassicStateMachine.turn` tells.
"""

from __future__ import annotations

from attrs import define, field

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
from logbus.client.membership.failures import ELSEWHERE, membership_failure
from logbus.errors import ErrorCode, LogbusError
from logbus.model import TopicPartition


@define
class ClassicStateMachine:
    """
    State, member id, generation and partitions of one member.

    :ivar cooperative: keep partitions during a rebalance (KIP-429).
    :ivar topics: the topics to read; set before joining.
    :ivar owned: the partitions that the listener has.
    :ivar paused: the member has left because the application did not poll; it joins again when it does.
    :ivar turn: incremented when responses to earlier requests become void.
    """

    group_id: str
    cooperative: bool = False
    group_instance_id: str | None = None
    topics: frozenset[str] = frozenset()
    phase: ClassicMemberState = field(default=ClassicMemberState.UNJOINED, init=False)
    member_id: str = field(default="", init=False)
    generation: int = field(default=NO_GENERATION, init=False)
    owned: frozenset[TopicPartition] = field(default=frozenset(), init=False)
    turn: int = field(default=0, init=False)
    paused: bool = field(default=False, init=False)
    # The partitions that the listener is giving up, whether others may have them already, and the step after that.
    _releasing: frozenset[TopicPartition] = field(default=frozenset(), init=False)
    _is_lost: bool = field(default=False, init=False)
    _next_step: AfterRevocation = field(default=AfterRevocation.JOIN, init=False)
    # Of these steps: JoinGroup comes after the backoff; LeaveGroup has a reason; the failure to report.
    _is_join_delayed: bool = field(default=False, init=False)
    _leave_reason: str = field(default="", init=False)
    _failure: LogbusError | None = field(default=None, init=False)
    # Partitions of the new assignment that the listener is told of after it has given up others.
    _newly_assigned: frozenset[TopicPartition] | None = field(default=None, init=False)
    # Join again as soon as the present step is over.
    _joins_again: bool = field(default=False, init=False)

    @property
    def sends_heartbeats(self) -> bool:
        """Whether heartbeats are due."""
        return self.generation != NO_GENERATION and self.phase not in (
            ClassicMemberState.UNJOINED,
            ClassicMemberState.JOINING,
            ClassicMemberState.LEAVING,
        )

    @property
    def busy(self) -> bool:
        """Whether the listener is handling a call."""
        return self.phase in (ClassicMemberState.PREPARING, ClassicMemberState.ASSIGNING)

    # Requests of the consumer.

    def begin(self) -> list[Action]:
        """Join, unless this has happened or is about to."""
        if self.phase is ClassicMemberState.LEAVING or (self.busy and self._next_step is not AfterRevocation.JOIN):
            self._joins_again = True
            return []
        if self.phase is not ClassicMemberState.UNJOINED:
            return []
        self.paused = False
        return self._give_up(AfterRevocation.JOIN)

    def rejoin(self) -> list[Action]:
        """Rebalance, because the subscription of this member has changed."""
        if self.phase is ClassicMemberState.STABLE:
            return self._give_up(AfterRevocation.JOIN)
        if self.phase in (ClassicMemberState.JOINING, ClassicMemberState.SYNCING, ClassicMemberState.ASSIGNING):
            self._joins_again = True
        return []

    def late(self) -> list[Action]:
        """The application did not poll in time: leave until it does, so that others take over."""
        if self.phase in (ClassicMemberState.UNJOINED, ClassicMemberState.LEAVING):
            return []
        # A static member keeps its partitions until its session expires (KIP-345).
        actions = [] if self.group_instance_id else self._leave("the consumer did not poll within max_poll_interval")
        self.generation, self.member_id = NO_GENERATION, ""
        return actions + self._end(AfterRevocation.PAUSE, lost=True)

    def stop(self, *, leave: bool) -> list[Action]:
        """Give up all partitions; then send LeaveGroup, or not."""
        if self.phase is ClassicMemberState.LEAVING:
            self._joins_again = False
            return []
        if self.phase is ClassicMemberState.UNJOINED:
            self.paused = False
            return [ReportLeft()]
        self._leave_reason = "the consumer is being closed"
        return self._end(AfterRevocation.LEAVE if leave else AfterRevocation.STAY)

    # Results of the listener.

    def listener_done(self) -> list[Action]:
        """The listener has handled its last call."""
        if self._releasing:
            self.owned -= self._releasing
            self._releasing = frozenset()
        if self.phase is ClassicMemberState.ASSIGNING:
            return self._assignment_delivered()
        assert self.phase is ClassicMemberState.PREPARING, self.phase
        if self._is_lost and self.owned:
            return self._give_up(self._next_step, lost=True, wait=self._is_join_delayed)
        self._is_lost = False
        return self._go_on()

    def _assignment_delivered(self) -> list[Action]:
        if self._next_step is not AfterRevocation.JOIN or self._is_lost:
            self._newly_assigned = None
            return self._give_up(self._next_step, lost=self._is_lost, wait=self._is_join_delayed)
        if self._newly_assigned is not None:
            new, self._newly_assigned = self._newly_assigned, None
            self.owned |= new
            return [NotifyListener(ListenerEvent.ASSIGNED, new)]
        if self._joins_again:
            return self._give_up(AfterRevocation.JOIN)
        self.phase = ClassicMemberState.STABLE
        return []

    def _go_on(self) -> list[Action]:
        then, self._next_step = self._next_step, AfterRevocation.JOIN
        self.turn += 1
        if then is AfterRevocation.JOIN:
            self.phase = ClassicMemberState.JOINING
            self._joins_again = False
            return [SendJoinGroup(self._is_join_delayed)]
        if then is AfterRevocation.LEAVE:
            actions = self._leave(self._leave_reason)
            if actions:
                self.phase = ClassicMemberState.LEAVING
                return actions
        return self._ended(then)

    def _ended(self, then: AfterRevocation) -> list[Action]:
        self.phase = ClassicMemberState.UNJOINED
        self.generation, self.member_id = NO_GENERATION, ""
        self.paused = then is AfterRevocation.PAUSE
        again, self._joins_again = self._joins_again, False
        if then is AfterRevocation.FAIL:
            assert self._failure is not None
            actions: list[Action] = [ReportFailure(self._failure)]
        else:
            actions = [] if then is AfterRevocation.PAUSE else [ReportLeft()]
        return actions + (self.begin() if again else [])

    # Responses of the coordinator.

    def joined(self, member_id: str, generation: int) -> list[Action]:
        """JoinGroup succeeded."""
        self.member_id, self.generation = member_id, generation
        self.phase = ClassicMemberState.SYNCING
        return [SendSyncGroup()]

    def member_id_required(self, member_id: str) -> list[Action]:
        """JoinGroup: MEMBER_ID_REQUIRED (KIP-394)."""
        self.member_id = member_id
        return [SendJoinGroup()]

    def synced(self, assigned: frozenset[TopicPartition]) -> list[Action]:
        """SyncGroup succeeded, with this assignment."""
        self.phase = ClassicMemberState.ASSIGNING
        # In the eager protocol all partitions were revoked before.
        self._releasing = self.owned - assigned
        self._newly_assigned = assigned - self.owned
        if self._releasing:
            # Other members get them in another rebalance (KIP-429).
            self._joins_again = True
            return [NotifyListener(ListenerEvent.REVOKED, self._releasing)]
        return self.listener_done()

    def refused(self, code: ErrorCode, said: str | None = None) -> list[Action]:
        """JoinGroup or SyncGroup failed, with this message."""
        reaction = reaction_to(code)
        if reaction is ErrorReaction.FATAL:
            return self._fail(code, said)
        if reaction in (ErrorReaction.OUTDATED, ErrorReaction.UNKNOWN):
            self._forget(reaction)
            # Some coordinators return this error each time, so use the backoff.
            return self._give_up(AfterRevocation.JOIN, lost=True, wait=True)
        self.turn += 1
        self.phase, self._joins_again = ClassicMemberState.JOINING, False
        return [SendJoinGroup(wait=True)]

    def heartbeat_answered(self, code: ErrorCode, said: str | None = None) -> list[Action]:
        """
        Heartbeat failed. Errors of an unavailable coordinator are ignored, but by a member that waits for SyncGroup:
        the coordinator that got it is gone, and may have left a connection that shows nothing.
        """
        reaction = reaction_to(code)
        if reaction is ErrorReaction.WAIT:
            is_void = self.phase is ClassicMemberState.SYNCING and code in ELSEWHERE
            return self.refused(code) if is_void else []
        if reaction is ErrorReaction.FATAL:
            return self._fail(code, said)
        if reaction is ErrorReaction.REJOIN:
            # A heartbeat from before JoinGroup may be answered after it: that is the rebalance that is joined already.
            return [] if self.phase is ClassicMemberState.JOINING else self.rejoin()
        self._forget(reaction)
        if self.busy:
            self._is_lost = True
            return []
        return self._give_up(AfterRevocation.JOIN, lost=True)

    def probe_answered(self, code: ErrorCode) -> list[Action]:
        """A heartbeat of a member that waits for JoinGroup: join again, if the coordinator does not know of it."""
        if self.phase is not ClassicMemberState.JOINING or (
            code not in ELSEWHERE and code is not ErrorCode.UNKNOWN_MEMBER_ID
        ):
            return []
        return self.refused(code)

    def fail(self, error: LogbusError) -> list[Action]:
        """The coordinator can be asked no more: end with this error."""
        self._failure = error
        self.generation = NO_GENERATION
        return self._end(AfterRevocation.FAIL, lost=True)

    def left(self) -> list[Action]:
        """LeaveGroup was answered, or failed."""
        return self._ended(AfterRevocation.LEAVE)

    # Internals.

    def _forget(self, reaction: ErrorReaction) -> None:
        self.generation = NO_GENERATION
        if reaction is ErrorReaction.UNKNOWN:
            self.member_id = ""

    def _leave(self, reason: str) -> list[Action]:
        return [SendLeaveGroup(self.member_id, reason)] if self.member_id else []

    def _fail(self, code: ErrorCode, said: str | None) -> list[Action]:
        return self.fail(membership_failure(code, self.group_id, self.group_instance_id, said))

    def _end(self, then: AfterRevocation, *, lost: bool = False) -> list[Action]:
        """Give up all partitions, once the listener is free."""
        self._joins_again = False
        self.turn += 1
        if self.busy:
            self._next_step = max(then, self._next_step, key=lambda each: each.value)
            self._is_lost = self._is_lost or lost
            return []
        return self._give_up(then, lost=lost)

    def _give_up(self, then: AfterRevocation, *, lost: bool = False, wait: bool = False) -> list[Action]:
        """Have the listener give up the partitions that must not be kept; earlier responses become void."""
        self.turn += 1
        self.phase, self._is_lost = ClassicMemberState.PREPARING, False
        self._next_step, self._is_join_delayed = then, wait
        if then is AfterRevocation.JOIN and self.cooperative and not lost:
            self._releasing = frozenset(each for each in self.owned if each.topic not in self.topics)
        else:
            self._releasing = self.owned
        if self._releasing:
            return [NotifyListener(ListenerEvent.LOST if lost else ListenerEvent.REVOKED, self._releasing)]
        return self.listener_done()
