"""Tests the columns that the sink accepts."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.pipeline.errors import ColumnError
from logbus.pipeline.sink.columns import TYPES, SinkColumns, sink_columns


class ColumnTests(SynchronousTestCase):
    def refused(self, pattern: str, *fields: tuple[str, Any], topic: str | None = "orders") -> None:
        error = self.assertRaises(ColumnError, sink_columns, fields, topic)
        self.assertRegex(str(error), pattern)

    def test_the_least(self) -> None:
        """A value, and somewhere to go."""
        for kind in ("string", "binary"):
            self.assertEqual(sink_columns([("value", kind)], "orders"), SinkColumns())

    def test_all_of_them(self) -> None:
        """Also what no record has, which is passed over: rows as they were read can be written again."""
        fields = [(name, kinds[0]) for name, kinds in TYPES.items()] + [("offset", "bigint"), ("timestampType", "int")]
        self.assertEqual(sink_columns(fields, None), SinkColumns(True, True, True, True, True))
        self.assertFalse(sink_columns(fields, "orders").topic)

    def test_missing_columns(self) -> None:
        """They are named."""
        self.refused("'value' is missing; it is required, and takes string or binary", ("key", "string"))
        self.refused("option 'topic', or a column 'topic'", ("value", "string"), topic=None)

    def test_wrong_types(self) -> None:
        """Each is named, with what it takes."""
        for name, kinds in TYPES.items():
            others = [("value", "string")] if name != "value" else []
            self.refused(f"column '{name}' is bigint; it takes {kinds[0]}", (name, "bigint"), *others)

    def test_two_of_a_name(self) -> None:
        """Which of them is meant cannot be told."""
        self.refused("two columns 'value'", ("value", "string"), ("Value", "string"))
