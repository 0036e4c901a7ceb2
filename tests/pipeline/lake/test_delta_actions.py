"""Tests what Delta Lake's log says of files and commits."""

from __future__ import annotations

import datetime
import json
from typing import Any
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.delta_actions import (
    KIND,
    AddedFile,
    DeltaState,
    Position,
    Quarantined,
    bounds_of,
    foreign_changes,
    partition_text,
    unknown_type,
)
from logbus.pipeline.lake.load_state import LoadState
from logbus.pipeline.lake.part_files import ColumnStatistics
from tests.pipeline.lake.test_load_state import STATES

POSITIONS = st.builds(Position, st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1))
FILES = st.builds(
    AddedFile, st.text(), st.integers(0, 2**62), st.dictionaries(st.text(), st.none() | st.text()), st.text()
)
QUARANTINED = st.builds(
    Quarantined, schema=st.none(), directories=st.lists(st.text()).map(tuple), files=st.lists(FILES).map(tuple)
)
TIMES = st.datetimes(timezones=st.just(datetime.UTC))


class DeltaActionsTests(TestCase):
    """Positions, states, statistics."""

    @given(POSITIONS, POSITIONS)
    def test_positions(self, one: Position, other: Position) -> None:
        """Versions and paths are in the order of positions, and a version says which it is."""
        self.assertEqual(Position.of_version(one.version), one)
        self.assertEqual(one < other, one.version < other.version)
        self.assertEqual(one < other, one.path < other.path)
        self.assertLess(one.version, 2**63)

    @given(STATES, QUARANTINED)
    def test_round_trip(self, load: Any, quarantined: Quarantined) -> None:
        """What is read is what was written; the schema is the table's own."""
        state = DeltaState(load=load, quarantined=quarantined)
        found = DeltaState.from_json("x", state.as_json())
        self.assertEqual((found.quarantined, found.load.offsets, found.load.schema), (quarantined, load.offsets, None))

    def test_damaged_states(self) -> None:
        """They are named."""
        text = DeltaState(load=LoadState(), quarantined=Quarantined()).as_json()
        document = json.loads(text)
        for bad in (text[:-3], json.dumps({**document, "quarantined": {}}).encode()):
            with self.assertRaisesRegex(LakeError, "^here is "):
                DeltaState.from_json("here", bad)

    @given(st.lists(TIMES, min_size=1))
    def test_times_are_within_their_bounds(self, times: list[datetime.datetime]) -> None:
        """Bounds are in milliseconds, and no time between is outside of them."""
        bounds = bounds_of(ColumnStatistics(0, min(times), max(times)))
        if max(times).replace(microsecond=0) == datetime.datetime.max.replace(microsecond=0, tzinfo=datetime.UTC):
            return
        assert bounds is not None
        low, high = (datetime.datetime.fromisoformat(each) for each in bounds)
        self.assertLessEqual(low, min(times))
        self.assertGreaterEqual(high, max(times))
        self.assertLess(high - max(times) + min(times) - low, datetime.timedelta(milliseconds=2))

    def test_bounds(self) -> None:
        """Of numbers, dates and short texts; of nothing else, as readers would skip rows or could not use them."""
        day = datetime.date(2024, 5, 1)
        for low, high, expected in (
            (1, 2, (1, 2)),
            (day, day, ("2024-05-01", "2024-05-01")),
            ("a", "b", ("a", "b")),
            ("a", "b" * 101, None),
            (0.5, 1.5, None),
            (False, True, None),
            (b"a", b"b", None),
            (None, None, None),
            (datetime.datetime.max, datetime.datetime.max, None),
        ):
            self.assertEqual(bounds_of(ColumnStatistics(0, low, high)), expected, (low, high))

    def test_partition_values(self) -> None:
        """As the protocol has them."""
        at = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
        for value, text in (
            (None, None),
            ("", None),
            ("a=b", "a=b"),
            (True, "true"),
            (7, "7"),
            (datetime.date(2024, 5, 1), "2024-05-01"),
            (at, "2024-05-01 10:00:00.000000"),
            (datetime.datetime(1, 1, 1), "0001-01-01 00:00:00.000000"),
        ):
            self.assertEqual(partition_text(value), text)

    def test_foreign_changes(self) -> None:
        """Those since our last commit that changed rows, oldest first."""
        history = [
            {"version": 9, "operation": "OPTIMIZE"},
            {"version": 8, "operation": "DELETE"},
            {"version": 7, "operation": "MERGE"},
            {"version": 6, KIND: "load", "operation": "WRITE"},
            {"version": 5, "operation": "UPDATE"},
        ]
        found = foreign_changes("t", history)
        self.assertEqual([each.split(":")[1].split(" is ")[0] for each in found], [" version 7", " version 8"])
        self.assertEqual(len(foreign_changes("t", history, 7)), 1)

    def test_unknown_types(self) -> None:
        """Also in what they are parts of."""
        array = {"type": "array", "elementType": "void", "containsNull": True}
        struct = {
            "type": "struct",
            "fields": [{"name": "x", "type": {"type": "map", "keyType": "string", "valueType": array}}],
        }
        for kind, unknown in (
            ("decimal(10,2)", ""),
            ("interval day", "interval day"),
            (struct, "void"),
            ({"type": "udt"}, "udt"),
        ):
            self.assertEqual(unknown_type(kind), unknown)
