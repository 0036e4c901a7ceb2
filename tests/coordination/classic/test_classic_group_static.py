"""Tests for :mod:`logbus.coordination.classic.classic_group`: static members (KIP-345, KIP-814)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.classic.classic_group import JoinResult, LeavingMember
from logbus.errors import ApiError, ErrorCode
from tests.coordination.classic.kit import Bench


class StaticBench(Bench):
    def pair(self) -> tuple[JoinResult, JoinResult]:
        """A stable group of the instances ``one``, which leads, and ``two``."""
        first = self.join(instance_id="one").result
        second = self.join(instance_id="two")
        leader = self.join(first.member_id, "one").result
        self.assign([leader, second.result])
        return leader, second.result


class StaticTests(SynchronousTestCase):
    def test_restarted_member(self) -> None:
        """A restarted member gets a new member id and the same assignment, without a rebalance."""
        bench = StaticBench()
        leader, follower = bench.pair()
        back = bench.join(instance_id="two").result
        self.assertNotEqual(back.member_id, follower.member_id)
        self.assertEqual((back.error, back.generation, back.leader), (ErrorCode.NONE, 2, leader.member_id))
        self.assertEqual(bench.state, "Stable")
        self.assertEqual(bench.beat(leader, "one"), ErrorCode.NONE)
        self.assertEqual(bench.sync(back, instance_id="two").result.assignment, follower.member_id.encode())

    def test_the_former_process_is_fenced(self) -> None:
        """All requests of the former process are refused."""
        bench = StaticBench()
        _, follower = bench.pair()
        bench.join(instance_id="two")
        fenced, group, former = ErrorCode.FENCED_INSTANCE_ID, bench.group, follower.member_id
        self.assertEqual(bench.beat(follower, "two"), fenced)
        self.assertEqual(bench.sync(follower, instance_id="two").error, fenced)
        self.assertEqual(bench.join(former, "two").error, fenced)
        self.assertEqual(group.leave(bench.now, [LeavingMember(former, "two")]), [fenced])
        self.assertEqual(self.assertRaises(ApiError, group.check_commit, former, "two", 2, 9).code, fenced)
        self.assertEqual(bench.beat(follower), ErrorCode.UNKNOWN_MEMBER_ID)

    def test_restarted_leader_skips_the_assignment(self) -> None:
        """A returning leader is told to skip the assignment (KIP-814)."""
        bench = StaticBench()
        bench.pair()
        back = bench.join(instance_id="one").result
        self.assertTrue(back.skip_assignment)
        self.assertEqual((back.leader, len(back.members), bench.state), (back.member_id, 2, "Stable"))

    def test_restarted_leader_before_version_9(self) -> None:
        """Before JoinGroup 9 a returning leader is told its former id as the leader, so it does not assign."""
        bench = StaticBench()
        leader, _ = bench.pair()
        back = bench.join(instance_id="one", supports_skip_assignment=False).result
        self.assertEqual((back.leader, back.members, back.skip_assignment), (leader.member_id, (), False))

    def test_a_follower_does_not_skip(self) -> None:
        """A returning member that is not the leader."""
        bench = StaticBench()
        bench.pair()
        self.assertFalse(bench.join(instance_id="two").result.skip_assignment)

    def test_new_id_is_stored_before_the_response(self) -> None:
        """A broker that takes over knows it."""
        bench = StaticBench()
        bench.pair()
        bench.holds = True
        back = bench.join(instance_id="two")
        self.assertTrue(back.waits)
        bench.stored()
        bench.restart()
        self.assertEqual(bench.beat(back.result, "two"), ErrorCode.NONE)

    def test_failed_write_of_a_new_id(self) -> None:
        """If the new id cannot be stored, the former one stays, and the process must retry."""
        bench = StaticBench()
        _, follower = bench.pair()
        bench.fails = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        self.assertEqual(bench.join(instance_id="two").error, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.assertEqual(bench.beat(follower, "two"), ErrorCode.NONE)
        self.assertEqual(bench.sync(follower, instance_id="two").result.assignment, follower.member_id.encode())
        bench.fails = None
        self.assertEqual(bench.join(instance_id="two").error, ErrorCode.NONE)

    def test_restarted_before_sync(self) -> None:
        """The new process may send SyncGroup instead of the former one."""
        bench = StaticBench()
        leader, follower = bench.pair()
        again = bench.join(leader.member_id, "one"), bench.join(follower.member_id, "two")
        bench.sync(again[0].result, {}, "one")
        back = bench.join(instance_id="two").result
        bench.sync(back, instance_id="two")
        for _ in range(14):
            bench.advance(5)
            self.assertEqual(bench.beat(again[0].result, "one"), ErrorCode.NONE)
            self.assertEqual(bench.beat(back, "two"), ErrorCode.NONE)

    def test_a_new_id_stored_too_late(self) -> None:
        """A rebalance that began meanwhile answers the process; the log's answer is ignored."""
        for error in (None, ApiError(ErrorCode.REQUEST_TIMED_OUT)):
            bench = StaticBench()
            leader, _ = bench.pair()
            bench.holds = True
            back = bench.join(instance_id="two")
            again = bench.join(leader.member_id, "one")
            self.assertEqual((back.result.generation, again.result.generation), (3, 3))
            bench.stored(error)
            self.assertEqual(bench.members, [leader.member_id, back.result.member_id])

    def test_a_new_id_stored_while_members_join(self) -> None:
        """The process has joined the rebalance with it, and waits for the others."""
        bench = StaticBench()
        leader, _ = bench.pair()
        bench.holds = True
        back = bench.join(instance_id="two")
        bench.join(instance_id="three")
        bench.stored()
        self.assertTrue(back.waits)
        bench.join(leader.member_id, "one")
        self.assertEqual(back.result.generation, 3)

    def test_restarted_twice_before_the_write(self) -> None:
        """The later process holds the instance."""
        bench = StaticBench()
        bench.pair()
        bench.holds = True
        first, second = bench.join(instance_id="two"), bench.join(instance_id="two")
        self.assertEqual(first.error, ErrorCode.FENCED_INSTANCE_ID)
        bench.stored(ApiError(ErrorCode.REQUEST_TIMED_OUT))
        bench.stored()
        self.assertEqual(bench.beat(second.result, "two"), ErrorCode.NONE)

    def test_another_protocol_makes_all_rejoin(self) -> None:
        """The new process prefers what the group does not use."""
        bench = StaticBench()
        both = (("a", b""), ("b", b""))
        joined = bench.join(instance_id="one", protocols=both).result
        bench.assign([joined])
        back = bench.join(instance_id="one", protocols=both[::-1]).result
        self.assertEqual((back.generation, back.protocol), (joined.generation + 1, "b"))

    def test_started_anew_before_the_assignment(self) -> None:
        """The leader may be assigning to the former id: rebalance."""
        bench = StaticBench()
        leader, follower = bench.pair()
        waiting = bench.join(leader.member_id, "one"), bench.join(follower.member_id, "two")
        parked = bench.sync(waiting[1].result, instance_id="two")
        back = bench.join(instance_id="two")
        self.assertEqual(parked.error, ErrorCode.FENCED_INSTANCE_ID)
        self.assertEqual((back.waits, bench.state), (True, "PreparingRebalance"))

    def test_started_anew_while_members_join(self) -> None:
        """The former process's JoinGroup is answered, the new one's waits in its place."""
        bench = StaticBench()
        leader, follower = bench.pair()
        bench.join()
        former = bench.join(follower.member_id, "two")
        back = bench.join(instance_id="two")
        self.assertEqual(former.error, ErrorCode.FENCED_INSTANCE_ID)
        bench.join(leader.member_id, "one")
        self.assertEqual(back.error, ErrorCode.NONE)

    def test_an_operator_removes_an_instance(self) -> None:
        """LeaveGroup with an instance id alone, as of a process that will not come back."""
        bench = StaticBench()
        bench.pair()
        errors = bench.group.leave(bench.now, [LeavingMember("", "two"), LeavingMember("", "three")])
        self.assertEqual(errors, [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID])
        self.assertEqual(bench.state, "PreparingRebalance")

    def test_absent_static_member_stays(self) -> None:
        """A dynamic member that does not rejoin in time is removed; a static one is when its session is over."""
        bench = StaticBench()
        slow = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 8000}
        first = bench.join(instance_id="one", **slow).result
        second, third = bench.join(instance_id="two", **slow), bench.join(**slow)
        leader = bench.join(first.member_id, "one", **slow).result
        bench.assign([leader, second.result, third.result])
        again = bench.join(first.member_id, "one", **slow)
        bench.advance(8)
        self.assertEqual(again.error, ErrorCode.NONE)
        self.assertEqual(bench.members, [leader.member_id, second.result.member_id])

    def test_all_static_members_are_absent(self) -> None:
        """The rebalance waits until one of them rejoins, without a busy loop, whatever timeouts they have."""
        bench = StaticBench()
        hasty = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 0}
        first = bench.join(instance_id="one", **hasty).result
        self.assertEqual(bench.sync(first, {}, "one").error, ErrorCode.NONE)
        second = bench.join(instance_id="two", **hasty)
        bench.group.leave(bench.now, [LeavingMember("", "two")])
        self.assertEqual(second.error, ErrorCode.UNKNOWN_MEMBER_ID)
        before = bench.now
        bench.group.expire(bench.now)
        deadline = bench.group.deadline
        assert deadline is not None
        self.assertGreaterEqual(deadline, before + 1)
        self.assertEqual(bench.join(instance_id="one").error, ErrorCode.NONE)
