"""Tests of :mod:`logbus.coordination.share_state.batch_merge`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.share_state.batch_merge import merge_batches
from logbus.coordination.share_state.share_state import ACKNOWLEDGED, AVAILABLE, StateBatch
from tests.coordination.share_state.strategies import MOST, state_batches


def by_record(batches: Iterable[StateBatch]) -> dict[int, tuple[int, int]]:
    """The delivery count and state of each record; the greatest where batches overlap."""
    found: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(batch.first_offset, batch.last_offset + 1):
            found[offset] = max(found.get(offset, (-1, -1)), (batch.delivery_count, batch.delivery_state))
    return found


class MergeTests(SynchronousTestCase):
    """Merges, record by record."""

    @given(st.lists(state_batches(), max_size=8), st.lists(state_batches(), max_size=8), st.integers(-1, MOST))
    def test_each_record(self, earlier: list[StateBatch], changed: list[StateBatch], start: int) -> None:
        """Each record from the start on is in its greatest state, in as few batches as there can be, in order."""
        before = merge_batches((), earlier, -1)
        after = merge_batches(before, changed, start)
        expected = {offset: of for offset, of in by_record([*earlier, *changed]).items() if offset >= start}
        self.assertEqual(by_record(after), expected)
        for one, next_one in pairwise(after):
            self.assertLess(one.last_offset, next_one.first_offset)
            if one.last_offset + 1 == next_one.first_offset:
                self.assertNotEqual(by_record([one]).popitem()[1], by_record([next_one]).popitem()[1])

    @given(st.lists(state_batches(), max_size=8).flatmap(lambda one: st.tuples(st.just(one), st.permutations(one))))
    def test_order_does_not_matter(self, orders: tuple[list[StateBatch], list[StateBatch]]) -> None:
        """Changes that come late, or again, give the same."""
        one, other = orders
        self.assertEqual(merge_batches((), one, 3), merge_batches(merge_batches((), other, -1), one[:2], 3))

    def test_done_in_the_middle(self) -> None:
        """One record of a released batch is acknowledged."""
        released = StateBatch(0, 9, AVAILABLE, 1)
        self.assertEqual(
            merge_batches([released], [StateBatch(4, 4, ACKNOWLEDGED, 1)], 2),
            (
                StateBatch(2, 3, AVAILABLE, 1),
                StateBatch(4, 4, ACKNOWLEDGED, 1),
                StateBatch(5, 9, AVAILABLE, 1),
            ),
        )
