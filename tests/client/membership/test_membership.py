"""Memberships of both protocols at real brokers in memory."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from logbus.client.admin.admin_client import AdminClient
from logbus.client.group_metadata import CommittedOffset
from logbus.client.membership import CommitFailed, Membership, Subscription
from logbus.client.membership.group_coordinator_client import GroupCoordinatorClient
from logbus.client.membership.group_offsets import GroupOffsets
from logbus.client.membership.interface import GroupMetadata
from logbus.client.retry import ClientClosed
from logbus.coroutines import sleep
from logbus.errors import ErrorCode
from logbus.model import TopicPartition
from logbus.wire.messages.groups import JoinGroupRequest
from tests.client.membership_kit import MembershipCase, Places, RecordingListener, places

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class EitherProtocol:
    """Tests for both protocols."""

    def two(self: Any, **options: Any) -> tuple[Membership, Membership]:
        """Two members that share the topic."""
        a, b = self.member("t", **options), self.member("t", **options)
        self.until(lambda: self.balanced(a, b))
        return a, b

    def test_members_join_and_leave(self: Any) -> None:
        """A member alone has all partitions, then half of them, then all again."""
        a = self.member("t")
        self.until(lambda: self.balanced(a))
        assert a.metadata.is_member
        b = self.member("t")
        self.until(lambda: self.balanced(a, b))
        assert len(a.assignment) == len(b.assignment) == 3
        self.cluster.now(a.close())
        assert a.assignment == frozenset()
        assert a.metadata == GroupMetadata("g")
        # Long before its session would have ended.
        self.until(lambda: self.balanced(b), 10)
        assert self.hears[0].heard("lost") == frozenset()

    def test_lost_member(self: Any) -> None:
        """When its session has ended the other takes over; when it is back it has lost what it had, and joins again."""
        a, b = self.two(session_timeout=6.0)
        had = a.assignment
        self.lose(0)
        self.until(lambda: self.balanced(b), 60)
        self.cluster.mend()
        self.quiet.clear()
        self.until(lambda: self.balanced(a, b), 60)
        assert self.hears[0].heard("lost") == had
        assert not self.hears[1].heard("lost")

    def test_closed_client(self: Any) -> None:
        """A member of a client that is closed loses its partitions, and fails, instead of trying for ever."""
        client = self.a_client()
        a = self.member("t", client=client)
        self.until(lambda: self.balanced(a))
        self.cluster.now(client.close())
        self.until(lambda: bool(self.hears[0].errors))
        (error,) = self.hears[0].errors
        assert isinstance(error, ClientClosed), error
        assert "group 'g': the client is closed" in str(error)
        assert (a.state, a.assignment) == ("unjoined", frozenset())
        assert self.hears[0].heard("lost")
        late = self.member("t", client=client)
        self.until(lambda: bool(self.hears[1].errors))
        assert late.state == "unjoined"

    def test_the_group_waits_for_the_listener(self: Any) -> None:
        """Revoked partitions are not assigned to another member before the listener is done; its commits succeed."""
        a = self.member("t")
        self.until(lambda: self.balanced(a))
        self.hears[0].waits = {"revoked"}
        b = self.member("t")
        self.until(lambda: bool(self.hears[0].held))
        self.cluster.settle(20)
        assert b.assignment == frozenset()
        given_up = self.hears[0].news[-1][1]
        assert given_up <= a.assignment
        self.cluster.now(a.commit({each: CommittedOffset(7) for each in given_up}))
        self.hears[0].waits.clear()
        self.hears[0].release()
        self.until(lambda: self.balanced(a, b))
        found = self.cluster.now(b.committed(sorted(b.assignment)))
        assert set(found.values()) == {CommittedOffset(7)}

    def test_failing_listener(self: Any) -> None:
        """The failure is logged, and the membership goes on."""

        def fail(partitions: Places) -> None:
            raise ValueError("too bad")

        hears = RecordingListener(does={"assigned": fail})
        a = self.member("t", listener=hears)
        self.until(lambda: self.balanced(a))
        assert len(self.flushLoggedErrors(ValueError)) == 1

    def test_member_without_polls_leaves(self: Any) -> None:
        """The other member takes over; the next poll joins again."""
        a, b = self.two(max_poll_interval=30.0)
        had = a.assignment
        self.quiet = {0}
        self.until(lambda: self.balanced(b), 60)
        assert self.hears[0].heard("lost") == had
        assert a.metadata == GroupMetadata("g")
        failed = self.failure_of(a.commit({min(had): CommittedOffset(1)}))
        assert failed.code is ErrorCode.UNKNOWN_MEMBER_ID
        assert "max_poll_interval" in str(failed)
        self.quiet.clear()
        self.until(lambda: self.balanced(a, b), 60)

    def failure_of(self: Any, waiting: Deferred[Any], kind: type[Any] = CommitFailed) -> Any:
        results: list[Any] = []
        waiting.addBoth(results.append)
        self.until(lambda: bool(results))
        assert isinstance(results[0], Failure), results
        assert isinstance(results[0].value, kind), results
        return results[0].value

    def test_resubscribe(self: Any) -> None:
        """A member leaves, and returns with another subscription, even if it does not wait between the two."""
        self.cluster[0].create("u", 2)
        a = self.member("t")
        self.until(lambda: self.balanced(a))
        left = a.unsubscribe()
        a.subscribe(Subscription.of(["u"]))
        self.cluster.now(left)
        self.until(lambda: self.balanced(a, everything=places("u", 0, 1)))
        a.subscribe(Subscription.of(["t", "u"]))
        self.until(lambda: self.balanced(a, everything=places("u", 0, 1) | places("t", *range(6))))

    def test_new_partitions(self: Any) -> None:
        """They are assigned, without a member joining."""
        a, b = self.two(metadata_max_age=2.0)
        self.cluster.now(AdminClient(self.a_client()).create_partitions({"t": 8}))
        self.until(lambda: self.balanced(a, b, everything=places("t", *range(8))), 30)

    def test_topic_created_later(self: Any) -> None:
        """Its partitions are assigned to a member that had subscribed before."""
        a = self.member("late")
        self.cluster.settle(2)
        assert a.assignment == frozenset()
        self.cluster[0].create("late", 2)
        self.until(lambda: a.assignment == places("late", 0, 1), 10)

    def test_a_pattern(self: Any) -> None:
        """It finds what is there, and what comes later."""
        a = self.member(metadata_max_age=2.0)
        a.subscribe(Subscription.matching("t|page-.*"))
        self.until(lambda: self.balanced(a))
        self.cluster[0].create("page-views", 2)
        self.cluster[0].create("pages", 2)
        self.until(lambda: self.balanced(a, everything=places("t", *range(6)) | places("page-views", 0, 1)), 60)

    def test_static_members_keep_their_places(self: Any) -> None:
        """One stops, and its successor has what it had; nothing moves."""
        a, b = (self.member("t", group_instance_id=each) for each in "ab")
        self.until(lambda: self.balanced(a, b))
        had = a.assignment
        news = list(self.hears[1].news)
        self.cluster.now(a.close())
        self.cluster.settle(3)
        again = self.member("t", group_instance_id="a")
        self.until(lambda: self.balanced(again, b), 10)
        assert again.assignment == had
        assert self.hears[1].news == news

    def test_static_member_leaves_on_request(self: Any) -> None:
        """Then its partitions are assigned to another at once."""
        a, b = (self.member("t", group_instance_id=each) for each in "ab")
        self.until(lambda: self.balanced(a, b))
        self.cluster.now(a.close(leave=True))
        self.until(lambda: self.balanced(b), 10)

    def test_close_at_any_time(self: Any) -> None:
        """It ends soon, whatever goes on, and leaves nothing behind."""
        for turns in range(0, 40, 3):
            a = self.member("t")
            for _ in range(turns):
                self.cluster.clock.advance(0.001)
            self.cluster.now(a.close(), 8)
            assert (a.state, a.assignment) == ("unjoined", frozenset())
        b = self.member("t")
        self.until(lambda: self.balanced(b), 60)

    def test_close_without_brokers(self: Any) -> None:
        """It does not take long, and does not fail."""
        a = self.member("t")
        self.until(lambda: self.balanced(a))
        self.lose(0)
        self.cluster.now(a.close(), 8)
        assert self.hears[0].heard("revoked") == places("t", *range(6))

    def test_commits_may_be_given_up(self: Any) -> None:
        """A cancelled commit fails at once; others go on."""
        a = self.member("t")
        self.until(lambda: self.balanced(a))
        for turns in range(6):
            commit, other = a.commit({P0: CommittedOffset(turns)}), a.commit({P1: CommittedOffset(turns)})
            for _ in range(turns):
                self.cluster.clock.advance(0)
            if not commit.called:
                commit.cancel()
                self.failureResultOf(commit, CancelledError)
            self.cluster.now(other)
            asked = a.committed([P1])
            if turns % 2:
                asked.cancel()
                self.failureResultOf(asked, CancelledError)
            else:
                assert self.cluster.now(asked) == {P1: CommittedOffset(turns)}

    def test_commit_without_a_coordinator(self: Any) -> None:
        """It fails after its timeout, while the member goes on trying to join."""
        self.lose(0)
        a = self.member("t")
        assert self.failure_of(a.commit({P0: CommittedOffset(1)})).code is ErrorCode.REBALANCE_IN_PROGRESS
        assert a.state == "joining"

    def test_closing_may_be_given_up(self: Any) -> None:
        """It goes on all the same."""
        a = self.member("t")
        self.until(lambda: self.balanced(a))
        closing = a.close()
        closing.cancel()
        self.failureResultOf(closing, CancelledError)
        self.cluster.settle(1)
        assert a.state == "unjoined"

    def test_a_commit_across_a_rebalance(self: Any) -> None:
        """Partitions that stay assigned are committed in the new generation."""
        a = self.member("t", assignors=("cooperative-sticky",))
        self.until(lambda: self.balanced(a))
        b = self.member("t", assignors=("cooperative-sticky",))
        for number in range(200):
            self.cluster.clock.advance(0.005)
            if number % 20 == 0:
                kept = min(a.assignment)
                self.cluster.now(a.commit({kept: CommittedOffset(number)}))
        self.until(lambda: self.balanced(a, b))

    def test_partitions_of_others_cannot_be_committed(self: Any) -> None:
        """The error says why, and what to do."""
        a, b = self.two(session_timeout=6.0)
        before = a.metadata
        had = a.assignment
        self.lose(0)
        self.until(lambda: self.balanced(b), 60)
        offsets = GroupOffsets(self.a_client(), "g", 5.0)
        failed = self.failure_of(offsets.commit({each: CommittedOffset(3) for each in had}, before))
        assert failed.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
        assert failed.errors.keys() == had
        assert "raise max_poll_interval" in str(failed)


class ClassicTests(EitherProtocol, MembershipCase):
    """The classic protocol."""

    def test_heartbeats(self) -> None:
        """They keep a member that has nothing else to say."""
        a = self.member("t", session_timeout=6.0, heartbeat_interval=2.0)
        self.until(lambda: self.balanced(a))
        generation = a.metadata.generation
        self.until_time(60)
        assert a.metadata.generation == generation

    def until_time(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            for each in self.members:
                each.polled()
            self.cluster.settle(1)

    def test_cooperative_members_keep_partitions(self) -> None:
        """When another member joins, half of the partitions are revoked and the rest are kept."""
        a = self.member("t", assignors=("cooperative-sticky",))
        self.until(lambda: self.balanced(a))
        b = self.member("t", assignors=("cooperative-sticky",))
        self.until(lambda: self.balanced(a, b))
        assert len(self.hears[0].heard("revoked")) == 3
        assert self.hears[0].heard("revoked") == b.assignment

    def test_eager_members_give_up_all(self) -> None:
        """Also if they could do otherwise, as long as they offer one that cannot."""
        a = self.member("t", assignors=("roundrobin", "cooperative-sticky"))
        self.until(lambda: self.balanced(a))
        b = self.member("t", assignors=("cooperative-sticky", "roundrobin"))
        self.until(lambda: self.balanced(a, b))
        assert self.hears[0].heard("revoked") == places("t", *range(6))

    def test_eager_sticky_assignment(self) -> None:
        """Revoked partitions are assigned again."""
        a, b = self.member("t", assignors=("sticky",)), self.member("t", assignors=("sticky",))
        self.until(lambda: self.balanced(a, b))
        had = {a: a.assignment, b: b.assignment}
        c = self.member("t", assignors=("sticky",))
        self.until(lambda: self.balanced(a, b, c))
        assert all(each.assignment < had[each] for each in had)

    def test_a_member_of_another_mind(self) -> None:
        """A member without a common assignor is refused, with advice."""
        a = self.member("t", assignors=("range",))
        self.until(lambda: self.balanced(a))
        self.member("t", assignors=("sticky",))
        self.until(lambda: bool(self.hears[1].errors))
        (error,) = self.hears[1].errors
        assert "assignor" in str(error)
        assert "INCONSISTENT_GROUP_PROTOCOL" in str(error)

    def test_session_timeout_too_short(self) -> None:
        """The error has the bounds that the broker is configured with."""
        self.member("t", session_timeout=0.1, heartbeat_interval=0.05)
        self.until(lambda: bool(self.hears[0].errors))
        assert "session_timeout must be between" in str(self.hears[0].errors[0])

    def test_duplicate_instance_id(self) -> None:
        """The former is fenced: it loses what it had, and ends."""
        a = self.member("t", group_instance_id="i")
        self.until(lambda: self.balanced(a))
        b = self.member("t", group_instance_id="i")
        self.until(lambda: bool(self.hears[0].errors))
        assert self.hears[0].heard("lost") == places("t", *range(6))
        assert "group_instance_id 'i'" in str(self.hears[0].errors[0])
        self.until(lambda: self.balanced(b))

    def test_a_heartbeat_overtakes_a_join(self) -> None:
        """A member that the coordinator does not know yet, since its JoinGroup is on the way, does not join twice."""
        a = self.member("t", heartbeat_interval=0.1)
        self.until(lambda: self.balanced(a))
        ask = GroupCoordinatorClient.ask
        joined: list[str] = []

        async def slow(coordinator: GroupCoordinatorClient, message: Any, **options: Any) -> Any:
            if isinstance(message, JoinGroupRequest):
                joined.append(message.member_id)
                await sleep(self.cluster.clock, 1.0)
            return await ask(coordinator, message, **options)

        self.patch(GroupCoordinatorClient, "ask", slow)
        b = self.member("t", heartbeat_interval=0.1)
        self.until(lambda: self.balanced(a, b), 10)
        assert joined.count("") == 1, joined
        assert set(joined) == {"", a.metadata.member_id, b.metadata.member_id}

    def test_rejoin(self) -> None:
        """A consumer may ask for a rebalance."""
        a = self.member("t")
        self.until(lambda: self.balanced(a))
        before = a.metadata.generation
        a.rejoin("I want to")
        self.until(lambda: self.balanced(a) and a.metadata.generation > before)


class ConsumerTests(EitherProtocol, MembershipCase):
    """The consumer protocol."""

    protocol = "consumer"
    config = {**MembershipCase.config, "group.consumer.session.timeout.ms": "45000"}

    def test_members_keep_partitions(self) -> None:
        """When another member joins, half of the partitions are revoked and the rest are kept."""
        a = self.member("t")
        self.until(lambda: self.balanced(a))
        b = self.member("t")
        self.until(lambda: self.balanced(a, b))
        assert self.hears[0].heard("revoked") == b.assignment

    def test_names_that_are_forgotten(self) -> None:
        """However many topics come and go, a member remembers those that it has."""
        for number in range(5):
            self.cluster[0].create(f"other-{number}", 1)
        a: Any = self.member(metadata_max_age=2.0)
        a.subscribe(Subscription.matching("page-.*"))
        for name in ("page-1", "page-2"):
            self.cluster[0].create(name, 1)
            self.until(lambda name=name: self.balanced(a, everything=places(name, 0)), 60)  # type: ignore[misc]
            assert set(a._names.values()) == {name}
            self.cluster.now(AdminClient(self.a_client()).delete_topics([name]))
            self.until(lambda: a.assignment == frozenset(), 60)

    def test_a_bad_pattern(self) -> None:
        """The broker refuses it, and the membership ends."""
        a = self.member()
        a.subscribe(Subscription.matching("("))
        self.until(lambda: bool(self.hears[0].errors))
        assert "RE2" in str(self.hears[0].errors[0])

    def test_unknown_assignor(self) -> None:
        """The broker refuses it, and the membership ends."""
        self.member("t", group_remote_assignor="fair")
        self.until(lambda: bool(self.hears[0].errors))
        assert "group_remote_assignor" in str(self.hears[0].errors[0])

    def test_duplicate_instance_id(self) -> None:
        """The latter is refused as long as the former is there."""
        a = self.member("t", group_instance_id="i")
        self.until(lambda: self.balanced(a))
        self.member("t", group_instance_id="i")
        self.until(lambda: bool(self.hears[1].errors))
        assert "group_instance_id 'i'" in str(self.hears[1].errors[0])
        assert self.balanced(a)

    def test_both_protocols_in_one_group(self) -> None:
        """As during the migration from one to the other."""
        a = self.member("t", group_protocol="classic", assignors=("cooperative-sticky",))
        self.until(lambda: self.balanced(a))
        b = self.member("t")
        self.until(lambda: self.balanced(a, b), 60)
        self.cluster.now(a.close())
        self.until(lambda: self.balanced(b), 60)


class FailoverCase(MembershipCase):
    """Three brokers that keep what groups commit in three places."""

    brokers = 3
    config = {**MembershipCase.config, "offsets.topic.replication.factor": "3", "default.replication.factor": "3"}

    def fail_over(self) -> None:
        """Kill the coordinator; no partition is lost, and commits go on."""
        a, b = self.member("t"), self.member("t")
        self.until(lambda: self.balanced(a, b))
        news = [list(each.news) for each in self.hears]
        mine = min(a.assignment)
        self.cluster.now(a.commit({mine: CommittedOffset(4)}))
        coordinator = self.coordinator()
        commit = a.commit({mine: CommittedOffset(5)})
        self.cluster.kill(coordinator)
        results: list[Any] = []
        commit.addBoth(results.append)
        self.until(lambda: bool(results), 60)
        assert results == [None], results
        self.until(lambda: self.balanced(a, b), 60)
        assert self.cluster.now(b.committed([mine]), 30) == {mine: CommittedOffset(5)}
        for _ in range(60):
            for each in self.members:
                each.polled()
            self.cluster.settle(1)
        assert [each.news for each in self.hears] == news

    def coordinator(self) -> int:
        """The broker that coordinates the group."""
        client = self.a_client(self.cluster.alive[0])
        found = self.cluster.now(AdminClient(client).list_groups(), 10)
        (group,) = found
        return int(group.coordinator)


class ClassicFailoverTests(FailoverCase):
    """The classic protocol."""

    def test_the_coordinator_dies(self) -> None:
        """Members find the next, and go on as they were."""
        self.fail_over()

    def lose_power(self, state: str, leader_stops_at: str) -> tuple[Membership, Membership]:
        """
        Have a second member wait for the first one, and the coordinator's machine without power meanwhile: the second
        has connections that show nothing.
        """
        a = self.member("t", session_timeout=10.0, heartbeat_interval=3.0)
        self.until(lambda: self.balanced(a))

        async def never(*_: Any) -> Any:
            await Deferred()

        step = getattr(a, leader_stops_at)
        setattr(a, leader_stops_at, never)
        b = self.member("t", session_timeout=10.0, heartbeat_interval=3.0)
        self.until(lambda: b.state == state)
        self.cluster.settle(4)  # a heartbeat, so that its connection is there, too
        setattr(a, leader_stops_at, step)
        coordinator = self.coordinator()
        for end in list(self.cluster.network.ends):
            if end.mine == coordinator:  # the other end hears nothing of it
                end.open = False
                self.cluster.network.ends.remove(end)
        self.cluster.kill(coordinator)
        self.cluster.settle(2)
        assert b.state == state
        return a, b

    def test_no_power_while_syncing(self) -> None:
        """
        It finds the next coordinator when its session is over at the latest, since its heartbeats are not answered, and
        not when its patience with the rebalance ends.
        """
        a, b = self.lose_power("syncing", "_sync")
        self.until(lambda: b.state != "syncing", 9)
        self.until(lambda: self.balanced(a, b), 60)

    def test_no_power_while_joining(self) -> None:
        """Likewise; the first member never comes, and its session ends."""
        _, b = self.lose_power("joining", "_join")
        self.until(lambda: self.balanced(b), 60)


class ConsumerFailoverTests(FailoverCase):
    """The consumer protocol."""

    protocol = "consumer"

    def test_the_coordinator_dies(self) -> None:
        """Members find the next, and go on as they were."""
        self.fail_over()
