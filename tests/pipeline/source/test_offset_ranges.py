"""Tests the planning of a stream's batches: limits, splits, and data loss."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.model import TopicPartition
from logbus.pipeline.errors import PipelineError
from logbus.pipeline.source.offset_ranges import (
    OffsetRange,
    available,
    ranges_between,
    rate_limited,
    should_delay,
    split,
)
from logbus.pipeline.source.stream_offset import StreamOffset, resume_offsets

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
    def test_parts_are_the_whole(self, sizes: dict[TopicPartition, int], parts: int | None, most: int | None) -> None:
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
    def test_a_partition_that_went_back_stays_there(
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


class CheckpointTests(SynchronousTestCase):
    """What Spark keeps, and what it means after a restart."""

    @given(SIZES, st.none() | SIZES, st.dictionaries(st.sampled_from("ab"), st.uuids()))
    def test_it_is_read_as_it_was_told(
        self, offsets: dict[TopicPartition, int], begun: dict[TopicPartition, int] | None, ids: dict[str, uuid.UUID]
    ) -> None:
        """All of it."""
        told = StreamOffset(offsets, ids, begun)
        self.assertEqual(StreamOffset.read(told.as_json()), told)

    def test_offsets_are_where_sparks_kafka_source_has_them(self) -> None:
        """Tools that read progress reports find them."""
        told = StreamOffset({PLACES[0]: 3, PLACES[1]: 4}, {"a": ONE}).as_json()
        self.assertEqual(told, {"a": {"0": 3, "1": 4}, ":ids": {"a": str(ONE)}})

    def test_what_cannot_be_read(self) -> None:
        """A damaged checkpoint is an error, not a beginning anew."""
        for told in (
            {"a": 3},
            {"a": {"x": 3}},
            {"a": {"0": -1}},
            {":ids": {"a": "?"}},
            {":ids": 4},
            {":from": {"a": 1}},
        ):
            with self.assertRaises(PipelineError):
                StreamOffset.read(told)


class BeginningTests(SynchronousTestCase):
    """Where a batch begins, and what is lost before it."""

    def begin(
        self,
        start: dict[TopicPartition, int],
        end: dict[TopicPartition, int],
        first: dict[TopicPartition, int],
        ids: tuple[uuid.UUID, uuid.UUID, uuid.UUID] = (ONE, ONE, ONE),
        begun: dict[TopicPartition, int] | None = None,
    ) -> tuple[dict[TopicPartition, int], list[str]]:
        """With ids of topic ``a`` at the start, at the end, and now."""
        then, last, now = ({"a": each} for each in ids)
        return resume_offsets(StreamOffset(start, then), StreamOffset(end, last, begun), now, first)

    def test_all_is_well(self) -> None:
        """It goes on where it was; what is new is read from the beginning."""
        one, two = PLACES[:2]
        self.assertEqual(self.begin({one: 5}, {one: 9, two: 2}, {one: 3, two: 0}), ({one: 5, two: 0}, []))

    def test_losses(self) -> None:
        """Each is told in a sentence of its own."""
        one, two = PLACES[:2]
        for start, end, first, ids, found, words in (
            ({one: 5}, {one: 9}, {one: 7}, (ONE, ONE, ONE), {one: 7}, "has expired"),
            ({one: 5}, {one: 9}, {one: 11}, (ONE, ONE, ONE), {one: 9}, "has expired"),
            ({one: 5}, {one: 4}, {one: 0}, (ONE, ONE, ONE), {one: 4}, "was truncated"),
            ({one: 5}, {one: 9}, {one: 0}, (ONE, TWO, TWO), {one: 0}, "deleted and recreated"),
            ({one: 5}, {one: 9}, {one: 0}, (ONE, ONE, TWO), {}, "is gone"),
            ({one: 5}, {one: 9}, {}, (ONE, ONE, ONE), {}, "is gone"),
            ({one: 5, two: 3}, {one: 9}, {one: 0, two: 0}, (ONE, ONE, ONE), {one: 5}, "a-1 is gone"),
            ({one: 5}, {one: 9, two: 9}, {one: 0, two: 4}, (ONE, ONE, ONE), {one: 5, two: 4}, "begins at 4, not at 0"),
        ):
            begins, told = self.begin(start, end, first, ids)
            self.assertEqual(begins, found)
            self.assertEqual(len(told), 1)
            self.assertIn(words, told[0])

    def test_nothing_left_to_read_is_no_loss(self) -> None:
        """A topic that goes after all of it was read leaves nothing behind."""
        one = PLACES[0]
        self.assertEqual(self.begin({one: 9}, {one: 9}, {}), ({}, []))

    def test_the_first_batch_begins_where_it_did(self) -> None:
        """Though "latest" is elsewhere now."""
        one = PLACES[0]
        self.assertEqual(self.begin({one: 8}, {one: 9}, {one: 0}, begun={one: 5}), ({one: 5}, []))

    @given(SIZES, SIZES, SIZES)
    def test_no_batch_goes_backwards(
        self, start: dict[TopicPartition, int], end: dict[TopicPartition, int], first: dict[TopicPartition, int]
    ) -> None:
        """What begins does so at or before its end, at or after what is kept, and not before what was read."""
        begins, told = self.begin(start, end, first)
        for each, offset in begins.items():
            self.assertLessEqual(offset, end[each])
            self.assertTrue(offset == end[each] or offset >= first[each])
            if not told:
                self.assertEqual(offset, start.get(each, 0))
