"""Tests which directories a table's files are in, without Spark."""

from __future__ import annotations

from unittest import TestCase

from logbus.pipeline.errors import LakeError, OptionError
from logbus.pipeline.lake.layout import Layout, directories_of, layout_for

NONE = Layout("none")


class LayoutTests(TestCase):
    """Directories, by the option and by a table's files."""

    def test_options(self) -> None:
        """Each has its directories; a column may have the name of one of them."""
        found = {text: Layout(text).directories for text in ("none", "date", "hour", "page", "column:hour")}
        self.assertEqual(
            found,
            {"none": (), "date": ("date",), "hour": ("date", "hour"), "page": ("page",), "column:hour": ("hour",)},
        )
        self.assertEqual((Layout("hour").of_times, Layout("column:hour").of_times), (("date", "hour"), ()))
        for wrong in ("", "column:"):
            with self.assertRaisesRegex(OptionError, "it takes none, date, hour, or a column"):
                Layout(wrong)

    def test_directories_of_files(self) -> None:
        """Those in quarantine say nothing: it has directories of times only."""
        self.assertIsNone(directories_of([]))
        self.assertIsNone(directories_of(["_quarantine/date=2026-01-01/p.parquet"]))
        self.assertEqual(directories_of(["_quarantine/date=x/p.parquet", "p.parquet"]), ())
        self.assertEqual(directories_of(["date=2026-01-01/hour=05/p.parquet"]), ("date", "hour"))
        self.assertEqual(directories_of(["a%3Ab%25=%2F/p.parquet"]), ("a:b%",))

    def test_next_files_are_as_those_that_are_there(self) -> None:
        """Unless the table has none yet; what is asked for must be the same."""
        for text in ("none", "date", "hour", "page"):
            there = ["/".join([*(f"{each}=x" for each in Layout(text).directories), "p.parquet"])]
            self.assertEqual(layout_for("t", directories_of(there), None, NONE).directories, Layout(text).directories)
            self.assertEqual(layout_for("t", directories_of(there), Layout(text), NONE), Layout(text))
            self.assertEqual(layout_for("t", None, Layout(text), NONE), Layout(text))
            with self.assertRaisesRegex(LakeError, "^t: its files are in .*, and partition_by user would make user="):
                layout_for("t", directories_of(there), Layout("user"), NONE)
        self.assertEqual(layout_for("t", None, None, NONE), NONE)
        with self.assertRaisesRegex(LakeError, "its directories a/b are none that a load makes"):
            layout_for("t", ("a", "b"), None, NONE)
