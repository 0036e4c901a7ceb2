"""What a load takes next, and which schemas a table takes: pure."""

from __future__ import annotations

from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from logbus.model import TopicPartition
from logbus.pipeline.errors import LakeError
from logbus.pipeline.jobs.missing import Wanted, left, next_batch
from logbus.pipeline.lake.ranges import Offsets
from logbus.pipeline.lake.schemas import merged

HELD = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=4).map(
    lambda found: Offsets.of(*((start, start + size) for start, size in found))
)
WANTED = st.builds(
    lambda held, log_start, more, end: Wanted(held, log_start, log_start + more, end),
    HELD,
    st.integers(0, 30),
    st.integers(0, 10),
    st.integers(0, 70),
)


class MissingTests(TestCase):
    """A load takes what is wanted and not held, until nothing is left."""

    @given(
        st.dictionaries(st.integers(0, 3).map(lambda n: TopicPartition("t", n)), WANTED, max_size=4), st.integers(1, 50)
    )
    def test_batches_end(self, wanted: dict[TopicPartition, Wanted], limit: int) -> None:
        """Batches are disjoint, within the limit, and together are just what was missing."""
        loaded = {each: Offsets() for each in wanted}
        before = {each: of.missing for each, of in wanted.items()}
        while left(wanted):
            ranges = next_batch(wanted, limit)
            self.assertTrue(ranges)
            self.assertLessEqual(sum(end - start for start, end in ranges.values()), max(limit, len(ranges)))
            for each, taken in ranges.items():
                part = Offsets.of(taken)
                self.assertFalse(loaded[each] & part)
                loaded[each] |= part
                of = wanted[each]
                wanted[each] = Wanted(of.held | part, of.log_start, of.start, of.end)
        self.assertEqual(loaded, before)
        self.assertEqual(next_batch(wanted, limit), {})

    def test_what_was_lost(self) -> None:
        """What expired behind the table's end is lost; what was never begun is not."""
        self.assertEqual(Wanted(Offsets.of((3, 5)), 9, 9, 20).lost, Offsets.of((5, 9)))
        self.assertEqual(Wanted(Offsets.of((3, 9)), 9, 9, 20).lost, Offsets())
        self.assertEqual(Wanted(Offsets(), 9, 9, 20).lost, Offsets())


def _struct(nullable: bool = True, **fields: object) -> dict[str, object]:
    return {
        "type": "struct",
        "fields": [{"name": name, "type": kind, "nullable": nullable, "metadata": {}} for name, kind in fields.items()],
    }


def _array(kind: str) -> dict[str, object]:
    return {"type": "array", "elementType": kind, "containsNull": True}


class SchemaTests(TestCase):
    """A table's schema grows, and keeps the types it has."""

    def test_grows(self) -> None:
        """Columns come, within others too; none goes."""
        first = _struct(a="integer", s=_struct(x="string"))
        self.assertEqual(merged("t", None, first), first)
        both = merged("t", first, _struct(s=_struct(y="long"), b="string"))
        self.assertEqual(both, _struct(a="integer", s=_struct(x="string", y="long"), b="string"))
        self.assertEqual(merged("t", both, first), both)

    def test_types_stay(self) -> None:
        """A change is refused, with the column and both types; whether nulls may be in it does not matter."""
        old = _struct(a="integer", s=_struct(x="string"), l=_array("integer"))
        for new, words in (
            (_struct(a="string"), "t: column 'a' is integer in the table and string in the new rows"),
            (_struct(s=_struct(x="integer")), "column 's.x' is string in the table and integer"),
            (_struct(s="integer"), "column 's' is .*struct.* in the table and integer"),
            (_struct(l=_array("long")), 'column \'l\' is .*"integer".* in the table and .*"long"'),
        ):
            with self.subTest(words), self.assertRaisesRegex(LakeError, words):
                merged("t", old, new)
        self.assertEqual(merged("t", old, _struct(False, a="integer")), old)
