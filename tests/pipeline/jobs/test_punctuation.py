"""Tests punctuations and what is held back for them, without Spark's Java part."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import TestCase
from unittest.mock import patch

from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from logbus.model import TopicPartition
from logbus.pipeline.jobs import event_source
from logbus.pipeline.jobs.backlog import StreamPlan, empty_side
from logbus.pipeline.jobs.event_source import EventStreamReader, punctuation, stream_offset
from logbus.pipeline.jobs.event_stream import EventStream
from logbus.pipeline.jobs.late_watermark import LateWatermark
from logbus.pipeline.jobs.windows import SessionWindow, SlidingWindow, TumblingWindow
from logbus.pipeline.source.offset_ranges import OffsetRange
from logbus.pipeline.source.options import read_source_options


@frozen
class _Described:
    """What is used of a topic's metadata."""

    topic_id: uuid.UUID


SOURCE = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
MINUTE = 60_000_000


class ReaderTests(TestCase):
    """The stream's reader, where it is asked for a punctuation."""

    def test_a_batch_of_a_punctuation(self) -> None:
        """It has one row and no record, whatever there is to read, and comes once."""
        # As behind the first batch, which also says where it began.
        start = {"t": {"0": 7}, ":ids": {"t": "00000000-0000-0000-0000-000000000001"}, ":from": {"t": {"0": 2}}}
        with LateWatermark.made() as late:
            late.set(5)
            file = late.punctuation("rows")
            reader = EventStreamReader(read_source_options(SOURCE, streaming=True), late.path, file)
            file.set(3000)
            end = reader.latestOffset(start, ReadAllAvailable())
            self.assertEqual(end, {"t": {"0": 7}, ":ids": start[":ids"], ":punctuated": 3000})
            self.assertIs(reader.latestOffset(end, ReadAllAvailable()), end)
            (part,) = reader.partitions(start, end)
            # A batch that is repeated has it again, although none is asked for any more.
            file.clear()
            self.assertIsNone(file.read())
            (again,) = reader.partitions(start, end)
            self.assertEqual(again.value, part.value)
            (rows,) = reader.read(part)
        (row,) = rows.to_pylist()
        self.assertEqual(
            (row["topic"], row["value"], row["_late_watermark"], row["_logbus_punctuation"]), ("", None, 5000, 3000)
        )
        self.assertEqual(stream_offset(end).offsets, {TopicPartition("t", 0): 7})

    def test_rows(self) -> None:
        """They have the columns that rows of records have."""
        self.assertEqual(punctuation(headers=False, micros=1).num_columns, 7)
        self.assertEqual(punctuation(headers=True, micros=1).schema.names[-1], "headers")

    def test_offsets_that_were_gone_before_the_batch(self) -> None:
        """A row counts them, at a time that advances no watermark."""
        topic, one = TopicPartition("t", 0), uuid.UUID(int=1)
        options = read_source_options({**SOURCE, "failOnDataLoss": "false"}, streaming=True)
        reader = EventStreamReader(options, None, None)
        start, end = ({"t": {"0": offset}, ":ids": {"t": str(one)}} for offset in (10, 20))
        described: Any = ({"t": _Described(one)}, {topic})
        for first, ranges, lost in ((3, [10], []), (17, [3], [7]), (25, [], [10])):
            with (
                patch.object(reader, "_described", lambda wanted: described),
                patch.object(type(reader._offset_reader), "earliest", lambda *_, first=first, **__: {topic: first}),
            ):
                found = [each.value for each in reader.partitions(start, end)]
            self.assertEqual([each[0].size for each in found if each[0]], ranges)
            self.assertEqual([each[3] for each in found if not each[0]], lost)
            if lost:
                (rows,) = reader.read(InputPartition(found[-1]))
                (row,) = rows.to_pylist()
                self.assertEqual((row["_logbus_lost"], row["_logbus_punctuation"]), (lost[0], 0))

    def test_offsets_that_went_while_they_were_read(self) -> None:
        """A row behind those of the records counts them."""
        records = punctuation(headers=False, micros=1)

        def read(options: object, wanted: object, on_loss: Callable[[int], None]) -> Iterator[Any]:
            yield records
            on_loss(4)
            on_loss(3)
            yield records

        reader = EventStreamReader(read_source_options(SOURCE, streaming=True), None, None)
        wanted = OffsetRange(TopicPartition("t", 0), 0, 9)
        with patch.object(event_source, "read_partition", read):
            rows = [row for some in reader.read(InputPartition((wanted, 0, None, None))) for row in some.to_pylist()]
        found = [(row["_logbus_punctuation"], row["_logbus_lost"]) for row in rows]
        self.assertEqual(found, [(None, None), (None, None), (0, 7)])

    def test_files(self) -> None:
        """Each stream has its own, and they go with the run."""
        with LateWatermark.made() as late:
            left, right = late.punctuation("rows"), late.punctuation("right")
            left.set(-1)
            self.assertEqual((left.read(), right.read()), (-1, None))
            directory = late.path.parent
        self.assertFalse(directory.exists())
        self.assertNotEqual(Path(tempfile.gettempdir()), directory)


class PlanTests(TestCase):
    """Which backlogs take several batches."""

    def plan(self, end: int, most: int | None, *, is_repeated: bool = False) -> StreamPlan:
        """Of one partition."""
        source = SOURCE if most is None else {**SOURCE, "maxOffsetsPerTrigger": str(most)}
        one = TopicPartition("t", 0)
        return StreamPlan(EventStream(source=source), {one: 10}, {one: end}, 3, is_repeated)

    def test_long_ones(self) -> None:
        """Those that are longer than a batch may be, and what follows a batch that is repeated."""
        self.assertEqual([self.plan(end, 5).is_long for end in (10, 15, 16)], [False, False, True])
        self.assertFalse(self.plan(10**9, None).is_long)
        self.assertTrue(self.plan(11, None, is_repeated=True).is_long)
        self.assertFalse(self.plan(10, None, is_repeated=True).is_long)
        self.assertEqual(
            str(self.plan(21, 5)), "t: 11 offsets of 1 partition to read, in 3 batches or more, behind batch 3"
        )

    def test_a_side_without_events(self) -> None:
        """It is told, since it holds the watermark: of one side, and neither of both nor of one that had events."""
        one = TopicPartition("t", 0)

        def plan(topic: str, start: int, end: int, begun: int | None) -> StreamPlan:
            stream = EventStream(source={**SOURCE, "subscribe": topic})
            return StreamPlan(stream, {one: start}, {one: end}, begun, False)

        some, none = plan("views", 0, 5, None), plan("clicks", 0, 0, None)
        self.assertIn("clicks: there is no event yet; until there is, all events", empty_side([some, none]))
        self.assertIn("views: there is", empty_side([plan("views", 0, 0, 3), plan("clicks", 7, 7, 3)]))
        for plans in ([some], [none], [some, some], [none, none], [some, plan("clicks", 7, 7, 3)]):
            self.assertEqual(empty_side(plans), "")


class EndTests(TestCase):
    """When the last window of an event ends."""

    @given(st.integers(-(10**15), 10**15), st.integers(1, 100), st.integers(1, 100))
    def test_last_ends(self, time: int, one: int, other: int) -> None:
        """The window has the event, and the next one does not."""
        slide, size = sorted((one, other))
        end = SlidingWindow(f"{size} minutes", f"{slide} minutes").last_end(time)
        start = end - size * MINUTE
        self.assertEqual(start % (slide * MINUTE), 0)
        self.assertTrue(start <= time < start + slide * MINUTE)
        self.assertEqual(
            TumblingWindow(f"{size} minutes").last_end(time),
            SlidingWindow(f"{size} minutes", f"{size} minutes").last_end(time),
        )
        self.assertEqual(SessionWindow(f"{size} minutes").last_end(time), time + size * MINUTE)
