"""Tests of :mod:`logbus.cli.groups.offset_file`."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.groups.offset_file import SavedOffset, read_offsets, write_offsets
from logbus.errors import LogbusError
from logbus.model import TopicPartition

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
saved = st.dictionaries(
    texts,
    st.dictionaries(
        st.builds(TopicPartition, texts, st.integers(0, 2**31 - 1)),
        st.builds(SavedOffset, st.integers(0, 2**63 - 1), texts | st.just("")),
        max_size=4,
    ),
    max_size=4,
)


def file(**changes: Any) -> dict[str, Any]:
    """Return a valid file with changes."""
    offset = {"topic": "t", "partition": 0, "offset": 4, "metadata": "note"}
    return {
        "format": "logbus-group-offsets",
        "version": 1,
        "groups": [{"group": "g", "offsets": [offset]}],
        **changes,
    }


class FileTests(SynchronousTestCase):
    @given(saved, st.none() | texts)
    def test_round_trip(self, groups: Any, cluster_id: str | None) -> None:
        """Any groups and offsets are read as they were written, and the file is valid JSON."""
        text = write_offsets(groups, cluster_id, 1_700_000_000_123)
        self.assertEqual(read_offsets(text.encode(), "f"), groups)
        self.assertEqual(json.loads(text)["exported_at"], "2023-11-14T22:13:20Z")

    def test_a_line_for_each_offset(self) -> None:
        """
        So that files can be compared, and edited.
        """
        offsets = {TopicPartition("t", n): SavedOffset(n) for n in range(5)}
        self.assertEqual(write_offsets({"g": offsets}, "c", 0).count('\n  {"topic"'), 5)

    def test_optional_members(self) -> None:
        """Metadata may be absent."""
        short = file(groups=[{"group": "g", "offsets": [{"topic": "t", "partition": 0, "offset": 4}]}])
        self.assertEqual(read_offsets(json.dumps(short).encode(), "f"), {"g": {TopicPartition("t", 0): SavedOffset(4)}})

    def refused(self, value: Any) -> str:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        error = str(self.assertRaises(LogbusError, read_offsets, data, "o.json"))
        self.assertTrue(error.startswith("o.json: "), error)
        return error

    def test_error_positions(self) -> None:
        """The error names the line of invalid JSON, or the member and what would be valid."""
        offset = {"topic": "t", "partition": 0, "offset": 4}
        for value, *parts in (
            (b'{\n"format": x}', "line 2, column 11"),
            (b"\xff", "UTF-8"),
            (b"", "line 1"),
            ([], "$ is array, not object"),
            (file(format="other"), "$.format", "logbus-group-offsets"),
            (file(version=2), "version 2", "1 is"),
            ({"format": "logbus-group-offsets"}, "version None"),
            (file(more=1), "$", "'more'"),
            (file(groups=[{"group": "g"}]), "$.groups[0]", "'offsets'"),
            (file(groups=[{"group": "", "offsets": []}]), "$.groups[0].group", "at least 1"),
            (
                file(groups=[{"group": "g", "offsets": [offset, {**offset, "offset": "5"}]}]),
                "$.groups[0].offsets[1].offset is string, not integer",
            ),
            (file(groups=[{"group": "g", "offsets": [{**offset, "offset": -1}]}]), "offsets[0].offset is -1", "0 to"),
            (file(groups=[{"group": "g", "offsets": [{**offset, "partition": 2**31}]}]), "offsets[0].partition"),
            (file(groups=[{"group": "g", "offsets": [{**offset, "offset": 1.5}]}]), "not integer"),
            (file(groups=[{"group": "g", "offsets": [offset, offset]}]), "$.groups[0].offsets[1]", "t-0"),
            (file(groups=[{"group": "g", "offsets": []}] * 2), "$.groups[1].group", "'g'"),
        ):
            error = self.refused(value)
            for part in parts:
                self.assertIn(part, error)

    @given(st.binary(max_size=40))
    def test_any_bytes(self, data: bytes) -> None:
        """
        Bytes from anywhere are refused in a line.
        """
        self.assertNotIn("\n", self.refused(data))
