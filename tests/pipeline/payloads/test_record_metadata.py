"""Tests where the record's own columns are, beside those of the event."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from logbus.pipeline.errors import OptionError
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.pipeline.payloads.record_metadata import (
    COLUMNS,
    METADATA,
    check_metadata,
    metadata_of,
    metadata_struct,
)


def fields(*names: str, **structs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Columns in Spark's JSON."""
    inner = [{"name": name, "type": {"type": "struct", "fields": of}} for name, of in structs.items()]
    return [*({"name": name, "type": "string"} for name in names), *inner]


class MetadataTests(TestCase):
    """New tables have a struct if a name is taken; others stay as they are."""

    def test_new_tables(self) -> None:
        """What the user says takes precedence."""
        for names, metadata, struct in (
            (("user", "hour", "date"), "", ""),
            (("user", "Key"), "", "kafka"),
            (("offset",), COLUMNS, ""),
            (("user",), "meta", "meta"),
        ):
            self.assertEqual(metadata_struct(names, metadata), struct)

    def test_tables_with_rows(self) -> None:
        """A struct is known by its fields, whatever its name is, also beside an event's fields of the same names."""
        for schema, metadata in (
            (None, ""),
            ({"fields": fields("user")}, ""),
            ({"fields": fields(*METADATA, "user")}, COLUMNS),
            ({"fields": fields("user", meta=fields(*METADATA))}, "meta"),
            ({"fields": fields(*METADATA, kafka=fields(*METADATA, "headers"))}, "kafka"),
            ({"fields": fields(*METADATA, page=fields("key", "offset"))}, COLUMNS),
        ):
            self.assertEqual(metadata_of(schema), metadata)

    def test_names_that_are_taken(self) -> None:
        """The struct's is, and of columns all of them; a payload follows the table that it is for."""
        payload = JsonPayload(schema="key STRING, topic STRING")
        with self.assertRaisesRegex(OptionError, "the event's field 'key' has the name of one of the record's own"):
            payload.with_metadata(COLUMNS)
        with self.assertRaisesRegex(OptionError, "field 'kafka' has the name of the column of the record's metadata"):
            JsonPayload(schema="key STRING, kafka STRING")
        self.assertEqual(JsonPayload(schema="key STRING, kafka STRING", metadata="m").with_metadata("n").metadata, "n")
        with self.assertRaisesRegex(OptionError, "metadata is 'a.b'; it takes columns, or the name of a column"):
            check_metadata("a.b")
