"""Tests estimates of a join's rows, without Spark."""

from __future__ import annotations

import json
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from logbus.model import TopicPartition
from logbus.pipeline.jobs.join_estimate import (
    SAMPLE,
    SideSample,
    expected_rows,
    range_options,
    sample_ranges,
    warning,
)
from logbus.pipeline.source.options import read_source_options

HOUR = 3_600_000_000
ORIGINS = {"EWR": 700, "JFK": 700, "LGA": 600}


class EstimateTests(TestCase):
    """How many rows there will be, and whether that is worth a warning."""

    def test_few_keys(self) -> None:
        """Of a year of flights from three airports each matches a third of the other side, if all times do."""
        flights = SideSample(ORIGINS, 336_776, 8760 * HOUR)
        weather = SideSample(ORIGINS, 26_115, 8760 * HOUR)
        told = warning(flights, weather, None, ["origin=origin"])
        self.assertIn("origin=origin has 3 different values among 4000 events sampled", told)
        self.assertAlmostEqual(expected_rows(flights, weather, None) / 336_776 / 26_115, 0.335, places=3)
        self.assertNotIn("--as-of", told)
        self.assertIn("or a shorter time between events (--before", warning(flights, weather, 4000 * HOUR, ["o=o"]))
        # In an hour there is one report.
        self.assertEqual(warning(flights, weather, HOUR, ["origin=origin"]), "")

    def test_many_keys(self) -> None:
        """Those that are there once or twice are selective, and equal ones by chance say nothing."""
        users = SideSample({f"{number}": 1 for number in range(2000)}, 10**9, 0)
        self.assertEqual(warning(users, SideSample({"1": 1, "2": 1}, 10**9, 0), None, ["user=user"]), "")
        self.assertEqual(expected_rows(SideSample({}, 0, 0), SideSample({}, 0, 0), None), 0)

    @given(
        st.dictionaries(st.integers(0, 3), st.integers(0, 10**4)),
        st.dictionaries(st.integers(0, 3), st.integers(0, 10**6)),
    )
    def test_samples(self, starts: dict[int, int], ends: dict[int, int]) -> None:
        """They are within what is there, do not overlap, and are of about the size that is wanted."""
        first = {TopicPartition("t", index): offset for index, offset in starts.items()}
        last = {TopicPartition("t", index): offset for index, offset in ends.items()}
        ranges = sample_ranges(first, last)
        read: set[tuple[TopicPartition, int]] = set()
        for begin, end in ranges:
            for each, stop in end.items():
                offsets = {(each, offset) for offset in range(begin[each], stop)}
                self.assertFalse(read & offsets)
                read |= offsets
                self.assertLessEqual(first.get(each, 0), begin[each])
                self.assertLessEqual(stop, last[each])
        there = sum(max(0, end - first.get(each, 0)) for each, end in last.items())
        self.assertLessEqual(len(read), SAMPLE)
        self.assertGreaterEqual(len(read), min(there, SAMPLE // 2 // 4))

    def test_options(self) -> None:
        """A batch takes them, whatever the stream has."""
        stream = {
            "kafka.bootstrap.servers": "h:1",
            "subscribePattern": "t.*",
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "5",
        }
        one = TopicPartition("t", 1)
        given = range_options(stream, {one: 3}, {one: 9})
        self.assertEqual(json.loads(given["assign"]), {"t": [1]})
        read_source_options(given, streaming=False)
