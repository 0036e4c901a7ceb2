"""Tests the count of late events and its limit, without Spark."""

from __future__ import annotations

import json
import pickle
import tempfile
from pathlib import Path
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.durations import duration_micros
from logbus.pipeline.jobs.event_source import LATE_OPTION, PUNCTUATION_OPTION, EventSource
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.late_events import FEW, LateEvents, TooManyLate, late_count, late_events_message, rounded_up
from logbus.pipeline.jobs.late_watermark import LateWatermark
from logbus.pipeline.jobs.query_report import QueryReport, count_batches, offsets_left
from logbus.pipeline.jobs.streaming_query import QuerySettings
from logbus.pipeline.lake.file_system import LocalFileSystem
from logbus.pipeline.source.stream_reader import FailingStreamReader

HOUR = duration_micros("", "1 hour")


class ShareTests(TestCase):
    """When a run has to fail."""

    def test_late_share_at_the_end(self) -> None:
        """The share of what was read counts."""
        found = LateEvents(events=100, late=1)
        self.assertFalse(found.are_too_many(0.01, 0, is_over=True))
        self.assertTrue(found.are_too_many(0.009, 0, is_over=True))
        self.assertFalse(LateEvents().are_too_many(0, 0, is_over=True))
        self.assertFalse(LateEvents(events=5, late=5).are_too_many(1, 0, is_over=True))

    def test_late_share_before_the_end(self) -> None:
        """It fails as soon as it is sure to fail, and a few events are not judged alone."""
        found = LateEvents(events=10_000, late=500)
        self.assertFalse(found.are_too_many(0.01, left=40_000, is_over=False))
        self.assertTrue(found.are_too_many(0.01, left=39_999, is_over=False))
        few = LateEvents(events=10, late=9)
        self.assertFalse(few.are_too_many(0.01, left=0, is_over=False))
        self.assertTrue(few.are_too_many(8 / FEW, left=0, is_over=False))

    @given(st.integers(0, 2000), st.integers(0, 2000), st.integers(0, 9000), st.floats(0, 1))
    def test_no_run_fails_too_early(self, events: int, late: int, left: int, most: float) -> None:
        """If no more of what is left is late, a run that fails before its end would fail at its end."""
        late = min(late, events)
        if LateEvents(events, late).are_too_many(most, left, is_over=False):
            self.assertTrue(LateEvents(events + left, late).are_too_many(most, 0, is_over=True))

    def test_shares(self) -> None:
        """Wrong ones are refused."""
        for wrong in (-0.1, 1.1, float("nan")):
            with self.assertRaisesRegex(OptionError, "max_late_share is .*; it takes a share"):
                QuerySettings("c", None, wrong)


class ExplainedTests(TestCase):
    """The error message."""

    def test_advice(self) -> None:
        """The numbers, a watermark that would do, and batches, where there are several."""
        found = LateEvents(events=336_764, late=215_114, behind=duration_micros("", "244 days 23 hours"))
        told = late_events_message(found, 0.01, HOUR)
        self.assertIn("215114 of the 336764 events were late (63.9%), more than max_late_share 0.01", told)
        self.assertIn("With a watermark of 35 weeks 1 day (--watermark; it is 1 hour) none of them would be", told)
        self.assertIn("of what is there when a job starts, nothing is late", told)
        self.assertIn("another checkpoint and other outputs", told)
        again = late_events_message(found, 0.01, HOUR, earlier=True)
        self.assertIn("events that an earlier run has read were late", again)

    def test_the_error_travels(self) -> None:
        """With its report; it is told without it."""
        error = pickle.loads(pickle.dumps(TooManyLate("too many", {"late": 1})))
        self.assertEqual((str(error), error.report), ("too many", {"late": 1}))

    @given(st.integers(0, 10**17))
    def test_rounded_up(self, duration: int) -> None:
        """A little longer, never shorter."""
        found = rounded_up(duration)
        self.assertLessEqual(duration, found)
        self.assertLessEqual(found - duration, max(10**6, duration // 24))


class CountTests(TestCase):
    """The batches in a run's report."""

    def progress(self, batch: int, dropped: int, left: int = 0, **observed: int) -> dict[str, object]:
        """As Spark tells it."""
        found = {"readable": 100 - observed.get("unreadable", 0), "unreadable": 0, "lost": 0, "late": 0, "behind": 0}
        found.update(observed)
        found.setdefault("punctuations", 0)
        end = {"t": {"0": 50, "1": 7}, ":ids": {"t": "x"}}
        return {
            "batchId": batch,
            "numInputRows": 100,
            "processedRowsPerSecond": 1234.56 if left else 0.0,
            "observedMetrics": {"rows": found},
            "stateOperators": [{"numRowsDroppedByWatermark": dropped}],
            "sources": [{"endOffset": json.dumps(end), "latestOffset": {"t": {"0": 50 + left, "1": 7}}}],
        }

    def test_events_are_counted(self) -> None:
        """And not the sums of them that Spark drops."""
        report, told = QueryReport(), list[str]()
        batches = [self.progress(0, 0, left=8), self.progress(1, 2, late=60, behind=5, unreadable=20, lost=7)]
        count_batches(report, batches, JobControl(told.append))
        count_batches(report, batches, JobControl(told.append))
        self.assertEqual((report.rows_in, report.unreadable, report.late, report.late_share), (200, 20, 60, 0.333333))
        self.assertEqual(report.lost, 7)
        self.assertEqual(report.late_events, LateEvents(180, 60, 5))
        self.assertEqual(
            told,
            [
                "batch 0: 100 rows read, 1,234.6 rows/s; 8 offsets are left",
                "batch 1: 100 rows read, 20 unreadable, 7 offsets lost, 60 late",
            ],
        )
        self.assertEqual(
            set(report.as_json()),
            {
                *(
                    "batches",
                    "rows_in",
                    "rows_out",
                    "readable",
                    "unreadable",
                    "lost",
                    "late",
                    "late_share",
                    "seconds",
                    "stopped",
                ),
                *("counted", "open_before", "still_open"),
            },
        )

    def test_spark_s_count_is_checked(self) -> None:
        """If it disagrees, its number is told."""
        self.assertEqual([late_count(7, 3), late_count(0, 3), late_count(7, 0), late_count(0, 0)], [7, 3, 0, 0])

    def test_offsets_left(self) -> None:
        """Of all partitions; those that are new have no end yet."""
        self.assertEqual(offsets_left({"t": {"0": 5}}, {"t": {"0": 9, "1": 3}, "u": {"0": 1}}), 4)
        self.assertEqual([offsets_left(None, {"t": {"0": 9}}), offsets_left({"t": {"0": 9}}, None)], [0, 0])
        self.assertEqual(offsets_left('{"t": {"0": 9}}', '{"t": {"0": 5}}'), 0)


class WatermarkTests(TestCase):
    """Where the watermark comes from, and goes to."""

    def setUp(self) -> None:
        """A checkpoint as Spark writes it."""
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.checkpoint = Path(kept.name)
        self.files = LocalFileSystem(self.checkpoint)

    def batch(self, number: int, watermark: int, *, done: bool) -> None:
        """A batch in it."""
        for name in ("offsets", "commits"):
            (self.checkpoint / name).mkdir(exist_ok=True)
        (self.checkpoint / "offsets" / f"{number}").write_text(f'v1\n{{"batchWatermarkMs":{watermark}}}\n{{}}')
        if done:
            (self.checkpoint / "commits" / f"{number}").write_text("v1\n{}")
            (self.checkpoint / "commits" / f".{number}.crc").touch()

    def test_watermark_of_the_last_batch(self) -> None:
        """A batch that comes again has the watermark of the one before it, as it had the first time."""
        with LateWatermark.made() as late:
            late.look(self.files)
            self.assertEqual(late.path.read_text(), "0")
            self.batch(9, 5, done=True)
            self.batch(10, 6, done=True)
            self.batch(11, 7, done=False)
            late.look(self.files)
            self.assertEqual(late.path.read_text(), "6")
            late.after(self.files, 11)
            self.assertEqual(late.path.read_text(), "7")
        self.assertFalse(late.path.exists())

    def test_damage(self) -> None:
        """It is named."""
        self.batch(3, 5, done=True)
        (self.checkpoint / "offsets" / "3").write_text("v1")
        with LateWatermark.made() as late, self.assertRaisesRegex(PipelineError, "offsets/3 does not say which"):
            late.look(self.files)

    def test_the_source(self) -> None:
        """It has the column, and refuses the options that the other one refuses."""
        given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", LATE_OPTION: "/x", PUNCTUATION_OPTION: "/y"}
        source = EventSource(given)
        own = ["_late_watermark", "_logbus_punctuation", "_logbus_lost"]
        self.assertEqual(source.schema().fieldNames()[-4:], ["timestampType", *own])
        wrong = EventSource({**given, "endingOffsets": "latest"})
        self.assertIsInstance(wrong.streamReader(source.schema()), FailingStreamReader)
