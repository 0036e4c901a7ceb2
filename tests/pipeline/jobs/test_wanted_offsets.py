"""Tests which offsets a load takes next."""

from __future__ import annotations

from unittest import TestCase

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from logbus.model import TopicPartition
from logbus.pipeline.jobs.wanted_offsets import WantedOffsets, next_batch
from logbus.pipeline.lake.offset_set import OffsetSet

HELD = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=4).map(
    lambda found: OffsetSet.of(*((start, start + size) for start, size in found))
)


WANTED = st.builds(
    lambda held, log_start, more, end: WantedOffsets(
        held=held, log_start=log_start, start=max(log_start + more, 0), end=end
    ),
    HELD,
    st.integers(0, 30),
    st.integers(-9, 10),
    st.integers(0, 70),
)


class WantedOffsetsTests(TestCase):
    """A load takes what is wanted and not held, until nothing is left."""

    @given(
        st.dictionaries(st.integers(0, 3).map(lambda n: TopicPartition("t", n)), WANTED, max_size=4), st.integers(1, 50)
    )
    def test_batches_end(self, wanted: dict[TopicPartition, WantedOffsets], limit: int) -> None:
        """Batches are disjoint, within the limit, and together are just what was missing."""
        loaded = {each: OffsetSet() for each in wanted}
        before = {each: of.missing for each, of in wanted.items()}
        while ranges := next_batch(wanted, limit):
            self.assertLessEqual(sum(end - start for start, end in ranges.values()), max(limit, len(ranges)))
            for each, taken in ranges.items():
                part = OffsetSet.of(taken)
                self.assertFalse(loaded[each] & part)
                loaded[each] |= part
                of = wanted[each]
                wanted[each] = evolve(of, held=of.held | part)
        self.assertEqual(loaded, before)

    @given(WANTED)
    def test_every_offset_is_accounted_for(self, of: WantedOffsets) -> None:
        """Each wanted offset is either held, missing or lost; missing ones exist on the broker."""
        wanted = OffsetSet.of((of.start, max(of.start, of.end)))
        self.assertEqual(wanted - of.held, (of.missing | of.lost) & wanted)
        self.assertFalse(of.missing & of.lost)
        self.assertFalse((of.missing | of.lost) & of.held)
        self.assertFalse(of.missing & OffsetSet.of((0, of.log_start)))
        self.assertFalse(of.lost & OffsetSet.of((of.log_start, 99)))

    def test_lost_offsets(self) -> None:
        """
        Who begins with the oldest that there is has lost what expired since the table began; who asks for an offset has
        lost what is gone from there on; who begins later has lost nothing.
        """
        held = OffsetSet.of((3, 5))
        for start, of, lost in (
            (9, held, ((5, 9),)),
            (9, OffsetSet.of((3, 9)), ()),
            (9, OffsetSet.of((3, 4), (6, 12)), ((4, 6),)),
            (9, OffsetSet(), ()),
            (10, held, ()),
            (4, held, ((5, 9),)),
            (0, held, ((0, 3), (5, 9))),
            (0, OffsetSet(), ((0, 9),)),
        ):
            with self.subTest(start=start, held=of):
                self.assertEqual(WantedOffsets(held=of, log_start=9, start=start, end=20).lost, OffsetSet(lost))
        self.assertEqual(WantedOffsets(held=OffsetSet(), log_start=9, start=0, end=2).lost, OffsetSet.of((0, 2)))
