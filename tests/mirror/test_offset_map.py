"""Translated offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.mirror.copied_range import CopiedRange
from logbus.mirror.offset_map import MOST, OffsetMap
from logbus.model import TopicPartition

P = TopicPartition("t", 0)
STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=40)


def history(steps: list[tuple[int, int, int]]) -> tuple[list[CopiedRange], dict[int, int]]:
    """Ranges with gaps on both sides, and where each record came to lie."""
    ranges, places, up, down = list[CopiedRange](), dict[int, int](), 0, 0
    for gap_up, gap_down, count in steps:
        up, down = up + gap_up, down + gap_down
        ranges.append(CopiedRange(P, up, down, count, up + count))
        places.update((up + n, down + n) for n in range(count))
        up, down = up + count, down + count
    return ranges, places


class OffsetMapTests(SynchronousTestCase):
    """Groups read on where they were."""

    @given(STEPS)
    def test_exact(self, steps: list[tuple[int, int, int]]) -> None:
        """With all ranges known, a group reads on with exactly the record that comes next at the source."""
        ranges, places = history(steps)
        offsets = OffsetMap()
        for each in ranges:
            offsets.add(each)
        for upstream in range(ranges[0].upstream, ranges[-1].next_offset + 3):
            found = offsets.translate(upstream)
            assert found is not None
            left = [at for at in places.values() if at >= found]
            self.assertEqual(left, [at for where, at in places.items() if where >= upstream])

    @given(STEPS, st.sets(st.integers(0, 39)))
    def test_with_holes(self, steps: list[tuple[int, int, int]], lost: set[int]) -> None:
        """With some ranges forgotten, records are read again, but none is left out."""
        ranges, places = history(steps)
        offsets = OffsetMap()
        for number, each in enumerate(ranges):
            if number not in lost:
                offsets.add(each)
        for upstream in range(ranges[-1].next_offset + 3):
            found = offsets.translate(upstream)
            if found is not None:
                unread = [at for where, at in places.items() if where >= upstream]
                self.assertTrue(all(at >= found for at in unread), (upstream, found))

    @given(STEPS, st.sets(st.integers(0, 39)))
    def test_what_was_known_before(self, steps: list[tuple[int, int, int]], lost: set[int]) -> None:
        """What was translated with all ranges may be right still; what leaves out a known record may not."""
        ranges, _ = history(steps)
        whole, offsets = OffsetMap(), OffsetMap()
        for number, each in enumerate(ranges):
            whole.add(each)
            if number not in lost:
                offsets.add(each)
        for upstream in range(ranges[0].upstream, ranges[-1].upstream + 1):
            exact = whole.translate(upstream)
            assert exact is not None
            if offsets.translate(upstream) is None:
                self.assertFalse(offsets.may_be(upstream, exact))
                continue
            unread = [each for each in offsets._ranges if each.last_upstream >= upstream]
            if unread:
                self.assertTrue(offsets.may_be(upstream, exact))
                first = unread[0].downstream + max(0, upstream - unread[0].upstream)
                self.assertFalse(offsets.may_be(upstream, first + 1))

    @given(STEPS, st.integers(0, 300))
    def test_target_that_has_lost_records(self, steps: list[tuple[int, int, int]], end: int) -> None:
        """Copying again from there on, the target has every record once."""
        ranges, places = history(steps)
        offsets = OffsetMap()
        for each in ranges:
            offsets.add(each)
        again = offsets.rewind(end)
        kept = [where for where, at in places.items() if at < end]
        if again is None:
            self.assertEqual(kept, [])
        else:
            self.assertEqual(kept + [where for where in places if where >= again], list(places))

    def test_bounded(self) -> None:
        """Memory is bounded; recent offsets stay exact, and old ones are translated roughly."""
        ranges, places = history([(1, 2, 1)] * (3 * MOST))
        offsets = OffsetMap()
        for each in ranges:
            offsets.add(each)
        self.assertLessEqual(len(offsets._ranges), MOST)
        last = ranges[-1].upstream
        self.assertEqual(offsets.translate(last), places[last])
        early = offsets.translate(ranges[5].upstream)
        assert early is not None
        self.assertLessEqual(early, places[ranges[5].upstream])

    def test_read_again(self) -> None:
        """If the source is read again from before, what was known does not count."""
        offsets = OffsetMap()
        offsets.add(CopiedRange(P, 100, 100, 10, 110))
        offsets.add(CopiedRange(P, 5, 110, 1, 6))
        self.assertIsNone(offsets.translate(4))
        self.assertEqual(offsets.translate(200), 111)
        self.assertEqual(offsets.end, (6, 111))

    def test_nothing(self) -> None:
        """Without ranges nothing is known."""
        self.assertIsNone(OffsetMap().translate(0))
        self.assertIsNone(OffsetMap().end)
