"""Tests what the source makes of Spark's filters, and that no wanted record is left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as f
from twisted.trial.unittest import SynchronousTestCase

from logbus.model import TopicPartition
from logbus.pipeline.source.pushdown import PushedFilters, push

ONE = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def pushed(*filters: Any) -> PushedFilters:
    """What the source applies; Spark applies nothing."""
    found, left = push(filters)
    assert left == []
    return found


class PushdownTests(SynchronousTestCase):
    """Filters of queries."""

    def test_partitions(self) -> None:
        """By topics and numbers."""
        found = pushed(
            f.StringStartsWith(("topic",), "a"),
            f.Not(f.EqualTo(("topic",), "ab")),
            f.In(("partition",), (1, 2)),
            f.LessThan(("partition",), 2),
            f.IsNotNull(("partition",)),
        )
        there = [TopicPartition(topic, number) for topic in ("a", "ab", "b") for number in range(3)]
        self.assertEqual([each for each in there if found.wanted(each)], [TopicPartition("a", 1)])

    def test_offsets(self) -> None:
        """They are bounded within what the options say."""
        place, other = TopicPartition("a", 0), TopicPartition("a", 1)
        found = pushed(f.GreaterThan(("offset",), 4), f.LessThanOrEqual(("offset",), 8), f.EqualTo(("partition",), 0))
        self.assertEqual(found.bounded({place: 2, other: 2}, {place: 20, other: 20}), ({place: 5}, {place: 9}))
        self.assertEqual(found.bounded({place: 6, other: 0}, {place: 7, other: 0}), ({place: 6}, {place: 7}))
        start, end = found.bounded({place: 0, other: 0}, {place: 3, other: 0})
        self.assertEqual((start, end), ({place: 3}, {place: 3}))
        start, end = found.bounded({place: 12, other: 0}, {place: 20, other: 0})
        self.assertGreaterEqual(start[place], end[place])

    def test_times(self) -> None:
        """From below, in whole milliseconds; Spark applies them as well."""
        for each, since in (
            (f.GreaterThanOrEqual(("timestamp",), ONE), 1000),
            (f.GreaterThan(("timestamp",), ONE), 1001),
            (f.EqualTo(("timestamp",), ONE + timedelta(microseconds=1)), 1001),
            (f.In(("timestamp",), (ONE + timedelta(seconds=1), ONE)), 1000),
        ):
            found, left = push([each])
            self.assertEqual((found.since, left), (since, [each]))

    def test_left_to_spark(self) -> None:
        """What bounds nothing, or is not a simple comparison."""
        for each in (
            f.LessThan(("timestamp",), ONE),
            f.GreaterThan(("timestamp",), ONE.replace(tzinfo=None)),
            f.GreaterThan(("timestamp",), datetime(1960, 1, 1, tzinfo=UTC)),
            f.Not(f.EqualTo(("offset",), 3)),
            f.EqualTo(("key",), b"x"),
            f.IsNotNull(("value",)),
            f.EqualTo(("headers", "key"), "x"),
            f.In(("partition",), (1, None)),
            f.GreaterThan(("partition",), 2.5),
            f.EqualTo(("offset",), True),
        ):
            found, left = push([each])
            self.assertEqual((found, left), (PushedFilters(), [each]))

    def test_nothing(self) -> None:
        """No partition is null."""
        self.assertFalse(pushed(f.IsNull(("topic",))).wanted(TopicPartition("a", 0)))
        self.assertFalse(pushed(f.Not(f.IsNotNull(("offset",)))).wanted(TopicPartition("a", 0)))


TESTS = {
    f.EqualTo: lambda value, given: value == given,
    f.GreaterThan: lambda value, given: value > given,
    f.GreaterThanOrEqual: lambda value, given: value >= given,
    f.LessThan: lambda value, given: value < given,
    f.LessThanOrEqual: lambda value, given: value <= given,
    f.In: lambda value, given: value in given,
}


@given(
    st.lists(st.tuples(st.sampled_from(list(TESTS)), st.sampled_from(["partition", "offset"]), st.integers(-1, 9))),
    st.integers(0, 8),
    st.integers(0, 8),
)
def test_same_rows(conditions: list[tuple[Any, str, int]], start: int, end: int) -> None:
    """What is read, and meets the filters that are left to Spark, is what meets all filters."""
    filters = [kind((column,), (value, value + 2) if kind is f.In else value) for kind, column, value in conditions]

    def meets(partition: int, offset: int, wanted: list[Any]) -> bool:
        row = {"partition": partition, "offset": offset}
        return all(TESTS[type(each)](row[each.attribute[0]], each.value) for each in wanted)

    found, left = push(filters)
    places = [TopicPartition("t", number) for number in range(3)]
    starts, ends = found.bounded(dict.fromkeys(places, start), dict.fromkeys(places, end))
    read = {(each.partition, offset) for each in starts for offset in range(starts[each], ends[each])}
    everything = {(number, offset) for number in range(3) for offset in range(start, end)}
    assert read <= everything
    assert {each for each in read if meets(*each, left)} == {each for each in everything if meets(*each, filters)}
