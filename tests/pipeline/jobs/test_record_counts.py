"""Tests which counts of a run add up, without Spark."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any, cast
from unittest import TestCase

from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.open_state import OpenState
from logbus.pipeline.jobs.query_definition import QueryDefinition
from logbus.pipeline.jobs.query_report import QueryReport
from logbus.pipeline.jobs.record_counts import (
    CountsDiffer,
    count_problem,
    last_commit,
    parsed_problem,
    windows_problem,
)
from logbus.pipeline.lake.file_system import LocalFileSystem


class RecordCountTests(TestCase):
    """Sums, and what is said if they differ."""

    def test_parsed(self) -> None:
        """Each record is readable or unreadable."""
        self.assertEqual([parsed_problem(0, 0, 0), parsed_problem(7, 5, 2)], ["", ""])
        for rows_in in (6, 8):
            self.assertIn(
                f"do not add up: {rows_in} records were read, and 7 parsed (5 readable, 2 unreadable)",
                parsed_problem(rows_in, 5, 2),
            )

    def test_windows(self) -> None:
        """Each event is late, written or open; one that was open before is written or open."""
        self.assertEqual([windows_problem(0, 0, 0, (3, 3)), windows_problem(9, 2, 6, (3, 4))], ["", ""])
        for after in (3, 5):
            self.assertIn(
                f"3 events were in open windows, and 9 came in; 2 were late, 6 are in the windows written, and "
                f"{after} in those still open: 12 are not {8 + after}. ",
                windows_problem(9, 2, 6, (3, after)),
            )

    def test_a_run(self) -> None:
        """Of every query the parsed records are checked; what windows have, unless the run ended within a batch."""
        told: list[str] = []
        spark: Any = None
        query = QueryDefinition(
            name="windows",
            rows=cast(Any, None),
            identity={},
            columns=[],
            open_state=lambda spark, files: OpenState(0, [None]),
        )
        with tempfile.TemporaryDirectory() as kept:
            files = LocalFileSystem(Path(kept))
            files.create("commits/4", b"v1")

            def problem(**counts: Any) -> str:
                report = QueryReport(**counts)
                return count_problem(spark, files, query, report, JobControl(told.append))

            self.assertEqual(problem(rows_in=3, readable=2, unreadable=1), "")
            self.assertIn("3 records were read, and 2 parsed", problem(rows_in=3, readable=2))
            self.assertEqual(problem(counted=0, open_before=7), "", "nothing was read")
            self.assertEqual(told, [])
            self.assertEqual(problem(rows_in=3, readable=3, counted=0, open_before=0, batches=1, last_batch=3), "")
            self.assertEqual(told, ["the run ended within a batch: whether its counts add up is not known"])
            self.assertIn("3 came in; 0 were late", problem(rows_in=3, readable=3, counted=2, open_before=0))

    def test_the_error_travels(self) -> None:
        """With its report."""
        error = pickle.loads(pickle.dumps(CountsDiffer("they differ", {"late": 1})))
        self.assertEqual((str(error), error.report), ("they differ", {"late": 1}))

    def test_last_commit(self) -> None:
        """By number, and not by what else is there."""
        with tempfile.TemporaryDirectory() as kept:
            files = LocalFileSystem(Path(kept))
            self.assertEqual(last_commit(files), -1)
            for name in ("9", "10", ".10.crc"):
                files.create(f"commits/{name}", b"v1")
            self.assertEqual(last_commit(files), 10)
