"""
What a member of the consumer protocol (KIP-848) does next: pure, it knows neither time nor connections.

The coordinator assigns; all that is sent are heartbeats. Each says what has changed here since the coordinator last
confirmed one, and the answers say what the coordinator wants this member to read. What is owned follows: first the
listener gives up what is not wanted any more, then it is told what is new; the next heartbeat says so.

.. code-block:: text

    UNJOINED ── begin ──▶ JOINING ── first answer ──▶ STABLE ◀── told ── RECONCILING
        ▲                    ▲                           │                    ▲
        │                    └── fenced: all is lost ────┤── other target ────┘
        └── LEAVING ◀────────── stop, late ──────────────┘
"""

from __future__ import annotations

from enum import Enum

from attrs import define, evolve, field, frozen

from logbus.client.membership.actions import Action, ListenerEvent, NotifyListener, ReportFailure, ReportLeft
from logbus.client.membership.failures import membership_failure
from logbus.client.membership.subscription import Subscription
from logbus.errors import ErrorCode
from logbus.model import TopicPartition

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
AWAY_EPOCH = -2
"""Of a static member that leaves and may come back: its partitions are kept for it until its session ends."""
NOT_A_MEMBER = -1

_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class ConsumerMemberState(Enum):
    """Where a member is."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    STABLE = "stable"
    RECONCILING = "reconciling"
    LEAVING = "leaving"


class AfterRelease(Enum):
    """What comes after the listener gave up everything; a later one takes the place of an earlier one."""

    GO_ON = 0
    JOIN = 1
    PAUSE = 2
    STAY = 3
    LEAVE = 4
    FAIL = 5


@frozen
class SendHeartbeat:
    """Send a heartbeat at once, or as soon as the one before is answered."""


@frozen
class SendLeaveHeartbeat:
    """Send the last heartbeat, with an epoch that says so; whatever is answered."""

    member_id: str
    epoch: int


@frozen
class HeartbeatFields:
    """
    What a heartbeat says besides who sends it; None: as before.

    :ivar owned: what the listener has.
    """

    epoch: int
    subscription: Subscription | None = None
    owned: frozenset[TopicPartition] | None = None

    @property
    def joins(self) -> bool:
        """Whether it has to say everything."""
        return self.epoch == JOINING_EPOCH


@define
class ConsumerStateMachine:
    """
    :ivar member_id: made here (KIP-1082), or given by brokers that do not know that.
    :ivar epoch: how far this member has come; 0: it joins.
    :ivar owned: the partitions that the listener has.
    :ivar wanted: those that the coordinator wants it to have.
    :ivar turn: grows whenever answers to what was sent before are void.
    """

    group_id: str
    member_id: str
    group_instance_id: str | None = None
    subscription: Subscription = field(factory=Subscription)
    phase: ConsumerMemberState = ConsumerMemberState.UNJOINED
    epoch: int = NOT_A_MEMBER
    owned: frozenset[TopicPartition] = frozenset()
    wanted: frozenset[TopicPartition] = frozenset()
    turn: int = 0
    paused: bool = False
    _confirmed: HeartbeatFields | None = None
    _then: AfterRelease = AfterRelease.GO_ON
    _lost: bool = False
    _giving: frozenset[TopicPartition] = frozenset()
    _telling: bool = False
    _failure: tuple[ErrorCode, str | None] | None = None
    _again: bool = False

    @property
    def beats(self) -> bool:
        """Whether heartbeats are due; not while a fenced member's listener loses what it had: it cannot join yet."""
        ending = self._then in (AfterRelease.JOIN, AfterRelease.PAUSE, AfterRelease.FAIL)
        return self.phase not in (ConsumerMemberState.UNJOINED, ConsumerMemberState.LEAVING) and not ending

    # What somebody wants.

    def begin(self) -> list[Action]:
        """Become a member, unless one is or is about to be."""
        if self.phase is ConsumerMemberState.LEAVING or self._then not in (AfterRelease.GO_ON, AfterRelease.JOIN):
            self._again = True
            return []
        if self.phase is not ConsumerMemberState.UNJOINED:
            return []
        self.paused = False
        return self._join()

    def want(self, subscription: Subscription) -> list[Action]:
        """Another subscription from now on."""
        self.subscription = subscription
        return [SendHeartbeat()] if self.beats else []

    def late(self) -> list[Action]:
        """The application did not ask for records for too long: leave until it does."""
        if self.phase in (ConsumerMemberState.UNJOINED, ConsumerMemberState.LEAVING):
            return []
        departing = self._departing(AfterRelease.LEAVE if self.group_instance_id is None else AfterRelease.STAY)
        return [*departing, *self._give_up_all(AfterRelease.PAUSE, lost=True)]

    def stop(self, *, leave: bool) -> list[Action]:
        """
        End: give up what there is, then tell the coordinator.

        :param leave: for good; otherwise a static member says that it may come back, and another one nothing.
        """
        if self.phase is ConsumerMemberState.LEAVING:
            self._again = False
            return []
        if self.phase is ConsumerMemberState.UNJOINED:
            self.paused = False
            return [ReportLeft()]
        return self._give_up_all(AfterRelease.LEAVE if leave else AfterRelease.STAY)

    # What the coordinator answered.

    def report(self) -> HeartbeatFields:
        """What the next heartbeat says."""
        now = HeartbeatFields(self.epoch, self.subscription, self.owned)
        if self.epoch == JOINING_EPOCH or self._confirmed is None:
            return now
        before = self._confirmed
        return HeartbeatFields(
            self.epoch,
            None if before.subscription == now.subscription else now.subscription,
            None if before.owned == now.owned else now.owned,
        )

    def unheard(self) -> None:
        """
        A heartbeat's answer was lost, and with it perhaps an assignment: the coordinator says that again only to who
        says everything again.
        """
        self._confirmed = None

    def confirmed(self, sent: HeartbeatFields, member_id: str | None, epoch: int) -> list[Action]:
        """The coordinator took in a heartbeat."""
        said = self._confirmed or HeartbeatFields(epoch)
        self._confirmed = evolve(
            said,
            subscription=sent.subscription or said.subscription,
            owned=said.owned if sent.owned is None else sent.owned,
        )
        self.member_id = member_id or self.member_id
        self.epoch = epoch
        if self.phase is ConsumerMemberState.JOINING:
            self.phase = ConsumerMemberState.STABLE
        return [SendHeartbeat()] if self.report() != HeartbeatFields(self.epoch) else []

    def target(self, wanted: frozenset[TopicPartition]) -> list[Action]:
        """The coordinator wants this member to have these."""
        self.wanted = wanted
        return self._reconcile()

    def refused(self, code: ErrorCode, said: str | None = None) -> list[Action]:
        """An error in place of an answer; one that will pass means nothing yet."""
        if code in _FENCED:
            return self._give_up_all(AfterRelease.JOIN, lost=True)
        if code.retriable:
            return []
        self._failure = (code, said)
        return self._give_up_all(AfterRelease.FAIL, lost=True)

    def left(self) -> list[Action]:
        """The last heartbeat was answered, or could not be."""
        return self._ended(AfterRelease.LEAVE)

    # What the listener did.

    def told(self) -> list[Action]:
        """The listener is done with what it was told last."""
        self._telling = False
        self.owned -= self._giving
        self._giving = frozenset()
        if self._then is not AfterRelease.GO_ON:
            return self._go_on()
        self.phase = ConsumerMemberState.STABLE
        return [SendHeartbeat(), *self._reconcile()]

    # How it works.

    def _reconcile(self) -> list[Action]:
        if self._telling or self.phase is not ConsumerMemberState.STABLE:
            return []
        surplus, lacking = self.owned - self.wanted, self.wanted - self.owned
        if surplus:
            self._giving = surplus
            return self._tell(ListenerEvent.REVOKED, surplus)
        if lacking:
            self.owned |= lacking
            return self._tell(ListenerEvent.ASSIGNED, lacking)
        return []

    def _tell(self, what: ListenerEvent, partitions: frozenset[TopicPartition]) -> list[Action]:
        self.phase, self._telling = ConsumerMemberState.RECONCILING, True
        return [NotifyListener(what, partitions)]

    def _give_up_all(self, then: AfterRelease, *, lost: bool = False) -> list[Action]:
        """Have the listener give up everything, as soon as it has time, and go on otherwise."""
        self._then = max(self._then, then, key=lambda each: each.value)
        self._lost = self._lost or lost
        if lost:
            self.turn += 1
            self.epoch = NOT_A_MEMBER
        return [] if self._telling else self._go_on()

    def _go_on(self) -> list[Action]:
        if self.owned:
            self._giving = self.owned
            return self._tell(ListenerEvent.LOST if self._lost else ListenerEvent.REVOKED, self.owned)
        then, self._then, self._lost = self._then, AfterRelease.GO_ON, False
        self.turn += 1
        if then is AfterRelease.JOIN:
            return self._join()
        departing = self._departing(then)
        if departing:
            self.phase = ConsumerMemberState.LEAVING
            return departing
        return self._ended(then)

    def _departing(self, then: AfterRelease) -> list[Action]:
        static = self.group_instance_id is not None
        # One that was never answered may be a member all the same.
        if (
            self.epoch == NOT_A_MEMBER
            or then not in (AfterRelease.LEAVE, AfterRelease.STAY)
            or (then is AfterRelease.STAY and not static)
        ):
            return []
        return [SendLeaveHeartbeat(self.member_id, AWAY_EPOCH if then is AfterRelease.STAY else LEAVING_EPOCH)]

    def _join(self) -> list[Action]:
        self.turn += 1
        self.phase, self.epoch = ConsumerMemberState.JOINING, JOINING_EPOCH
        self.wanted, self._confirmed = frozenset(), None
        return [SendHeartbeat()]

    def _ended(self, then: AfterRelease) -> list[Action]:
        self.phase, self.epoch = ConsumerMemberState.UNJOINED, NOT_A_MEMBER
        self.paused = then is AfterRelease.PAUSE
        again, self._again = self._again, False
        if then is AfterRelease.FAIL:
            assert self._failure is not None
            code, said = self._failure
            actions: list[Action] = [
                ReportFailure(membership_failure(code, self.group_id, self.group_instance_id, said))
            ]
        else:
            actions = [] if then is AfterRelease.PAUSE else [ReportLeft()]
        return actions + (self.begin() if again else [])
