"""Tests sets of offsets."""

from __future__ import annotations

from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from logbus.pipeline.lake.offset_set import OffsetSet

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)).map(lambda each: (each[0], each[0] + each[1])))


def _set(offsets: OffsetSet) -> set[int]:
    return {each for start, end in offsets.ranges for each in range(start, end)}


class OffsetSetTests(TestCase):
    """Sets of offsets are sets."""

    @given(RANGES, RANGES)
    def test_as_sets(self, one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
        """Union, intersection, difference and size are those of the sets; equal sets are equal."""
        a, b = OffsetSet.of(*one), OffsetSet.of(*other)
        self.assertEqual(_set(a | b), _set(a) | _set(b))
        self.assertEqual(_set(a & b), _set(a) & _set(b))
        self.assertEqual(_set(a - b), _set(a) - _set(b))
        self.assertEqual(len(a), len(_set(a)))
        self.assertEqual(a.end, max(_set(a), default=-1) + 1)
        self.assertEqual(bool(a), bool(_set(a)))
        for each in (a, a | b, a & b, a - b):
            self.assertEqual(each, OffsetSet.of(*((offset, offset + 1) for offset in _set(each))))

    def test_invalid_ranges(self) -> None:
        """A range goes up, from 0 on."""
        for each in ((-1, 3), (5, 4)):
            with self.assertRaisesRegex(ValueError, f"{each[0]}..{each[1]} is no range"):
                OffsetSet.of(each)
