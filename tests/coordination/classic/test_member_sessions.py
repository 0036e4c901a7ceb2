"""Tests for :mod:`logbus.coordination.classic.member_sessions`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.classic.member_sessions import MemberSessions

MEMBERS = st.integers(0, 5).map(str)
OPS = st.lists(
    st.one_of(
        st.tuples(st.just("renew"), MEMBERS, st.integers(1, 30)),
        st.tuples(st.just("forget"), MEMBERS, st.just(0)),
        st.tuples(st.just("wait"), st.just(""), st.integers(1, 20)),
    ),
    max_size=60,
)


class SessionsTests(SynchronousTestCase):
    @given(OPS)
    def test_each_session_ends_at_its_last_time(self, ops: list[tuple[str, str, int]]) -> None:
        """A session ends when its last renewal said, neither earlier nor later, and is seen to end once."""
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
                for one in sessions.ended(now):
                    sessions.forget(one)
                    ended.append(one)
                self.assertEqual(sorted(ended), sorted(one for one, ends in model.items() if ends <= now))
                model = {one: ends for one, ends in model.items() if ends > now}
            self.assertEqual(len(sessions), len(model))
            if model:
                first = sessions.first
                assert first is not None
                self.assertLessEqual(first, min(model.values()), "a deadline may be early, never late")
            else:
                self.assertIs(sessions.first, None)

    def test_renewed_while_it_ends(self) -> None:
        """Who may not end yet is renewed, and ends at the new time."""
        sessions = MemberSessions()
        sessions.renew("a", 5)
        for one in sessions.ended(5):
            sessions.renew(one, 9)
        self.assertEqual(list(sessions.ended(8)), [])
        self.assertEqual(list(sessions.ended(9)), ["a"])

    def test_those_who_come_and_go_leave_nothing(self) -> None:
        """However many came for half an hour, the heap is as small as the number of those who are there."""
        sessions = MemberSessions()
        sessions.renew("stays", 1800)
        for number in range(10_000):
            sessions.renew(str(number), 1800)
            sessions.forget(str(number))
        self.assertLess(len(sessions._heap), 100)

    def test_a_renewal_touches_no_heap(self) -> None:
        """Heartbeats cost nothing but an assignment."""
        sessions = MemberSessions()
        sessions.renew("a", 10)
        heap = list(sessions._heap)
        for now in range(1000):
            sessions.renew("a", now + 10)
        self.assertEqual(sessions._heap, heap)
