"""When target assignments may be computed anew."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.assignment_interval import may_assign, ms_until_assignment

NOW = 1_700_000_000_000


class AssignmentIntervalTests(SynchronousTestCase):
    """Several members, and an interval of a second."""

    def may(self, ago_ms: int, members: int = 2, interval_ms: int = 1000) -> bool:
        """Whether the group may, so long after the last time."""
        return may_assign(members, NOW - ago_ms, interval_ms, NOW)

    def test_interval(self) -> None:
        """The interval has to pass; none, or no last time, is none to wait for."""
        self.assertEqual([self.may(ago_ms) for ago_ms in (0, 999, 1000, 5000)], [False, False, True, True])
        self.assertEqual(
            [ms_until_assignment(2, NOW - ago, 1000, NOW) for ago in (0, 999, 1000, 5000)], [1000, 1, 0, 0]
        )
        self.assertTrue(self.may(0, interval_ms=0))
        self.assertTrue(may_assign(2, 0, 1000, 500))

    def test_lone_member(self) -> None:
        """Nobody else has to give up anything."""
        self.assertTrue(self.may(0, members=1))

    def test_other_clock(self) -> None:
        """A last time in the future is another clock's."""
        self.assertTrue(self.may(-1))
