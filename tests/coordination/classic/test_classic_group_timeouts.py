"""Tests for :mod:`logbus.coordination.classic.classic_group`: session and rebalance timeouts."""

from __future__ import annotations

import time

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, ErrorCode
from tests.coordination.classic.kit import Bench, joining


class SessionTests(SynchronousTestCase):
    def test_silence_ends_a_membership(self) -> None:
        """A member without heartbeats for its session timeout is removed, and the others rebalance."""
        bench = Bench()
        leader, follower = bench.stable(2)
        bench.advance(9)
        bench.beat(leader)
        bench.advance(2)
        self.assertEqual((bench.state, bench.members), ("PreparingRebalance", [leader.member_id]))
        self.assertEqual(bench.beat(follower), ErrorCode.UNKNOWN_MEMBER_ID)

    def test_heartbeats_and_commits_renew_sessions(self) -> None:
        """Either keeps a member."""
        bench = Bench()
        first, second = bench.stable(2)
        for _ in range(5):
            bench.advance(6)
            bench.beat(first)
            bench.group.touch(bench.now, second.member_id)
            bench.group.touch(bench.now, "stranger")
        self.assertEqual(len(bench.members), 2)

    def test_unused_member_id(self) -> None:
        """A reserved id is dropped after its session timeout, and the group with it."""
        bench = Bench()
        pending = bench.join(requires_known_member_id=True).result.member_id
        self.assertFalse(bench.group.is_dead)
        bench.advance(10)
        self.assertTrue(bench.group.is_dead)
        self.assertIs(bench.group.deadline, None)
        self.assertEqual(bench.join(pending).error, ErrorCode.UNKNOWN_MEMBER_ID)

    def test_a_pending_id_holds_a_rebalance_up_only_for_so_long(self) -> None:
        """The others go on when it expires."""
        bench = Bench()
        joined = bench.stable(1, session_timeout_ms=30_000)[0]
        bench.join(requires_known_member_id=True)
        again = bench.join(joined.member_id, session_timeout_ms=30_000)
        self.assertTrue(again.waits)
        bench.advance(10)
        self.assertEqual(again.error, ErrorCode.NONE)

    def test_incomplete_join_expires(self) -> None:
        """A new member has no id yet and cannot send heartbeats: it is kept for 5 minutes."""
        bench = Bench()
        joined = bench.stable(1, rebalance_timeout_ms=3_600_000)[0]
        waiting = bench.join()
        for _ in range(60):
            bench.advance(5)
            self.assertEqual(bench.beat(joined), ErrorCode.REBALANCE_IN_PROGRESS)
        self.assertEqual(waiting.error, ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertEqual(bench.members, [joined.member_id])

    def test_no_expiration_while_joining(self) -> None:
        """A member that waits for a rebalance cannot send heartbeats: its session does not end meanwhile."""
        bench = Bench()
        leader, follower = bench.stable(2)
        waiting = bench.join(leader.member_id)
        for _ in range(8):
            bench.advance(5)
            bench.beat(follower)
        self.assertTrue(waiting.waits)
        self.assertEqual(len(bench.members), 2)

    def test_no_expiration_while_syncing(self) -> None:
        """A member that waits for its assignment does not expire; its session starts when it is answered."""
        bench = Bench()
        leader, follower = bench.stable(2)
        again = bench.join(leader.member_id), bench.join(follower.member_id)
        parked = bench.sync(again[1].result)
        for _ in range(6):
            bench.advance(5)
            bench.beat(again[0].result)
        bench.holds = True
        bench.sync(again[0].result, {})
        bench.advance(25)
        bench.stored()
        self.assertEqual(parked.error, ErrorCode.NONE)
        bench.advance(9)
        self.assertEqual(len(bench.members), 2)
        bench.advance(1)
        self.assertEqual(bench.members, [])


class RebalanceTests(SynchronousTestCase):
    def test_late_members_are_left_out(self) -> None:
        """After the longest rebalance timeout of all members the generation goes on without it."""
        bench = Bench()
        first, second, third = bench.stable(3, session_timeout_ms=100_000)
        again = [bench.join(one.member_id, session_timeout_ms=100_000) for one in (first, second)]
        bench.advance(59)
        self.assertTrue(again[0].waits)
        bench.advance(1)
        self.assertEqual([one.error for one in again], [ErrorCode.NONE] * 2)
        self.assertEqual(bench.beat(third), ErrorCode.UNKNOWN_MEMBER_ID)

    def test_member_without_sync_is_removed(self) -> None:
        """A member that sends heartbeats but no SyncGroup is removed."""
        bench = Bench()
        leader, follower = bench.stable(2)
        leader, follower = bench.join(leader.member_id), bench.join(follower.member_id)
        bench.sync(leader.result, {})
        for _ in range(12):
            bench.advance(5)
            bench.beat(leader.result)
            bench.beat(follower.result)
        self.assertEqual((bench.state, bench.members), ("PreparingRebalance", [leader.result.member_id]))

    def test_leader_never_assigns(self) -> None:
        """If the leader does not assign, the waiting members must rejoin, and one of them becomes the leader."""
        bench = Bench()
        leader, follower = bench.stable(2)
        leader, follower = bench.join(leader.member_id), bench.join(follower.member_id)
        parked = bench.sync(follower.result)
        for _ in range(12):
            bench.advance(5)
            bench.beat(leader.result)
        self.assertEqual(parked.error, ErrorCode.REBALANCE_IN_PROGRESS)
        self.assertEqual(bench.join(follower.result.member_id).result.leader, follower.result.member_id)

    def test_all_members_expire(self) -> None:
        """The group is empty in the end, and no timer is left."""
        bench = Bench()
        bench.stable(3)
        bench.join()
        bench.advance(400)
        self.assertEqual((bench.state, bench.members), ("Empty", []))
        self.assertIs(bench.group.deadline, None)


class FirstRebalanceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.bench = Bench()
        self.bench.set(initial_rebalance_delay_ms=3000)

    def test_initial_delay(self) -> None:
        """KIP-134: those who start together are in one generation."""
        first, second = self.bench.join(), self.bench.join()
        self.bench.advance(2.9)
        self.assertTrue(first.waits)
        self.bench.advance(3.2)
        self.assertEqual((first.result.generation, second.result.generation), (1, 1))

    def test_initial_delay_is_not_extended(self) -> None:
        """Without further members there is one delay."""
        first = self.bench.join()
        self.bench.advance(3)
        self.assertEqual(first.error, ErrorCode.NONE)

    def test_initial_delay_is_extended(self) -> None:
        """Each new member extends the delay, up to the rebalance timeout in all."""
        first = self.bench.join(rebalance_timeout_ms=10_000)
        for _ in range(9):
            self.bench.advance(1)
            self.bench.join(rebalance_timeout_ms=10_000)
        self.assertTrue(first.waits)
        self.bench.advance(1)
        self.assertEqual(first.error, ErrorCode.NONE)
        self.assertEqual(len(first.result.members), 10)

    def test_departures_do_not_shorten_the_delay(self) -> None:
        """
        The remaining members wait for the end of the delay, as others may come; if none remains, the group is empty
        then.
        """
        first, second = self.bench.join(), self.bench.join()
        self.bench.leave(self.bench.members[1])
        self.assertEqual(second.error, ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertTrue(first.waits)
        self.bench.leave(self.bench.members[0])
        self.bench.advance(7)
        self.assertEqual(self.bench.state, "Empty")


class BoundTests(SynchronousTestCase):
    def test_ten_thousand_members_expire(self) -> None:
        """Pending or joined, dynamic or static: when their sessions are over, no trace of them is left."""
        bench = Bench()
        bench.set(max_size=100_000)
        for number in range(5000):
            bench.join(requires_known_member_id=True)
            bench.join(instance_id=str(number) if number % 2 else None)
        bench.advance(2000)
        self.assertEqual((bench.state, bench.members), ("Empty", []))
        roster = bench.group._roster
        members = roster.members
        self.assertEqual(len(roster.sessions) + len(roster.sessions._heap), 0)
        self.assertFalse(members.pending or members._static or members._supported or members.size or members.joined)
        self.assertFalse(roster.unsynced or bench.group._responses._queue)
        self.assertTrue(all(answer.results for answer in bench.answers))

    def test_a_hundred_members_rebalance_at_once(self) -> None:
        """Handling many members takes milliseconds of CPU time."""
        bench = Bench()
        joined = bench.stable(100)
        began = time.process_time()
        answers = [bench.join(one.member_id) for one in joined]
        bench.assign([answer.result for answer in answers])
        self.assertEqual(bench.state, "Stable")
        self.assertLess(time.process_time() - began, 0.5)

    def test_a_generation_has_32_bits(self) -> None:
        """After the last one comes the first."""
        bench = Bench()
        joined = bench.stable(1)[0]
        bench.record().generation = 2**31 - 1
        bench.restart()
        self.assertEqual(bench.join(joined.member_id).result.generation, 1)


class ResignTests(SynchronousTestCase):
    def test_waiting_members_get_not_coordinator(self) -> None:
        """Another broker coordinates the group now; here it is dead."""
        bench = Bench()
        leader, _ = bench.stable(2)
        waiting = [bench.join(leader.member_id), bench.join()]
        bench.group.resign()
        self.assertEqual([one.error for one in waiting], [ErrorCode.NOT_COORDINATOR] * 2)
        parked = Bench()
        answer = parked.sync(parked.stable(2)[1])
        self.assertEqual(answer.error, ErrorCode.NONE)
        again = parked.join(parked.members[0]), parked.join(parked.members[1])
        answer = parked.sync(again[1].result)
        parked.group.resign()
        self.assertEqual(answer.error, ErrorCode.NOT_COORDINATOR)

    def test_the_dead_answer(self) -> None:
        """COORDINATOR_NOT_AVAILABLE: the client shall look for the coordinator."""
        bench = Bench()
        joined = bench.stable(1)[0]
        bench.group.resign()
        self.assertTrue(bench.group.is_dead)
        self.assertIs(bench.group.deadline, None)
        gone = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self.assertEqual(bench.join().error, gone)
        self.assertEqual(bench.sync(joined).error, gone)
        self.assertEqual(bench.beat(joined), gone)
        self.assertEqual(bench.leave(joined.member_id), [gone])
        self.assertEqual(self.assertRaises(ApiError, bench.group.check_commit, "", None, -1, 9).code, gone)
        self.assertEqual(
            self.assertRaises(ApiError, bench.group.check_fetch, None, 0).code, ErrorCode.GROUP_ID_NOT_FOUND
        )
        self.assertEqual(self.assertRaises(ApiError, bench.group.check_deletable).code, ErrorCode.GROUP_ID_NOT_FOUND)
        bench.group.expire(bench.now + 1000)
        bench.group.resign()

    def test_late_write(self) -> None:
        """A record that becomes durable after the group's end has no effect."""
        for error in (None, ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)):
            bench = Bench()
            joined = bench.join().result
            bench.holds = True
            parked = bench.sync(joined, {})
            bench.group.resign()
            self.assertEqual(parked.error, ErrorCode.NOT_COORDINATOR)
            bench.stored(error)
            self.assertEqual(bench.state, "Dead")


class ReentryTests(SynchronousTestCase):
    def test_leaving_within_a_response(self) -> None:
        """A client that disconnects when it is answered does no harm."""
        bench = Bench()
        first = bench.join().result
        bench.group.join(bench.now, joining(), lambda result: bench.leave(result.member_id) and None)
        again = bench.join(first.member_id)
        self.assertEqual(again.error, ErrorCode.NONE)
        self.assertEqual((bench.state, bench.members), ("PreparingRebalance", [first.member_id]))
