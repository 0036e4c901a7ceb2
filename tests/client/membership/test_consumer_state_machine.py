"""The state machine of the consumer protocol."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.membership.actions import ListenerEvent, NotifyListener, ReportFailure, ReportLeft
from logbus.client.membership.consumer_state_machine import (
    AWAY_EPOCH,
    LEAVING_EPOCH,
    NOT_A_MEMBER,
    ConsumerMemberState,
    ConsumerStateMachine,
    HeartbeatFields,
    SendHeartbeat,
    SendLeaveHeartbeat,
)
from logbus.client.membership.interface import MembershipFailed
from logbus.client.membership.subscription import Subscription
from logbus.errors import ErrorCode
from logbus.model import TopicPartition
from tests.client.membership_kit import places

T = Subscription.of(["t"])
FATAL = (
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.INVALID_REGULAR_EXPRESSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNSUPPORTED_ASSIGNOR,
    ErrorCode.UNSUPPORTED_VERSION,
)
PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)


def member(*owned: int, **given: Any) -> ConsumerStateMachine:
    """A member ``m`` at rest in epoch 5, that has some partitions."""
    made = ConsumerStateMachine("g", "m", subscription=T, **given)
    made.begin()
    made.confirmed(made.report(), "m", 5)
    if owned:
        made.target(places("t", *owned))
        made.listener_done()
        made.confirmed(made.report(), None, 5)
    assert made.phase is ConsumerMemberState.STABLE
    return made


class ReportTests(SynchronousTestCase):
    """Fields of heartbeats."""

    def test_first_heartbeat_is_full(self) -> None:
        """The coordinator knows nothing yet."""
        one = ConsumerStateMachine("g", "m", subscription=T)
        assert one.begin() == [SendHeartbeat()]
        assert one.report() == HeartbeatFields(0, T, frozenset())

    def test_later_heartbeats_have_changes_only(self) -> None:
        """Usually none; unconfirmed changes are repeated."""
        one = member(0, 1)
        assert one.report() == HeartbeatFields(5)
        assert one.target(places("t", 0)) == [NotifyListener(ListenerEvent.REVOKED, places("t", 1))]
        assert one.report() == HeartbeatFields(5), "it has it yet"
        assert one.listener_done() == [SendHeartbeat()]
        report = one.report()
        assert report == HeartbeatFields(5, None, places("t", 0))
        assert one.report() == report
        one.confirmed(report, None, 6)
        assert one.report() == HeartbeatFields(6)

    def test_full_heartbeat_after_a_lost_response(self) -> None:
        """The lost response may have had an assignment, which is repeated only after a full heartbeat."""
        one = member(0)
        one.response_lost()
        report = one.report()
        assert report == HeartbeatFields(5, T, places("t", 0))
        one.confirmed(report, None, 5)
        assert one.report() == HeartbeatFields(5)

    def test_another_subscription(self) -> None:
        """It is said at once, and again if it changes once more before that is confirmed."""
        one = member()
        u = Subscription.of(["u"])
        assert one.want(u) == [SendHeartbeat()]
        sent = one.report()
        assert sent == HeartbeatFields(5, u)
        one.want(T)
        assert one.confirmed(sent, None, 6) == [SendHeartbeat()]
        assert one.report() == HeartbeatFields(6, T)

    def test_member_id_of_the_broker(self) -> None:
        """Brokers before KIP-1082 create the member id."""
        one = ConsumerStateMachine("g", "mine", subscription=T)
        one.begin()
        one.confirmed(one.report(), "theirs", 1)
        assert one.member_id == "theirs"


class ReconcilingTests(SynchronousTestCase):
    """From what it has to what it is to have."""

    def test_first_give_up_then_get(self) -> None:
        """First partitions are revoked, then new ones assigned, each followed by a heartbeat."""
        one = member(0, 1)
        assert one.target(places("t", 1, 2)) == [NotifyListener(ListenerEvent.REVOKED, places("t", 0))]
        assert one.listener_done() == [SendHeartbeat(), NotifyListener(ListenerEvent.ASSIGNED, places("t", 2))]
        assert one.listener_done() == [SendHeartbeat()]
        assert (one.phase, one.owned) == (ConsumerMemberState.STABLE, places("t", 1, 2))

    def test_target_changes_during_a_callback(self) -> None:
        """The listener's callback ends, and the new target follows."""
        one = member(0, 1)
        one.target(places("t", 0))
        assert one.target(places("t", 0, 2)) == []
        assert one.listener_done() == [SendHeartbeat(), NotifyListener(ListenerEvent.ASSIGNED, places("t", 2))]

    def test_fenced(self) -> None:
        """All is lost; then it joins again under its name. No heartbeat goes out in between."""
        for code in FENCED:
            one = member(0)
            assert one.refused(code) == [NotifyListener(ListenerEvent.LOST, places("t", 0))]
            assert (one.sends_heartbeats, one.epoch) == (False, NOT_A_MEMBER)
            assert one.listener_done() == [SendHeartbeat()]
            assert (one.phase, one.member_id, one.report()) == (
                ConsumerMemberState.JOINING,
                "m",
                HeartbeatFields(0, T, frozenset()),
            )

    def test_fenced_while_the_listener_is_busy(self) -> None:
        """The partitions are lost after the current call."""
        one = member(0, 1)
        one.target(places("t", 1))
        assert one.refused(ErrorCode.FENCED_MEMBER_EPOCH) == []
        assert one.listener_done() == [NotifyListener(ListenerEvent.LOST, places("t", 1))]
        assert one.listener_done() == [SendHeartbeat()]

    def test_errors(self) -> None:
        """Some pass; some end it."""
        for code in PASSING:
            assert member(0).refused(code) == []
        for code in FATAL:
            one = member(0)
            assert one.refused(code, "because") == [NotifyListener(ListenerEvent.LOST, places("t", 0))]
            (failed,) = one.listener_done()
            assert isinstance(failed, ReportFailure)
            assert isinstance(failed.error, MembershipFailed)
            assert failed.error.code is code
            assert one.phase is ConsumerMemberState.UNJOINED


class EndingTests(SynchronousTestCase):
    """Leaving, of one's own will or not."""

    def test_leave(self) -> None:
        """The listener gives up partitions while the epoch is still valid; then a leave heartbeat is sent."""
        one = member(0)
        assert one.stop(leave=True) == [NotifyListener(ListenerEvent.REVOKED, places("t", 0))]
        assert (one.epoch, one.sends_heartbeats) == (5, True)
        assert one.listener_done() == [SendLeaveHeartbeat("m", LEAVING_EPOCH)]
        assert one.left() == [ReportLeft()]

    def test_leaving_static_member(self) -> None:
        """It sends the away epoch, unless it leaves for good."""
        one = member(group_instance_id="i")
        assert one.stop(leave=False) == [SendLeaveHeartbeat("m", AWAY_EPOCH)]
        one = member(group_instance_id="i")
        assert one.stop(leave=True) == [SendLeaveHeartbeat("m", LEAVING_EPOCH)]
        assert member().stop(leave=False) == [ReportLeft()]

    def test_late(self) -> None:
        """It says so at once, loses what it has, and joins when it polls."""
        one = member(0)
        assert one.late() == [
            SendLeaveHeartbeat("m", LEAVING_EPOCH),
            NotifyListener(ListenerEvent.LOST, places("t", 0)),
        ]
        assert one.listener_done() == []
        assert (one.paused, one.phase) == (True, ConsumerMemberState.UNJOINED)
        assert one.begin() == [SendHeartbeat()]
        assert member(group_instance_id="i").late() == [SendLeaveHeartbeat("m", AWAY_EPOCH)]

    def test_begin_while_leaving(self) -> None:
        """It begins anew when it has left."""
        one = member()
        one.stop(leave=True)
        assert one.begin() == []
        assert one.left() == [ReportLeft(), SendHeartbeat()]


class Machine(RuleBasedStateMachine):
    """A member to which anything happens in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.member = ConsumerStateMachine("g", "m", subscription=T)
        self.listener: NotifyListener | None = None
        self.beat: tuple[int, HeartbeatFields] | None = None
        self.leaving = False
        self.has: frozenset[TopicPartition] = frozenset()
        self.epoch = 0

    def do(self, actions: list[Any]) -> None:
        for action in actions:
            if isinstance(action, NotifyListener):
                assert self.listener is None, "the listener is told two things at a time"
                self.listener = action
                if action.what is ListenerEvent.ASSIGNED:
                    assert not action.partitions & self.has
                    self.has |= action.partitions
                else:
                    assert action.partitions <= self.has
            elif isinstance(action, SendLeaveHeartbeat):
                self.leaving = self.member.phase is ConsumerMemberState.LEAVING

    @rule()
    def begin(self) -> None:
        self.do(self.member.begin())

    @rule(topic=st.sampled_from("tu"))
    def want(self, topic: str) -> None:
        self.do(self.member.want(Subscription.of([topic])))

    @rule()
    @precondition(lambda self: self.member.sends_heartbeats and self.beat is None)
    def send(self) -> None:
        report = self.member.report()
        assert report.owned is None or report.owned == self.has
        self.beat = (self.member.turn, report)

    @rule(code=st.sampled_from([None, None, None, *PASSING, *FENCED, *FATAL]), numbers=st.frozensets(st.integers(0, 3)))
    @precondition(lambda self: self.beat is not None)
    def answered(self, code: ErrorCode | None, numbers: frozenset[int]) -> None:
        assert self.beat is not None
        (turn, report), self.beat = self.beat, None
        if turn != self.member.turn:
            return
        if code is not None:
            self.do(self.member.refused(code))
            return
        self.epoch += 1
        self.do(self.member.confirmed(report, None, self.epoch))
        self.do(self.member.target(places("t", *numbers)))

    @rule()
    @precondition(lambda self: self.listener is not None)
    def listener_done(self) -> None:
        tell, self.listener = self.listener, None
        assert tell is not None
        if tell.what is not ListenerEvent.ASSIGNED:
            self.has -= tell.partitions
        self.do(self.member.listener_done())

    @rule()
    def late(self) -> None:
        self.do(self.member.late())

    @rule(leave=st.booleans())
    def stop(self, leave: bool) -> None:
        self.do(self.member.stop(leave=leave))

    @rule()
    @precondition(lambda self: self.leaving)
    def left(self) -> None:
        self.leaving = False
        self.do(self.member.left())

    @invariant()
    def it_knows_what_the_listener_has(self) -> None:
        assert self.member.owned == self.has

    @invariant()
    def it_always_waits_for_something(self) -> None:
        """The member is unjoined, sends heartbeats, or waits for the listener or for its last heartbeat."""
        assert (
            self.member.phase is ConsumerMemberState.UNJOINED
            or self.member.sends_heartbeats
            or self.listener is not None
            or self.leaving
        )

    @invariant()
    def at_rest_it_has_what_it_is_to_have(self) -> None:
        if self.member.phase is ConsumerMemberState.STABLE and self.listener is None:
            assert self.member.owned == self.member.wanted
        if self.member.phase in (ConsumerMemberState.UNJOINED, ConsumerMemberState.LEAVING):
            assert not self.has


class AnythingTests(SynchronousTestCase):
    """The machine under Hypothesis."""

    def test_random_events(self) -> None:
        """The machine is never stuck, and always knows which partitions the listener has."""
        case = Machine.TestCase()
        case.runTest()
