"""
Estimates from samples how many rows a join will have, so that one without a selective key is found before it runs.

Each event is compared with all events of the other side that have its key and are near it in time. If a few values of
the key are those of most events, the work grows with the product of both sides.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from logbus.model import TopicPartition
from logbus.pipeline.source.offsets_json import PartitionOffsets, offsets_to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAMPLE = 2000
"""Records of each side that are read, half of them from the beginning."""
LEAST_PAIRS = 10_000_000
"""A join of fewer pairs of events is fast whatever its keys are, and is not estimated."""
MANY = 100
"""More rows than this for each event of the greater side are worth a warning."""
_CERTAIN = 100
"""Pairs of equal keys in the samples, below which chance may be their cause."""


@frozen
class SideSample:
    """
    A sample of one side.

    :ivar keys: the number of events by key.
    :ivar total: events of the side, sampled or not.
    :ivar span: microseconds between the earliest and the latest event.
    """

    keys: Mapping[str, int]
    total: int
    span: int

    @property
    def events(self) -> int:
        """Events in the sample."""
        return sum(self.keys.values())


def expected_rows(left: SideSample, right: SideSample, interval: int | None) -> float:
    """
    The expected number of rows; 0 if the samples have too few equal keys to tell.

    :param interval: microseconds within which events match; None: whatever their times are.
    """
    pairs = sum(count * right.keys.get(key, 0) for key, count in left.keys.items())
    if pairs < _CERTAIN:
        return 0.0
    span = max(left.span, right.span)
    near = 1.0 if interval is None or interval >= span else interval / span
    return left.total * right.total * pairs / (left.events * right.events) * near


def warning(left: SideSample, right: SideSample, interval: int | None, keys: Sequence[str]) -> str:
    """The warning about a join that will have many rows; "": it will not."""
    rows = expected_rows(left, right, interval)
    most = max(left.total, right.total)
    if rows <= MANY * most:
        return ""
    values = len(left.keys.keys() | right.keys.keys())
    nearer = "" if interval is None else ", or a shorter time between events (--before, --after, --as-of)"
    return (
        f"about {rows:,.0f} pairs of events will match, {rows / most:,.0f} for each event: {', '.join(keys)} has "
        f"{values} different values among {left.events + right.events} events sampled. That takes time and disk in "
        f"proportion; a more selective key (--on){nearer} makes it fewer"
    )


def sample_ranges(starts: PartitionOffsets, ends: PartitionOffsets) -> list[tuple[PartitionOffsets, PartitionOffsets]]:
    """The offset ranges to sample: the beginning and the end of each partition."""
    there = {each: (starts.get(each, 0), end) for each, end in ends.items() if end > starts.get(each, 0)}
    if not there:
        return []
    some = max(1, SAMPLE // 2 // len(there))
    heads: dict[TopicPartition, tuple[int, int]] = {}
    tails: dict[TopicPartition, tuple[int, int]] = {}
    for each, (start, end) in there.items():
        middle = min(end, start + some)
        heads[each], tails[each] = (start, middle), (max(middle, end - some), end)
    return [
        ({each: start for each, (start, _) in of.items()}, {each: end for each, (_, end) in of.items()})
        for of in (heads, tails)
    ]


def range_options(source: Mapping[str, str], starts: PartitionOffsets, ends: PartitionOffsets) -> dict[str, str]:
    """Options of a batch that reads a range, from those of a stream."""
    dropped = ("starting", "ending", "subscribe", "assign", "maxoffsets", "minoffsets", "maxtrigger")
    kept = {name: value for name, value in source.items() if not name.lower().startswith(dropped)}
    partitions: dict[str, list[int]] = {}
    for each in ends:
        partitions.setdefault(each.topic, []).append(each.partition)
    return {
        **kept,
        "assign": json.dumps(partitions),
        "startingOffsets": json.dumps(offsets_to_json(starts)),
        "endingOffsets": json.dumps(offsets_to_json(ends)),
    }


def sample_of(rows: DataFrame, total: int) -> SideSample:
    """
    A sample of rows.

    :param rows: with the columns ``key`` and ``time``; keys with nulls match nothing, and are null.
    """
    from pyspark.sql import functions as f

    groups = rows.groupBy("key").agg(
        f.count(f.lit(1)).alias("events"),
        f.min(f.unix_micros("time")).alias("first"),
        f.max(f.unix_micros("time")).alias("last"),
    )
    found = groups.collect()
    keys = Counter({row["key"]: row["events"] for row in found if row["key"] is not None})
    times = [row[end] for row in found for end in ("first", "last") if row[end] is not None]
    return SideSample(keys, total, max(times) - min(times) if times else 0)
