"""The state machine of the classic protocol."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.membership.actions import ListenerEvent, NotifyListener, ReportFailure, ReportLeft
from logbus.client.membership.classic_state_machine import ClassicStateMachine
from logbus.client.membership.classic_states import (
    NO_GENERATION,
    ClassicMemberState,
    ErrorReaction,
    SendJoinGroup,
    SendLeaveGroup,
    SendSyncGroup,
    reaction_to,
)
from logbus.client.membership.interface import MembershipFailed
from logbus.errors import ErrorCode
from logbus.model import TopicPartition
from tests.client.membership_kit import places

FATAL = (
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.INVALID_SESSION_TIMEOUT,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)


def member(
    phase: ClassicMemberState = ClassicMemberState.UNJOINED, owned: Any = frozenset(), **given: Any
) -> ClassicStateMachine:
    """A member ``m`` that has got so far, in generation 3."""
    made = ClassicStateMachine("g", topics=frozenset("t"), **given)
    if phase is ClassicMemberState.UNJOINED:
        return made
    made.begin()
    if phase is ClassicMemberState.JOINING:
        return made
    made.joined("m", 3)
    if phase is ClassicMemberState.SYNCING:
        return made
    made.synced(frozenset(owned))
    if phase is ClassicMemberState.STABLE:
        made.listener_done()
    return made


class JoiningTests(SynchronousTestCase):
    """From nothing to an assignment."""

    def test_all_the_way(self) -> None:
        """JoinGroup, once more with the id it was given, SyncGroup, the listener."""
        one = member()
        assert one.begin() == [SendJoinGroup()]
        assert one.member_id_required("m") == [SendJoinGroup()]
        assert one.member_id == "m"
        assert one.joined("m", 1) == [SendSyncGroup()]
        assert one.synced(places("t", 0)) == [NotifyListener(ListenerEvent.ASSIGNED, places("t", 0))]
        assert (one.phase, one.owned, one.sends_heartbeats) == (ClassicMemberState.ASSIGNING, places("t", 0), True)
        assert one.listener_done() == []
        assert (one.phase, one.generation) == (ClassicMemberState.STABLE, 1)

    def test_no_partitions(self) -> None:
        """The listener is called for an empty assignment, too: the application may wait for it."""
        one = member(ClassicMemberState.SYNCING)
        assert one.synced(frozenset()) == [NotifyListener(ListenerEvent.ASSIGNED, frozenset())]

    def test_errors_while_joining(self) -> None:
        """JoinGroup and SyncGroup treat errors alike."""
        for phase in (ClassicMemberState.JOINING, ClassicMemberState.SYNCING):
            for code in (*PASSING, ErrorCode.REBALANCE_IN_PROGRESS):
                one = member(phase)
                assert one.refused(code) == [SendJoinGroup(wait=True)], (phase, code)
                assert one.phase is ClassicMemberState.JOINING
            one = member(phase)
            one.member_id = "m"
            assert one.refused(ErrorCode.UNKNOWN_MEMBER_ID) == [SendJoinGroup(wait=True)]
            assert (one.member_id, one.generation) == ("", NO_GENERATION)
            one.member_id = "m"
            assert one.refused(ErrorCode.ILLEGAL_GENERATION) == [SendJoinGroup(wait=True)]
            assert (one.member_id, one.generation) == ("m", NO_GENERATION)
            for code in FATAL:
                one = member(phase)
                (failed,) = one.refused(code)
                assert isinstance(failed, ReportFailure)
                assert isinstance(failed.error, MembershipFailed)
                assert failed.error.code is code
                assert "'g'" in failed.error.message
                assert one.phase is ClassicMemberState.UNJOINED

    def test_unknown_cooperative_member_loses_its_partitions(self) -> None:
        """It joined with partitions, and the coordinator does not know it: others may have them."""
        one = member(ClassicMemberState.STABLE, places("t", 0), cooperative=True)
        assert one.rejoin() == [SendJoinGroup()]
        assert one.refused(ErrorCode.UNKNOWN_MEMBER_ID) == [NotifyListener(ListenerEvent.LOST, places("t", 0))]
        assert one.listener_done() == [SendJoinGroup(wait=True)]
        assert one.owned == frozenset()

    def test_every_code_has_a_consequence(self) -> None:
        """Retriable errors are retried, and unknown ones end the membership."""
        for code in PASSING:
            assert reaction_to(code) is ErrorReaction.WAIT
        for code in FATAL:
            assert reaction_to(code) is ErrorReaction.FATAL


class RebalancingTests(SynchronousTestCase):
    """From one generation to the next."""

    def test_eager(self) -> None:
        """Everything is given up before joining again, and the generation holds until then: for commits."""
        one = member(ClassicMemberState.STABLE, places("t", 0, 1))
        assert one.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS) == [
            NotifyListener(ListenerEvent.REVOKED, places("t", 0, 1))
        ]
        assert (one.phase, one.owned, one.generation, one.sends_heartbeats) == (
            ClassicMemberState.PREPARING,
            places("t", 0, 1),
            3,
            True,
        )
        assert one.listener_done() == [SendJoinGroup()]
        assert (one.owned, one.sends_heartbeats) == (frozenset(), False)

    def test_cooperative(self) -> None:
        """It joins with what it has; what moves is given up after, and then the group rebalances once more."""
        one = member(ClassicMemberState.STABLE, places("t", 0, 1), cooperative=True)
        assert one.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS) == [SendJoinGroup()]
        one.joined("m", 4)
        assert one.synced(places("t", 1, 2)) == [NotifyListener(ListenerEvent.REVOKED, places("t", 0))]
        assert one.listener_done() == [NotifyListener(ListenerEvent.ASSIGNED, places("t", 2))]
        assert one.owned == places("t", 1, 2)
        assert one.listener_done() == [SendJoinGroup()]
        one.joined("m", 5)
        assert one.synced(places("t", 1, 2)) == [NotifyListener(ListenerEvent.ASSIGNED, frozenset())]
        assert (one.listener_done(), one.phase) == ([], ClassicMemberState.STABLE)

    def test_cooperative_with_another_subscription(self) -> None:
        """Partitions of topics that are not subscribed any more are revoked first."""
        one = member(ClassicMemberState.STABLE, places("t", 0) | places("u", 0), cooperative=True)
        assert one.rejoin() == [NotifyListener(ListenerEvent.REVOKED, places("u", 0))]
        assert one.listener_done() == [SendJoinGroup()]
        assert one.owned == places("t", 0)

    def test_change_of_the_subscription_while_joining(self) -> None:
        """Another round is needed, as the leader had the old subscription."""
        for phase in (ClassicMemberState.JOINING, ClassicMemberState.SYNCING):
            one = member(phase)
            assert one.rejoin() == []
            if phase is ClassicMemberState.JOINING:
                one.joined("m", 3)
            one.synced(frozenset())
            assert one.listener_done() == [SendJoinGroup()]

    def test_heartbeat_from_before_joining(self) -> None:
        """A heartbeat that is answered after JoinGroup was sent tells of the rebalance that is joined already."""
        one = member(ClassicMemberState.JOINING)
        assert one.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS) == []
        one.joined("m", 3)
        one.synced(frozenset())
        assert (one.listener_done(), one.phase) == ([], ClassicMemberState.STABLE)

    def test_repeated_join_has_the_new_subscription(self) -> None:
        """Then no further round is needed for it."""
        one = member(ClassicMemberState.JOINING)
        one.rejoin()
        assert one.refused(ErrorCode.REBALANCE_IN_PROGRESS) == [SendJoinGroup(wait=True)]
        one.joined("m", 3)
        one.synced(frozenset())
        assert (one.listener_done(), one.phase) == ([], ClassicMemberState.STABLE)

    def test_heartbeat_errors(self) -> None:
        """Some end the membership, some start it again, and some are ignored."""
        for code in PASSING:
            assert member(ClassicMemberState.STABLE, places("t", 0)).heartbeat_answered(code) == []
        for code, member_id in ((ErrorCode.ILLEGAL_GENERATION, "m"), (ErrorCode.UNKNOWN_MEMBER_ID, "")):
            one = member(ClassicMemberState.STABLE, places("t", 0))
            assert one.heartbeat_answered(code) == [NotifyListener(ListenerEvent.LOST, places("t", 0))]
            assert (one.generation, one.sends_heartbeats) == (NO_GENERATION, False)
            assert one.listener_done() == [SendJoinGroup()]
            assert one.member_id == member_id
        for code in FATAL:
            one = member(ClassicMemberState.STABLE, places("t", 0))
            assert one.heartbeat_answered(code) == [NotifyListener(ListenerEvent.LOST, places("t", 0))]
            (failed,) = one.listener_done()
            assert isinstance(failed, ReportFailure)

    def test_no_coordinator_while_syncing(self) -> None:
        """SyncGroup went to a coordinator that is gone: it is not answered any more, and the member joins again."""
        for code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
            one = member(ClassicMemberState.SYNCING)
            turn = one.turn
            assert one.heartbeat_answered(code) == [SendJoinGroup(wait=True)]
            assert (one.phase, one.member_id) == (ClassicMemberState.JOINING, "m")
            assert one.turn > turn
        assert member(ClassicMemberState.SYNCING).heartbeat_answered(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) == []

    def test_no_coordinator_while_joining(self) -> None:
        """A coordinator that does not know the member any more, or is gone, will not answer its JoinGroup."""
        for code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_MEMBER_ID):
            one = member(ClassicMemberState.JOINING)
            one.member_id = "m"
            assert one.probe_answered(code) == [SendJoinGroup(wait=True)]
            assert one.member_id == ("" if code is ErrorCode.UNKNOWN_MEMBER_ID else "m")
        for code in (ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS):
            assert member(ClassicMemberState.JOINING).probe_answered(code) == []
        assert member(ClassicMemberState.STABLE).probe_answered(ErrorCode.UNKNOWN_MEMBER_ID) == []

    def test_fenced_while_the_listener_is_busy(self) -> None:
        """The current call ends; then the rest is lost."""
        one = member(ClassicMemberState.ASSIGNING, places("t", 0))
        assert one.heartbeat_answered(ErrorCode.UNKNOWN_MEMBER_ID) == []
        assert one.listener_done() == [NotifyListener(ListenerEvent.LOST, places("t", 0))]
        assert one.listener_done() == [SendJoinGroup()]

    def test_fenced_between_revocation_and_assignment(self) -> None:
        """New partitions are not announced any more."""
        one = member(ClassicMemberState.STABLE, places("t", 0, 1), cooperative=True)
        one.rejoin()
        one.joined("m", 4)
        one.synced(places("t", 1, 2))
        one.heartbeat_answered(ErrorCode.UNKNOWN_MEMBER_ID)
        assert one.listener_done() == [NotifyListener(ListenerEvent.LOST, places("t", 1))]
        assert one.listener_done() == [SendJoinGroup()]


class EndingTests(SynchronousTestCase):
    """Leaving, of one's own will or not."""

    def test_leave(self) -> None:
        """The listener gives up partitions while the generation is still valid; then LeaveGroup is sent."""
        one = member(ClassicMemberState.STABLE, places("t", 0))
        assert one.stop(leave=True) == [NotifyListener(ListenerEvent.REVOKED, places("t", 0))]
        assert one.generation == 3
        (leave,) = one.listener_done()
        assert isinstance(leave, SendLeaveGroup)
        assert leave.member_id == "m"
        assert one.left() == [ReportLeft()]
        assert (one.phase, one.member_id, one.generation) == (ClassicMemberState.UNJOINED, "", NO_GENERATION)

    def test_stay(self) -> None:
        """A static member ends without a word."""
        one = member(ClassicMemberState.STABLE, places("t", 0), group_instance_id="i")
        one.stop(leave=False)
        assert one.listener_done() == [ReportLeft()]

    def test_stop_in_every_phase(self) -> None:
        """It always comes to an end, and answers that come later count for nothing."""
        for phase in ClassicMemberState:
            if phase in (ClassicMemberState.PREPARING, ClassicMemberState.LEAVING):
                continue
            one = member(phase, places("t", 0))
            turn = one.turn
            actions = one.stop(leave=True)
            while one.busy:
                actions = one.listener_done()
            if one.phase is ClassicMemberState.LEAVING:
                actions = one.left()
            assert actions == [ReportLeft()], phase
            assert one.phase is ClassicMemberState.UNJOINED
            assert phase is ClassicMemberState.UNJOINED or one.turn > turn

    def test_late(self) -> None:
        """It leaves at once, loses its partitions, and comes back at the next begin."""
        one = member(ClassicMemberState.STABLE, places("t", 0))
        leave, tell = one.late()
        assert isinstance(leave, SendLeaveGroup)
        assert tell == NotifyListener(ListenerEvent.LOST, places("t", 0))
        assert one.generation == NO_GENERATION
        assert one.listener_done() == []
        assert (one.paused, one.phase) == (True, ClassicMemberState.UNJOINED)
        assert one.begin() == [SendJoinGroup()]
        assert not one.paused

    def test_late_static_member(self) -> None:
        """It keeps its partitions until its session ends."""
        one = member(ClassicMemberState.STABLE, places("t", 0), group_instance_id="i")
        assert one.late() == [NotifyListener(ListenerEvent.LOST, places("t", 0))]

    def test_begin_while_leaving(self) -> None:
        """It begins anew when it has left."""
        one = member(ClassicMemberState.STABLE)
        one.stop(leave=True)
        assert one.phase is ClassicMemberState.LEAVING
        assert one.begin() == []
        assert one.left() == [ReportLeft(), SendJoinGroup()]


class Machine(RuleBasedStateMachine):
    """
    A member to which anything happens in any order.

    :ivar due: the listener, the request, and the leaving that are under way; each is answered at most once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.member = ClassicStateMachine("g", topics=frozenset("t"))
        self.listener: NotifyListener | None = None
        self.request: tuple[int, Any] | None = None
        self.leaving = False
        self.has: frozenset[TopicPartition] = frozenset()
        self.generation = 0

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
            elif isinstance(action, (SendJoinGroup, SendSyncGroup)):
                assert self.listener is None, "it joins before the listener is done"
                self.request = (self.member.turn, action)
            elif isinstance(action, SendLeaveGroup):
                self.leaving = self.member.phase is ClassicMemberState.LEAVING

    @rule(cooperative=st.booleans())
    @precondition(lambda self: self.member.phase is ClassicMemberState.UNJOINED)
    def begin(self, cooperative: bool) -> None:
        self.member.cooperative = cooperative
        self.do(self.member.begin())

    @rule()
    @precondition(lambda self: self.listener is not None)
    def listener_done(self) -> None:
        tell, self.listener = self.listener, None
        assert tell is not None
        if tell.what is not ListenerEvent.ASSIGNED:
            self.has -= tell.partitions
        self.do(self.member.listener_done())

    @rule(
        code=st.sampled_from([None, *PASSING, *FATAL, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS]),
        numbers=st.frozensets(st.integers(0, 3)),
    )
    @precondition(lambda self: self.request is not None)
    def answered(self, code: ErrorCode | None, numbers: frozenset[int]) -> None:
        assert self.request is not None
        (turn, request), self.request = self.request, None
        if turn != self.member.turn:
            return
        if code is not None:
            self.do(self.member.refused(code))
        elif isinstance(request, SendJoinGroup):
            self.generation += 1
            self.do(self.member.joined("m", self.generation))
        else:
            self.do(self.member.synced(places("t", *numbers)))

    @rule(code=st.sampled_from([*PASSING, *FATAL, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS]))
    @precondition(lambda self: self.member.sends_heartbeats)
    def heartbeat_answered(self, code: ErrorCode) -> None:
        self.do(self.member.heartbeat_answered(code))

    @rule()
    def rejoin(self) -> None:
        self.do(self.member.rejoin())

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
        """Unless the member is unjoined or stable, a listener's call, a request or LeaveGroup is in progress."""
        if self.member.phase in (ClassicMemberState.UNJOINED, ClassicMemberState.STABLE):
            return
        waits = self.request is not None and self.request[0] == self.member.turn
        assert self.listener is not None or waits or self.leaving, self.member

    @invariant()
    def nobody_has_nothing(self) -> None:
        if self.member.phase in (ClassicMemberState.UNJOINED, ClassicMemberState.LEAVING):
            assert not self.has


class AnythingTests(SynchronousTestCase):
    """The machine under Hypothesis."""

    def test_random_events(self) -> None:
        """The machine is never stuck, and always knows which partitions the listener has."""
        case = Machine.TestCase()
        case.runTest()

    @given(
        st.sampled_from(
            [
                ClassicMemberState.JOINING,
                ClassicMemberState.SYNCING,
                ClassicMemberState.ASSIGNING,
                ClassicMemberState.STABLE,
            ]
        )
    )
    def test_turns_only_grow(self, phase: ClassicMemberState) -> None:
        """So that an old answer is never taken for a new one."""
        one = member(phase, places("t", 0))
        before = one.turn
        one.late()
        assert one.turn > before
