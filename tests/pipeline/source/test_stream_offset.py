"""Tests a stream's offsets as JSON, and where a batch resumes."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.model import TopicPartition
from logbus.pipeline.errors import PipelineError
from logbus.pipeline.source.stream_offset import StreamOffset, offsets_between, resume_offsets

PLACES = [TopicPartition(topic, number) for topic in "ab" for number in range(3)]


SIZES = st.dictionaries(st.sampled_from(PLACES), st.integers(0, 10**6) | st.integers(0, 5), max_size=6)


ONE, TWO = uuid.UUID(int=1), uuid.UUID(int=2)


class StreamOffsetTests(SynchronousTestCase):
    """What Spark keeps, and what it means after a restart."""

    @given(SIZES, st.none() | SIZES, st.dictionaries(st.sampled_from("ab"), st.uuids()))
    def test_round_trip(
        self, offsets: dict[TopicPartition, int], begun: dict[TopicPartition, int] | None, ids: dict[str, uuid.UUID]
    ) -> None:
        """All fields."""
        told = StreamOffset(offsets, ids, begun)
        self.assertEqual(StreamOffset.read(told.as_json()), told)

    def test_offsets_are_where_sparks_kafka_source_has_them(self) -> None:
        """Tools that read progress reports find them."""
        told = StreamOffset({PLACES[0]: 3, PLACES[1]: 4}, {"a": ONE}).as_json()
        self.assertEqual(told, {"a": {"0": 3, "1": 4}, ":ids": {"a": str(ONE)}})

    def test_damaged_checkpoint(self) -> None:
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


class ResumeOffsetsTests(SynchronousTestCase):
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

    def test_deleted_topic_without_unread_records(self) -> None:
        """A topic that goes after all of it was read leaves nothing behind."""
        one = PLACES[0]
        self.assertEqual(self.begin({one: 9}, {one: 9}, {}), ({}, []))

    def test_first_batch_is_repeated(self) -> None:
        """Even if "latest" is another offset now."""
        one = PLACES[0]
        self.assertEqual(self.begin({one: 8}, {one: 9}, {one: 0}, begun={one: 5}), ({one: 5}, []))

    def test_offsets_between(self) -> None:
        """Those of a batch, which is read from 0 where a topic is new; with what is read they say what is gone."""
        one, two = PLACES[:2]
        for start, end, ids, begun, found in (
            ({one: 5}, {one: 9, two: 2}, (ONE, ONE), None, 6),
            ({one: 5, two: 3}, {one: 4}, (ONE, ONE), None, 0),
            ({one: 5}, {one: 9}, (ONE, TWO), None, 9),
            ({one: 8}, {one: 9}, (ONE, ONE), {one: 5}, 4),
        ):
            then, last = ({"a": each} for each in ids)
            self.assertEqual(offsets_between(StreamOffset(start, then), StreamOffset(end, last, begun)), found)

    @given(SIZES, SIZES, SIZES)
    def test_batches_go_forward(
        self, start: dict[TopicPartition, int], end: dict[TopicPartition, int], first: dict[TopicPartition, int]
    ) -> None:
        """What begins does so at or before its end, at or after what is kept, and not before what was read."""
        begins, told = self.begin(start, end, first)
        for each, offset in begins.items():
            self.assertLessEqual(offset, end[each])
            self.assertTrue(offset == end[each] or offset >= first[each])
            if not told:
                self.assertEqual(offset, start.get(each, 0))
