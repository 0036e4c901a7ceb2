"""Tests for :mod:`logbus.coordination.classic.classic_group`: members that join, sync and leave."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.classic.classic_group import LeavingMember
from logbus.errors import ApiError, ErrorCode
from tests.coordination.classic.kit import RANGE, Bench, joining, subscription

OTHER = (("range", subscription("orders", "payments")),)


class JoinTests(SynchronousTestCase):
    def test_without_delay_the_first_member_need_not_wait(self) -> None:
        """A delay of 0 answers at once: generation 1, led by its only member."""
        bench = Bench()
        joined = bench.join().result
        self.assertEqual((joined.error, joined.generation, joined.leader), (ErrorCode.NONE, 1, joined.member_id))
        self.assertEqual((joined.protocol_type, joined.protocol), ("consumer", "range"))
        self.assertEqual(joined.members, ((joined.member_id, None, RANGE[0][1]),))
        self.assertEqual(bench.state, "CompletingRebalance")

    def test_only_the_leader_hears_of_the_members(self) -> None:
        """Other members get the leader's id, but no metadata of members."""
        leader, *others = Bench().stable(3)
        self.assertEqual(len(leader.members), 3)
        for other in others:
            self.assertEqual((other.members, other.leader, other.generation), ((), leader.member_id, leader.generation))

    def test_new_member_gets_an_id(self) -> None:
        """KIP-394: a dynamic member comes back with its id, so that a lost answer leaves no member behind."""
        bench = Bench()
        first = bench.join(requires_known_member_id=True).result
        self.assertEqual(first.error, ErrorCode.MEMBER_ID_REQUIRED)
        self.assertTrue(first.member_id.startswith("app-"))
        self.assertEqual(bench.state, "Empty")
        second = bench.join(first.member_id, requires_known_member_id=True).result
        self.assertEqual((second.error, second.member_id), (ErrorCode.NONE, first.member_id))

    def test_static_member_joins_at_once(self) -> None:
        """It needs no second JoinGroup: its instance id identifies it."""
        joined = Bench().join(instance_id="one", requires_known_member_id=True).result
        self.assertEqual(joined.error, ErrorCode.NONE)
        self.assertTrue(joined.member_id.startswith("one-"))

    def test_an_invented_id_is_refused(self) -> None:
        """Ids are made by the coordinator."""
        bench = Bench()
        self.assertEqual(bench.join("mine").error, ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertTrue(bench.group.is_dead, "nothing is left of the attempt")

    def test_a_pending_id_is_not_for_a_static_member(self) -> None:
        """An instance id without a member is unknown, for any member id."""
        bench = Bench()
        pending = bench.join(requires_known_member_id=True).result.member_id
        self.assertEqual(bench.join(pending, "one").error, ErrorCode.UNKNOWN_MEMBER_ID)

    def test_session_timeouts_have_limits(self) -> None:
        """The broker's limits are inclusive."""
        bench = Bench()
        for timeout, error in (
            (5999, ErrorCode.INVALID_SESSION_TIMEOUT),
            (6000, ErrorCode.NONE),
            (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
            (-1, ErrorCode.INVALID_SESSION_TIMEOUT),
        ):
            self.assertEqual(Bench().join(session_timeout_ms=timeout).error, error, timeout)
        self.assertIs(bench.group.deadline, None)

    def test_common_protocol_is_required(self) -> None:
        """A member without a common protocol, or of another protocol type, is refused."""
        bench = Bench()
        bench.stable(1, protocols=(("a", b""), ("b", b"")))
        refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        self.assertEqual(bench.join(protocols=(("c", b""),)).error, refused)
        self.assertEqual(bench.join(protocols=(("a", b""),), protocol_type="connect").error, refused)
        self.assertEqual(bench.join(protocols=()).error, refused)
        self.assertEqual(bench.state, "Stable")
        self.assertTrue(bench.join(protocols=(("b", b""),)).waits)

    def test_the_first_member_brings_protocols(self) -> None:
        """A type, and at least one way of assigning."""
        self.assertEqual(Bench().join(protocols=()).error, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self.assertEqual(Bench().join(protocol_type="").error, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def test_very_many_protocols(self) -> None:
        """A member may not name more than are looked at in a turn."""
        protocols = [(f"p{number}", b"") for number in range(1001)]
        self.assertEqual(Bench().join(protocols=tuple(protocols)).error, ErrorCode.INVALID_REQUEST)
        self.assertEqual(Bench().join(protocols=tuple(protocols[:1000])).error, 0)

    def test_an_empty_group_takes_another_type(self) -> None:
        """An empty group accepts another protocol type."""
        bench = Bench()
        bench.leave(bench.stable(1)[0].member_id)
        self.assertEqual(bench.join(protocol_type="connect").result.protocol_type, "connect")

    def test_the_group_agrees_on_a_protocol(self) -> None:
        """The metadata that the leader gets are those of the protocol that was chosen."""
        bench = Bench()
        first = bench.join(protocols=(("a", b"1a"), ("b", b"1b"))).result
        second = bench.join(protocols=(("b", b"2b"),))
        leader = bench.join(first.member_id, protocols=(("a", b"1a"), ("b", b"1b"))).result
        self.assertEqual(leader.protocol, "b")
        self.assertEqual([metadata for _, _, metadata in leader.members], [b"1b", b"2b"])
        self.assertEqual(second.result.protocol, "b")

    def test_unstorable_names(self) -> None:
        """A text that cannot be stored is refused."""
        long = "x" * 40_000
        for change in ({"instance_id": long}, {"protocol_type": long}, {"protocols": ((long, b""),)}):
            bench = Bench()
            self.assertEqual(bench.join(**change).error, ErrorCode.INVALID_REQUEST)
            self.assertTrue(bench.group.is_dead)


class SizeTests(SynchronousTestCase):
    def test_a_full_group(self) -> None:
        """No more members than group.max.size; those who are in may rejoin."""
        bench = Bench()
        bench.set(max_size=2)
        joined = bench.stable(2)
        self.assertEqual(bench.join().error, ErrorCode.GROUP_MAX_SIZE_REACHED)
        self.assertEqual(bench.state, "Stable")
        self.assertEqual(bench.join(joined[1].member_id).error, ErrorCode.NONE)

    def test_a_static_member_returns_to_a_full_group(self) -> None:
        """A static member takes its own place in a full group."""
        bench = Bench()
        bench.set(max_size=1)
        bench.stable(1, instance_id="one")
        self.assertEqual(bench.join(instance_id="one").error, ErrorCode.NONE)

    def test_a_lower_limit_holds_at_the_next_rebalance(self) -> None:
        """If the group is too large, the last members to rejoin are rejected."""
        bench = Bench()
        joined = bench.stable(3)
        bench.set(max_size=2)
        answers = [bench.join(one.member_id) for one in joined]
        self.assertEqual(answers[2].error, ErrorCode.GROUP_MAX_SIZE_REACHED)
        self.assertEqual([answer.error for answer in answers[:2]], [ErrorCode.NONE] * 2)
        self.assertEqual(len(bench.members), 2)

    def test_metadata_size_limit(self) -> None:
        """A group keeps up to 64 MiB of its members' metadata for its leader."""
        bench = Bench()
        big = (("range", bytes(30 * 1024 * 1024)),)
        self.assertEqual(bench.join(protocols=big).error, ErrorCode.NONE)
        bench.join(protocols=big)
        self.assertEqual(bench.join(protocols=big).error, ErrorCode.GROUP_MAX_SIZE_REACHED)
        self.assertEqual(len(bench.members), 2)

    def test_pending_member_limit(self) -> None:
        """When there are as many pending ids as members allowed, the oldest is forgotten for a new one."""
        bench = Bench()
        bench.set(max_size=3)
        ids = [bench.join(requires_known_member_id=True).result.member_id for _ in range(4)]
        self.assertEqual(bench.join(ids[0]).error, ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertEqual(bench.join(ids[3]).error, ErrorCode.NONE)


class RejoinTests(SynchronousTestCase):
    def test_a_new_member_makes_all_rejoin(self) -> None:
        """Heartbeats tell members to rejoin; the new member waits for them."""
        bench = Bench()
        joined = bench.stable(2)
        third = bench.join()
        self.assertEqual(bench.state, "PreparingRebalance")
        self.assertEqual({bench.beat(one) for one in joined}, {ErrorCode.REBALANCE_IN_PROGRESS})
        again = [bench.join(one.member_id) for one in joined]
        self.assertEqual({one.result.generation for one in (*again, third)}, {joined[0].generation + 1})

    def test_follower_rejoins_unchanged(self) -> None:
        """In a stable group a JoinGroup with the same protocols returns the present generation."""
        bench = Bench()
        _, follower = bench.stable(2)
        self.assertEqual(bench.join(follower.member_id).result, follower)
        self.assertEqual(bench.state, "Stable")

    def test_follower_rejoins_with_another_subscription(self) -> None:
        """In a stable group this starts a rebalance."""
        bench = Bench()
        _, follower = bench.stable(2)
        self.assertTrue(bench.join(follower.member_id, protocols=OTHER).waits)
        self.assertEqual(bench.state, "PreparingRebalance")

    def test_the_leader_can_always_have_a_rebalance(self) -> None:
        """A leader may rejoin because of new partitions, which its metadata does not show."""
        bench = Bench()
        leader, follower = bench.stable(2)
        again = bench.join(leader.member_id)
        self.assertTrue(again.waits)
        bench.join(follower.member_id)
        self.assertEqual(again.result.generation, leader.generation + 1)

    def test_rejoin_after_a_lost_response(self) -> None:
        """Before the assignment, a member with the same metadata gets the same generation again."""
        bench = Bench()
        first = bench.join().result
        self.assertEqual(bench.join(first.member_id).result, first)
        self.assertEqual(bench.state, "CompletingRebalance")

    def test_changed_metadata_before_the_assignment(self) -> None:
        """The leader is using outdated metadata: a rebalance starts."""
        bench = Bench()
        leader, follower = bench.stable(2)
        waiting = [bench.join(leader.member_id), bench.join(follower.member_id)]
        parked = bench.sync(waiting[1].result)
        changed = bench.join(leader.member_id, protocols=OTHER)
        self.assertEqual(parked.error, ErrorCode.REBALANCE_IN_PROGRESS)
        self.assertTrue(changed.waits)

    def test_second_request_replaces_the_first(self) -> None:
        """Each request is answered, also when a second one of the same member overtakes it."""
        bench = Bench()
        leader, _ = bench.stable(2)
        first, second = bench.join(leader.member_id), bench.join(leader.member_id)
        self.assertEqual(first.error, ErrorCode.REBALANCE_IN_PROGRESS)
        self.assertTrue(second.waits)

    def test_missing_leader(self) -> None:
        """The next of the members that rejoined leads."""
        bench = Bench()
        leader, *others = bench.stable(3)
        bench.join(others[0].member_id, protocols=OTHER)
        bench.leave(leader.member_id)
        again = bench.join(others[1].member_id)
        self.assertEqual(again.result.leader, others[0].member_id)
        self.assertEqual(len(bench.members), 2)


class SyncTests(SynchronousTestCase):
    def test_followers_wait_for_the_leader(self) -> None:
        """Their SyncGroup is parked, and all are answered together once the assignment is durable."""
        bench = Bench()
        leader, follower = bench.stable(2)
        waiting = bench.join(leader.member_id), bench.join(follower.member_id)
        leader, follower = waiting[0].result, waiting[1].result
        bench.holds = True
        parked = bench.sync(follower)
        self.assertTrue(parked.waits)
        assigned = bench.sync(leader, {leader.member_id: b"1", follower.member_id: b"2", "stranger": b"3"})
        self.assertTrue(assigned.waits, "what is not stored is not told")
        bench.stored()
        self.assertEqual((parked.result.assignment, assigned.result.assignment), (b"2", b"1"))
        self.assertEqual((parked.result.protocol_type, parked.result.protocol), ("consumer", "range"))
        self.assertEqual(bench.state, "Stable")
        self.assertEqual([member.assignment for member in bench.record().members], [b"1", b"2"])

    def test_empty_assignment(self) -> None:
        """With more members than partitions, the rest get an empty assignment, and no error."""
        bench = Bench()
        synced = bench.sync(bench.join().result, {})
        self.assertEqual((synced.error, synced.result.assignment), (ErrorCode.NONE, b""))
        self.assertEqual(bench.state, "Stable")

    def test_late_follower(self) -> None:
        """In a stable group SyncGroup returns the assignment, any number of times."""
        bench = Bench()
        leader, follower = bench.stable(2)
        for joined in (leader, follower, follower):
            self.assertEqual(bench.sync(joined).result.assignment, joined.member_id.encode())

    def test_refused_sync(self) -> None:
        """Unknown members, other generations, and other protocols are refused."""
        bench = Bench()
        joined = bench.stable(1)[0]
        wrong = type(joined)(ErrorCode.NONE, "stranger", joined.generation)
        self.assertEqual(bench.sync(wrong).error, ErrorCode.UNKNOWN_MEMBER_ID)
        old = type(joined)(ErrorCode.NONE, joined.member_id, joined.generation - 1)
        self.assertEqual(bench.sync(old).error, ErrorCode.ILLEGAL_GENERATION)
        for names in ({"protocol_type": "connect"}, {"protocol": "sticky"}):
            self.assertEqual(bench.sync(joined, **names).error, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self.assertEqual(bench.sync(joined, protocol_type="consumer", protocol="range").error, ErrorCode.NONE)

    def test_sync_while_members_join(self) -> None:
        """The generation is over: join again."""
        bench = Bench()
        joined = bench.stable(1)[0]
        bench.join()
        self.assertEqual(bench.sync(joined).error, ErrorCode.REBALANCE_IN_PROGRESS)

    def test_failed_write_of_an_assignment(self) -> None:
        """If the assignment cannot be stored, all waiting members get the error, and a rebalance begins."""
        for failure, told in (
            (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        ):
            bench = Bench()
            joined = bench.join().result
            bench.fails = ApiError(failure)
            self.assertEqual(bench.sync(joined, {joined.member_id: b"x"}).error, told)
            self.assertEqual(bench.state, "PreparingRebalance")
            bench.fails = None
            again = bench.join(joined.member_id).result
            self.assertEqual(again.generation, joined.generation + 1)

    def test_an_assignment_stored_too_late(self) -> None:
        """If another generation began before the log answered, its answer is ignored, be it good or bad."""
        for error in (None, ApiError(ErrorCode.REQUEST_TIMED_OUT)):
            bench = Bench()
            joined = bench.join().result
            bench.holds = True
            parked = bench.sync(joined, {joined.member_id: b"old"})
            newcomer = bench.join()
            self.assertEqual(parked.error, ErrorCode.REBALANCE_IN_PROGRESS)
            again = bench.join(joined.member_id).result
            second = bench.sync(again, {joined.member_id: b"new"})
            bench.stored(error)
            self.assertTrue(second.waits, "the new generation waits for its own record")
            self.assertEqual(bench.state, "CompletingRebalance")
            bench.stored()
            self.assertEqual(second.result.assignment, b"new")
            self.assertEqual(bench.sync(newcomer.result).result.assignment, b"")

    def test_leader_syncs_twice(self) -> None:
        """While the leader's assignment is being stored, a second one is ignored."""
        bench = Bench()
        joined = bench.join().result
        bench.holds = True
        first = bench.sync(joined, {joined.member_id: b"1"})
        second = bench.sync(joined, {joined.member_id: b"2"})
        self.assertEqual(first.error, ErrorCode.REBALANCE_IN_PROGRESS)
        self.assertEqual(len(bench.log), 1)
        bench.stored()
        self.assertEqual(second.result.assignment, b"1")

    def test_responses_come_after_the_transition(self) -> None:
        """A callback may send the next request within the call."""
        bench = Bench()
        first = bench.join().result
        synced = []
        bench.group.join(bench.now, joining(), lambda result: synced.append(bench.sync(result)))
        leader = bench.join(first.member_id).result
        self.assertTrue(synced[0].waits)
        bench.sync(leader, dict.fromkeys(bench.members, b"x"))
        self.assertEqual(synced[0].result.assignment, b"x")

    def test_next_request_during_the_responses(self) -> None:
        """A member may send the next request while the others are not answered yet."""
        bench = Bench()
        first = bench.join().result
        second = bench.join()
        synced = []
        again = joining(first.member_id)
        bench.group.join(bench.now, again, lambda result: synced.append(bench.sync(result, {})))
        self.assertEqual((second.error, synced[0].error, bench.state), (ErrorCode.NONE, ErrorCode.NONE, "Stable"))


class HeartbeatTests(SynchronousTestCase):
    def test_answers(self) -> None:
        """NONE before and after the assignment; unknown members and former generations get errors."""
        bench = Bench()
        joined = bench.join().result
        self.assertEqual(bench.beat(joined), ErrorCode.NONE)
        bench.assign([joined])
        self.assertEqual(bench.beat(joined), ErrorCode.NONE)
        group, now = bench.group, bench.now
        self.assertEqual(group.heartbeat(now, "stranger", None, 1), ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertEqual(group.heartbeat(now, joined.member_id, None, 7), ErrorCode.ILLEGAL_GENERATION)
        self.assertEqual(group.heartbeat(now, joined.member_id, "one", 1), ErrorCode.UNKNOWN_MEMBER_ID)

    def test_a_pending_member_is_none_yet(self) -> None:
        """An id alone is no membership."""
        bench = Bench()
        pending = bench.join(requires_known_member_id=True).result
        self.assertEqual(bench.beat(pending), ErrorCode.UNKNOWN_MEMBER_ID)


class LeaveTests(SynchronousTestCase):
    def test_several_leave_at_once(self) -> None:
        """Each has its own answer, and there is one rebalance."""
        bench = Bench()
        joined = bench.stable(3)
        errors = bench.leave(joined[0].member_id, "stranger", joined[1].member_id)
        self.assertEqual(errors, [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE])
        self.assertEqual((bench.state, bench.members), ("PreparingRebalance", [joined[2].member_id]))
        self.assertEqual(bench.join(joined[2].member_id).result.generation, joined[0].generation + 1)

    def test_last_member_leaves(self) -> None:
        """The empty group is stored with the time, from which committed offsets age."""
        bench = Bench()
        joined = bench.stable(1)[0]
        bench.advance(5)
        bench.leave(joined.member_id)
        self.assertEqual(bench.state, "Empty")
        record = bench.record()
        self.assertEqual((record.generation, record.members, record.leader, record.protocol), (2, [], None, None))
        self.assertEqual((record.protocol_type, record.current_state_timestamp), ("consumer", bench.now_ms()))
        self.assertEqual(bench.group.empty_since_ms, bench.now_ms())
        self.assertIs(bench.group.deadline, None, "an empty group needs no timer")

    def test_failed_write_of_an_empty_group(self) -> None:
        """The group is empty even if that cannot be stored; the members in the log will expire."""
        bench = Bench()
        joined = bench.stable(1)[0]
        bench.fails = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        bench.leave(joined.member_id)
        self.assertEqual(bench.state, "Empty")
        bench.restart()
        bench.advance(11)
        self.assertEqual(bench.state, "Empty")

    def test_leaving_with_a_waiting_request(self) -> None:
        """The request is answered."""
        bench = Bench()
        bench.stable(2)
        waiting = bench.join()
        bench.leave(bench.members[2])
        self.assertEqual(waiting.error, ErrorCode.UNKNOWN_MEMBER_ID)

        parked = Bench()
        leader, follower = parked.stable(2)
        waiting = parked.join(leader.member_id)
        synced = parked.sync(parked.join(follower.member_id).result)
        parked.leave(follower.member_id)
        self.assertEqual(synced.error, ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertEqual(waiting.error, ErrorCode.NONE)

    def test_a_pending_member_leaves(self) -> None:
        """Nothing was agreed with it: no rebalance; but one that waits for it goes on."""
        bench = Bench()
        joined = bench.stable(1)[0]
        pending = bench.join(requires_known_member_id=True).result.member_id
        self.assertEqual(bench.leave(pending), [ErrorCode.NONE])
        self.assertEqual(bench.state, "Stable")
        pending = bench.join(requires_known_member_id=True).result.member_id
        again = bench.join(joined.member_id)
        self.assertTrue(again.waits)
        bench.leave(pending)
        self.assertEqual(again.error, ErrorCode.NONE)

    def test_leaving_an_empty_group(self) -> None:
        """Members of an empty group are unknown."""
        bench = Bench()
        errors = bench.group.leave(
            0, [LeavingMember("a"), LeavingMember("", "one"), LeavingMember("", None), LeavingMember("a", "one")]
        )
        self.assertEqual(errors, [ErrorCode.UNKNOWN_MEMBER_ID] * 4)
        self.assertEqual(bench.group.leave(0, []), [])
