"""Tests for :mod:`logbus.coordination.classic.member_sessions`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.classic.member_sessions import MemberSessions

MEMBERS = st.integers(0, 2).map(str)
OPS = st.lists(
    st.one_of(
        st.tuples(st.just("renew"), MEMBERS, st.integers(1, 30)),
        st.tuples(st.just("forget"), MEMBERS, st.just(0)),
        st.tuples(st.just("wait"), st.just(""), st.integers(1, 20)),
    ),
    max_size=60,
)


class SessionsTests(SynchronousTestCase):
    def assert_invariant(self, sessions: MemberSessions) -> None:
        """Each session has an entry that is not late, and the heap is limited."""
        for member, session in sessions._sessions.items():
            self.assertLessEqual(session.entry, session.ends)
            self.assertIn((session.entry, member), sessions._heap)
        self.assertLessEqual(len(sessions._heap), 2 * len(sessions) + MemberSessions.SLACK)

    def stale_entries(self, sessions: MemberSessions, later_than: float) -> int:
        """The number of entries after a time, not counting one current entry of each session."""
        current = sum(session.entry > later_than for session in sessions._sessions.values())
        return sum(when > later_than for when, _ in sessions._heap) - current

    @given(OPS)
    def test_each_session_ends_at_its_last_time(self, ops: list[tuple[str, str, int]]) -> None:
        """A session ends once, at the time of its last renewal."""
        sessions, model, now = MemberSessions(), dict[str, float](), 0.0
        for op, member, amount in ops:
            if op == "renew":
                sessions.renew(member, now + amount)
                model[member] = now + amount
            elif op == "forget":
                sessions.forget(member)
                model.pop(member, None)
            else:
                now += amount
                ended = []
                stale = self.stale_entries(sessions, later_than=now)
                for one in sessions.ended(now):
                    sessions.forget(one)
                    ended.append(one)
                self.assertEqual(sorted(ended), sorted(one for one, ends in model.items() if ends <= now))
                model = {one: ends for one, ends in model.items() if ends > now}
                self.assertTrue(all(when > now for when, _ in sessions._heap), "an entry stays until its time only")
                self.assertLessEqual(len(sessions._heap), len(sessions) + stale, "a session has one current entry")
            self.assert_invariant(sessions)
            self.assertEqual(len(sessions), len(model))
            if model:
                first = sessions.first
                assert first is not None
                self.assertLessEqual(first, min(model.values()), "a deadline may be early, never late")
            else:
                self.assertIs(sessions.first, None)

    def test_renewal_at_the_end(self) -> None:
        """A session that is renewed when it ends, ends at the new time."""
        sessions = MemberSessions()
        sessions.renew("a", 5)
        for one in sessions.ended(5):
            sessions.renew(one, 9)
        self.assertEqual(list(sessions.ended(8)), [])
        self.assertEqual(list(sessions.ended(9)), ["a"])

    def test_stale_entries_are_dropped(self) -> None:
        """A session that was shortened, then extended, has one entry again after the time of the stale one."""
        sessions = MemberSessions()
        for ends in (10, 5, 20):
            sessions.renew("a", ends)
        self.assertEqual(sorted(sessions._heap), [(5, "a"), (10, "a")])
        self.assertEqual(list(sessions.ended(5)), [])
        self.assertEqual(sorted(sessions._heap), [(10, "a"), (20, "a")])
        self.assertEqual(list(sessions.ended(10)), [])
        self.assertEqual(sessions._heap, [(20, "a")])

    def test_former_members_leave_no_entries(self) -> None:
        """Entries of former members do not stay in the heap until their time."""
        sessions = MemberSessions()
        sessions.renew("stays", 1800)
        for number in range(10_000):
            sessions.renew(str(number), 1800)
            sessions.forget(str(number))
        self.assertLess(len(sessions._heap), 100)

    def test_a_renewal_touches_no_heap(self) -> None:
        """A renewal to a later time is a mere assignment."""
        sessions = MemberSessions()
        sessions.renew("a", 10)
        heap = list(sessions._heap)
        for now in range(1000):
            sessions.renew("a", now + 10)
        self.assertEqual(sessions._heap, heap)
