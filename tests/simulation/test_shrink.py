"""Shrinking finds the faults that a failure needs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.testing.simulation.shrink import shrink


class ShrinkTests(SynchronousTestCase):
    """Lists of numbers stand for schedules."""

    @given(st.integers(1, 40), st.sets(st.integers(0, 39), max_size=4))
    def test_necessary_faults_remain(self, count: int, needed: set[int]) -> None:
        """Just those that are needed are left, in their order."""
        needed &= set(range(count))
        left = shrink(range(count), lambda kept: needed <= set(kept), 10_000)
        self.assertEqual(left, sorted(needed))

    def test_tries_are_bounded(self) -> None:
        """It ends when the tries do, with something that fails."""
        tried: list[list[int]] = []

        def fails(kept: list[int]) -> bool:
            tried.append(kept)
            return {3, 77} <= set(kept)

        left = shrink(range(100), fails, 5)
        self.assertEqual(len(tried), 5)
        self.assertLessEqual({3, 77}, set(left))
