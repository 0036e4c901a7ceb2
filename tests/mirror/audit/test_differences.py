"""Records compared one by one."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.mirror.audit.differences import Differences, Example, Kind

RECORDS = st.lists(st.integers(0, 6), max_size=20)


def compared(source: list[int], copy: list[int], most: int = 100) -> Differences:
    """The differences of two sides, whose records are numbers; two of them have a window."""
    found = Differences(most)
    for add, side in ((found.add_source, source), (found.add_copy, copy)):
        for offset, number in enumerate(side):
            add(number // 2, number, offset, number)
    return found


class DifferencesTests(SynchronousTestCase):
    """What is missing, repeated, or foreign."""

    @given(RECORDS, RECORDS)
    def test_counts(self, source: list[int], copy: list[int]) -> None:
        """The counts are those of bags; a record is repeated if the source has it, too."""
        here, there = Counter(source), Counter(copy)
        lack, more = here - there, there - here
        found = compared(source, copy).by_window()
        self.assertEqual(sum(each.missing for each in found.values()), lack.total())
        self.assertEqual(sum(each.repeated for each in found.values()), sum(n for one, n in more.items() if here[one]))
        self.assertEqual(
            sum(each.foreign for each in found.values()), sum(n for one, n in more.items() if not here[one])
        )
        self.assertEqual(set(found), {each // 2 for each in {*lack, *more}})

    def test_examples(self) -> None:
        """Examples name offsets of the side that has the record."""
        found = compared([1, 2, 3], [9, 1, 3, 3]).examples(1)
        self.assertEqual(
            found, [Example(Kind.MISSING, 1, 2), Example(Kind.REPEATED, 3, 3), Example(Kind.FOREIGN, 0, 9)]
        )

    def test_too_many(self) -> None:
        """With more different records than are compared, that is known."""
        self.assertFalse(compared([1, 2], [1, 2], 2).is_full)
        self.assertTrue(compared([1, 2, 3], [1, 2], 2).is_full)
