"""Tests of what the record browser's form asks for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.console.record_query import RecordQuery


class QueryTests(SynchronousTestCase):
    """Fields to parameters."""

    def test_newest(self) -> None:
        """Without anything the newest records of all partitions are asked for."""
        query = RecordQuery.read({})
        self.assertEqual(query.parameters(50, 100), {"limit": 50, "shown_bytes": 100, "newest": 10})
        self.assertEqual(query.fields(), {"from": "newest"})

    def test_places(self) -> None:
        """Offsets and times say where to begin; a time without a zone is in UTC."""
        for fields, expected in (
            ({"partition": "1", "from": "offset", "at": "7"}, {"offset": 7}),
            ({"from": "time", "at": "1700000000000"}, {"timestamp": 1_700_000_000_000}),
            ({"from": "time", "at": "2023-11-14T22:13:20"}, {"timestamp": 1_700_000_000_000}),
            ({"from": "time", "at": "2023-11-14T23:13:20+01:00"}, {"timestamp": 1_700_000_000_000}),
            ({"from": "oldest", "value": "x", "committed": "yes"}, {"value": "x", "isolation": "read_committed"}),
            ({"partition": "1"}, {"newest": 50}),
        ):
            query = RecordQuery.read(fields)
            self.assertEqual(query.wrong, {}, fields)
            self.assertEqual(query.parameters(50, 1), {"limit": 50, "shown_bytes": 1, **expected})

    def test_wrong(self) -> None:
        """What is wrong is told by field."""
        for fields, name in (
            ({"partition": "x"}, "partition"),
            ({"partition": "-1"}, "partition"),
            ({"from": "offset", "at": "7"}, "partition"),
            ({"from": "offset", "at": "", "partition": "0"}, "at"),
            ({"from": "offset", "at": "9" * 30, "partition": "0"}, "at"),
            ({"from": "time", "at": "yesterday"}, "at"),
            ({"from": "nowhere"}, "from"),
            ({"key": "x" * 1001}, "key"),
        ):
            self.assertIn(name, RecordQuery.read(fields).wrong, fields)

    @given(st.dictionaries(st.sampled_from(["partition", "from", "at", "key", "value", "header", "cursor"]), st.text()))
    def test_any(self, fields: dict[str, str]) -> None:
        """Any fields are parameters, or wrong; and reading them again asks for the same."""
        query = RecordQuery.read(fields)
        if not query.wrong:
            again = RecordQuery.read({**query.fields(), "cursor": query.cursor})
            self.assertEqual(again.parameters(), query.parameters())
