"""
Properties of :mod:`logbus.coordination.classic.classic_group`: several members that follow the protocol, or do not,
on a log that is slow and sometimes fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import define, field
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from logbus.coordination.classic.classic_group import ClassicGroupSettings, JoinResult
from logbus.coordination.classic.classic_group_state import ClassicGroupState
from logbus.errors import ApiError, ErrorCode
from tests.coordination.classic.kit import Answer, Bench, subscription

PARTITIONS = range(6)
SESSION_S = 10.0
REBALANCE_S = 30.0
RANGE = ("range", subscription("orders"))
STICKY = ("sticky", subscription("orders"))
WISHES = [(RANGE,), (RANGE, STICKY), (STICKY, RANGE)]


def assignment_of(members: list[str]) -> dict[str, bytes]:
    """A toy assignor: partitions to members in turn."""
    return {member: bytes(one for one in PARTITIONS if one % len(members) == at) for at, member in enumerate(members)}


@define(eq=False)
class Client:
    """
    A consumer.

    :ivar joined: the last generation it was told of.
    :ivar owned: the partitions it believes to own, and in which generation.
    """

    instance_id: str | None
    static_version: bool
    wishes: tuple[tuple[str, bytes], ...]
    member_id: str = ""
    joined: JoinResult | None = None
    owned: tuple[int, bytes] | None = None
    joining: Answer | None = None
    syncing: Answer | None = None
    former: list[tuple[str, int]] = field(factory=list)

    def hear(self) -> None:
        """Take what has been answered."""
        if self.joining is not None and not self.joining.waits:
            result, self.joining = self.joining.result, None
            if result.error is ErrorCode.NONE:
                self.joined, self.member_id, self.owned = result, result.member_id, None
            elif result.error is ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = result.member_id
            elif result.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                self.reset()
        if self.syncing is not None and not self.syncing.waits:
            result, self.syncing = self.syncing.result, None
            if result.error is ErrorCode.NONE and self.joined is not None:
                self.owned = (self.joined.generation, result.assignment)

    def reset(self) -> None:
        """The client has lost its membership."""
        if self.joined is not None:
            self.former.append((self.member_id, self.joined.generation))
        self.member_id, self.joined, self.owned = "", None, None


class ClassicGroupMachine(RuleBasedStateMachine):
    """Clients and time push the group about; the invariants hold all the while."""

    @initialize(
        delay=st.sampled_from([0, 0, 3000]),
        size=st.sampled_from([3, 5000]),
        crowd=st.lists(st.tuples(st.sampled_from([None, None, "one", "two"]), st.booleans()), max_size=4),
    )
    def begin(self, delay: int, size: int, crowd: list[tuple[str | None, bool]]) -> None:
        self.bench = Bench(ClassicGroupSettings(initial_rebalance_delay_ms=delay, max_size=size))
        self.clients: list[Client] = []
        # Since when the group has been in a rebalance, for the bound of its length.
        self.preparing_since: float | None = None
        self.generations: list[int] = [0]
        for instance, known in crowd:
            self.start(instance, known, (RANGE,))
        self.bench.advance(3 * delay / 1000)
        self.hear()
        if crowd:
            self.cooperate(4, set())

    def hear(self) -> None:
        for client in self.clients:
            client.hear()
        preparing = self.bench.group.state is ClassicGroupState.PREPARING_REBALANCE
        if not preparing:
            self.preparing_since = None
        elif self.preparing_since is None:
            self.preparing_since = self.bench.now

    def known(self, number: int) -> Client:
        return self.clients[number % len(self.clients)]

    # What clients do.

    @rule(instance=st.sampled_from([None, None, "one", "two"]), known=st.booleans(), wishes=st.sampled_from(WISHES))
    def start(self, instance: str | None, known: bool, wishes: Any) -> None:
        """A process begins to join."""
        if len(self.clients) < 6:
            self.clients.append(Client(instance, known, wishes))
            self.join(len(self.clients) - 1, wishes, None)

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 5), wishes=st.sampled_from(WISHES), skips=st.sampled_from([None, True, False]))
    def join(self, number: int, wishes: Any, skips: bool | None) -> None:
        """A client joins or rejoins, perhaps with other wishes, perhaps while it waits already."""
        client = self.known(number)
        if client.joining is not None and skips is None:
            return
        client.wishes = wishes
        client.joining = self.bench.join(
            client.member_id,
            client.instance_id,
            session_timeout_ms=int(SESSION_S * 1000),
            rebalance_timeout_ms=int(REBALANCE_S * 1000),
            protocols=wishes,
            requires_known_member_id=client.static_version and client.instance_id is None,
            supports_skip_assignment=bool(skips),
        )
        self.hear()

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 5))
    def sync(self, number: int) -> None:
        """A client sends SyncGroup; the leader with all assignments."""
        client = self.known(number)
        joined = client.joined
        if joined is None:
            return
        given = assignment_of([member for member, _, _ in joined.members]) if joined.members else {}
        client.syncing = self.bench.sync(joined, {} if joined.skip_assignment else given, client.instance_id)
        self.hear()

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 5))
    def beat(self, number: int) -> None:
        """A client lives."""
        client = self.known(number)
        if client.joined is not None:
            error = self.bench.beat(client.joined, client.instance_id)
            if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                client.reset()

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 5))
    def leave(self, number: int) -> None:
        """A client goes in good order."""
        client = self.known(number)
        if client.member_id:
            self.bench.leave(client.member_id)
            client.reset()
            self.hear()

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 5))
    def crash(self, number: int) -> None:
        """A client forgets all; the coordinator does not know."""
        client = self.known(number)
        client.reset()
        client.joining = client.syncing = None

    @rule(
        member=st.sampled_from(["", "x", "app-0", "one-1"]),
        generation=st.integers(-2, 4),
        instance=st.sampled_from([None, "one"]),
    )
    def intrude(self, member: str, generation: int, instance: str | None) -> None:
        """Requests with guessed ids."""
        stranger = JoinResult(ErrorCode.NONE, member, generation)
        self.bench.beat(stranger, instance)
        self.bench.sync(stranger, {member: bytes(PARTITIONS)} if member == "x" else None, instance or "zero")
        self.hear()

    @precondition(lambda self: self.clients)
    @rule(rounds=st.integers(1, 4), shy=st.sets(st.integers(0, 5), max_size=2))
    def cooperate(self, rounds: int, shy: set[int]) -> None:
        """For a while all clients, but some, do as the protocol says."""
        for _ in range(rounds):
            for number, client in enumerate(self.clients):
                if number in shy:
                    continue
                beat = ErrorCode.REBALANCE_IN_PROGRESS
                if client.joined is not None:
                    beat = self.bench.beat(client.joined, client.instance_id)
                if beat in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                    client.reset()
                if beat is not ErrorCode.NONE:
                    if client.joining is None:
                        self.join(number, client.wishes, True)
                elif client.owned is None and client.syncing is None:
                    self.sync(number)
            self.hear()

    # What happens around.

    @rule(seconds=st.sampled_from([0.0, 1.0, 3.0, 4.0, 5.0, 6.0, 9.0, 31.0]))
    def wait(self, seconds: float) -> None:
        """Time passes; the timer is served when it is due."""
        end = self.bench.now + seconds
        while (due := self.bench.group.deadline) is not None and due <= end:
            self.bench.advance(max(due - self.bench.now, 0.0))
            self.hear()
        self.bench.now = end

    @rule(holds=st.booleans(), fails=st.booleans())
    def weather(self, holds: bool, fails: bool) -> None:
        """The log gets slow, or full, or well again."""
        self.bench.holds = holds
        self.bench.fails = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS) if fails else None

    @precondition(lambda self: self.bench.storing)
    @rule(fails=st.booleans())
    def stored(self, fails: bool) -> None:
        """The oldest write ends."""
        self.bench.stored(ApiError(ErrorCode.REQUEST_TIMED_OUT) if fails else None)
        self.hear()

    # What always holds.

    def owners(self) -> Iterator[tuple[int, Client]]:
        """The owners of partitions in the present generation."""
        for client in self.clients:
            current = client.owned is not None and client.owned[0] == self.bench.group.generation
            if current and client.owned and self.may_commit(client.member_id, client.instance_id, client.owned[0]):
                yield from ((partition, client) for partition in client.owned[1])

    def may_commit(self, member_id: str, instance_id: str | None, generation: int) -> bool:
        try:
            self.bench.group.check_commit(member_id, instance_id, generation, 9)
        except ApiError:
            return False
        return True

    @invariant()
    def one_owner(self) -> None:
        """No partition has two owners that may commit in the current generation."""
        partitions = [partition for partition, _ in self.owners()]
        assert len(partitions) == len(set(partitions)), partitions

    @invariant()
    def all_are_owned(self) -> None:
        """A stable group whose members have all asked for it owns every partition exactly once."""
        described = self.bench.group.describe()
        if described.state is ClassicGroupState.STABLE:
            assigned = [partition for member in described.members for partition in member.assignment]
            assert sorted(assigned) in ([], list(PARTITIONS)), assigned

    @invariant()
    def the_stale_never_commit(self) -> None:
        """Commits with a former generation or a removed member id are refused."""
        generation = self.bench.group.generation
        for client in self.clients:
            for member_id, old in client.former:
                if old != generation:
                    assert not self.may_commit(member_id, client.instance_id, old)

    @invariant()
    def generations_only_grow(self) -> None:
        """A former number does not come back."""
        self.generations.append(self.bench.group.generation)
        assert self.generations[-2] <= self.generations[-1]

    @invariant()
    def a_rebalance_ends(self) -> None:
        """Joining takes the rebalance timeout at most; twice that, if at first only absent static members are left."""
        if self.preparing_since is not None:
            assert self.bench.now - self.preparing_since <= 2 * REBALANCE_S + SESSION_S

    @invariant()
    def who_waits_is_a_member(self) -> None:
        """Requests of former members do not wait."""
        roster = self.bench.group._roster
        waiting = sum(answer.waits for answer in self.bench.answers)
        parked = sum((one.join_reply is not None) + (one.sync_reply is not None) for one in roster.members)
        assert waiting == parked
        assert roster.members.joined == sum(one.join_reply is not None for one in roster.members)
        assert len(roster.sessions) == len(roster.members) + len(roster.members.pending)
        assert (roster.members.leader is None) == (not len(roster.members))
        assert roster.unsynced <= {one.member_id for one in roster.members}

    @invariant()
    def the_deadline_is_not_late(self) -> None:
        """While anything may have to be done there is a time for it."""
        group = self.bench.group
        if group._roster.members.pending or len(group._roster.members):
            assert group.deadline is not None
        else:
            assert group.state is not ClassicGroupState.STABLE

    def teardown(self) -> None:
        """All clients stop: the group becomes empty, and each request was answered exactly once."""
        if not hasattr(self, "bench"):
            return
        while self.bench.storing:
            self.bench.stored()
        self.bench.holds, self.bench.fails = False, None
        self.bench.advance(1000)
        assert self.bench.group.is_empty, self.bench.state
        assert self.bench.group.deadline is None
        assert all(answer.results for answer in self.bench.answers)


ClassicGroupTests = ClassicGroupMachine.TestCase
ClassicGroupTests.settings = settings(settings.default, stateful_step_count=60)
