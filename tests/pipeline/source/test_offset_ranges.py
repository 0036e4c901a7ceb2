"""Tests the offset ranges of batches: limits and splits."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.model import TopicPartition
from logbus.pipeline.source.offset_ranges import (
    OffsetRange,
    available,
    ranges_between,
    rate_limited,
    should_delay,
    split,
)

PLACES = [TopicPartition(topic, number) for topic in "ab" for number in range(3)]
SIZES = st.dictionaries(st.sampled_from(PLACES), st.integers(0, 10**6) | st.integers(0, 5), max_size=6)
ONE, TWO = uuid.UUID(int=1), uuid.UUID(int=2)


def covered(ranges: list[OffsetRange]) -> dict[TopicPartition, list[tuple[int, int]]]:
    """What ranges cover, with those that touch joined."""
    found: dict[TopicPartition, list[tuple[int, int]]] = {}
    for each in ranges:
        some = found.setdefault(each.partition, [])
        if some and some[-1][1] == each.start:
            some[-1] = (some[-1][0], each.end)
        else:
            some.append((each.start, each.end))
    return found


class SplitTests(SynchronousTestCase):
    """Ranges cut for more tasks."""

    @given(SIZES, st.none() | st.integers(1, 200), st.none() | st.integers(1, 10**6))
    def test_ranges_cover_everything(
        self, sizes: dict[TopicPartition, int], parts: int | None, most: int | None
    ) -> None:
        """Nothing is left out, nothing is read twice, no part is empty; each knows which topic is meant."""
        if most is not None:
            most = max(most, sum(sizes.values()) // 1000, 1)
        start = dict.fromkeys(sizes, 7)
        whole = ranges_between(start, {each: 7 + size for each, size in sizes.items()}, {"a": ONE})
        cut = split(whole, parts, most)
        self.assertEqual(covered(cut), {each: [(7, 7 + size)] for each, size in sizes.items() if size})
        self.assertTrue(all(each.size > 0 for each in cut))
        self.assertEqual({each.topic_id for each in cut if each.partition.topic == "a"} - {ONE}, set())
        if most is not None:
            self.assertLessEqual(max((each.size for each in cut), default=0), most)
        if parts is None and most is None:
            self.assertEqual(len(cut), len([size for size in sizes.values() if size]))

    @given(SIZES, st.integers(1, 200))
    def test_about_as_many_as_wanted(self, sizes: dict[TopicPartition, int], parts: int) -> None:
        """At least three quarters of them, where there is enough to cut, and not many more."""
        ranges = [OffsetRange(each, 0, size) for each, size in sizes.items()]
        some = [each for each in ranges if each.size]
        cut = split(ranges, parts)
        self.assertGreaterEqual(len(cut), min(len(some), parts))
        self.assertLessEqual(len(cut), parts + len(some))
        if some and min(each.size for each in some) >= parts:
            self.assertGreaterEqual(len(cut), parts - len(some))

    def test_large_ranges_are_cut(self) -> None:
        """Small ones stay whole."""
        large, small = OffsetRange(PLACES[0], 0, 1000), OffsetRange(PLACES[1], 0, 10)
        self.assertEqual([each.size for each in split([large, small], 5)], [250] * 4 + [10])
        self.assertEqual([each.size for each in split([large, small], 2)], [1000, 10])
        self.assertEqual([each.size for each in split([large, small], None, 400)], [333, 333, 334, 10])


class LimitTests(SynchronousTestCase):
    """How far a batch goes."""

    @given(SIZES, st.integers(1, 10**6) | st.integers(1, 8))
    def test_limits_are_kept_exactly(self, sizes: dict[TopicPartition, int], limit: int) -> None:
        """Their sum is the limit, or all there is, or one for each; shares are in proportion."""
        start = dict.fromkeys(sizes, 5)
        end = {each: 5 + size for each, size in sizes.items()}
        ends = rate_limited(start, end, limit)
        self.assertEqual(ends.keys(), end.keys())
        self.assertTrue(all(5 <= ends[each] <= end[each] for each in end))
        some = [each for each, size in sizes.items() if size]
        total = sum(sizes.values())
        self.assertEqual(available(start, ends), min(total, max(limit, len(some))))
        for each in some:
            self.assertGreater(ends[each], 5)
            if total > limit > 10 * len(some):
                self.assertLessEqual(abs(ends[each] - 5 - limit * sizes[each] / total), 1 + len(some))

    @given(SIZES, SIZES)
    def test_partition_below_its_start(
        self, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> None:
        """It has nothing to share."""
        starts = {each: starts.get(each, 0) for each in ends}
        found = rate_limited(starts, ends, 3)
        self.assertTrue(all(found[each] == end for each, end in ends.items() if end < starts[each]))

    def test_waiting_for_enough(self) -> None:
        """Until there is enough, or it took too long."""
        start, end = {PLACES[0]: 10}, {PLACES[0]: 14, PLACES[1]: 3}
        self.assertTrue(should_delay(start, end, 8, 1.0, 60.0))
        self.assertFalse(should_delay(start, end, 7, 1.0, 60.0))
        self.assertFalse(should_delay(start, end, 8, 60.0, 60.0))
