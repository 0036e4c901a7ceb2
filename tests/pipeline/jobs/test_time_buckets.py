"""Tests that joins by buckets of time find what they would without, at random times and those where buckets begin."""

from __future__ import annotations

import datetime
import random
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest

from logbus.pipeline.jobs.event_stream import EVENT_TIME, PLACE, EventStream
from logbus.pipeline.jobs.joins import JoinOptions, joined
from logbus.pipeline.jobs.streaming_query import QuerySettings
from logbus.pipeline.jobs.time_buckets import TimeBuckets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Event = tuple[str | None, int, int]
"""The key, the time in microseconds since 1970, and the number of its record."""

STREAM = EventStream(source={"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "any"})
SECOND = 1_000_000


def events(seed: int, before: int, after: int) -> tuple[list[Event], list[Event]]:
    """Two sides, with equal times, and such as are just within reach or out of it, around 1970."""
    some = random.Random(seed)
    width = TimeBuckets(before, after).width
    near = [0, before, -before, after, -after]

    def side() -> list[Event]:
        times = [width * some.randrange(-3, 4) + some.choice(near) + some.randrange(-1, 2) for _ in range(60)]
        times += [some.randrange(-3 * width, 3 * width + 1) for _ in range(60)]
        return [(some.choice(["a", "b", None]), time, number) for number, time in enumerate(times)]

    return side(), side()


def in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows, nulls as well."""
    return sorted(rows, key=repr)


def found(spark: SparkSession, left: list[Event], right: list[Event], *joins: dict[str, Any]) -> list[list[Any]]:
    """The rows of each of some joins, as numbers of records."""
    from pyspark.sql import functions as f

    def frame(side: list[Event]) -> DataFrame:
        place = f.struct(f.lit("t").alias("topic"), f.lit(0).alias("partition"), f.col("number").alias("offset"))
        rows = spark.createDataFrame(side, "key STRING, micros LONG, number LONG")
        return rows.select("key", "number", f.timestamp_micros("micros").alias(EVENT_TIME), place.alias(PLACE))

    sides = frame(left), frame(right)
    rows = []
    for number, options in enumerate(joins):
        asked = JoinOptions(
            left=STREAM,
            right=STREAM,
            on={"key": "key"},
            select={"join": f"{number}", "mine": "l.number", "theirs": "r.number"},
            outputs=[],
            running=QuerySettings("unused"),
            **options,
        )
        rows.append(joined(*sides, asked))
    all_of_them = reduce(lambda one, other: one.union(other), rows).coalesce(1).collect()
    return [in_order([each[1:] for each in all_of_them if each[0] == number]) for number, _ in enumerate(joins)]


@pytest.mark.parametrize(("before", "after"), [(10 * SECOND, 3 * SECOND), (0, 1), (0, 0)])
def test_intervals(spark: SparkSession, before: int, after: int) -> None:
    """Each pair within the interval is there once, and what matches nothing too, if that is asked for."""
    left, right = events(1, before, after)
    pairs = [
        (mine[2], theirs[2])
        for mine in left
        for theirs in right
        if mine[0] == theirs[0] is not None and mine[1] - before <= theirs[1] <= mine[1] + after
    ]
    mine_alone = [(each[2], None) for each in left if each[2] not in {mine for mine, _ in pairs}]
    theirs_alone = [(None, each[2]) for each in right if each[2] not in {theirs for _, theirs in pairs}]
    assert min(map(len, (pairs, mine_alone, theirs_alone))) > 0
    interval = {"before": f"{before} microseconds", "after": f"{after} microseconds"}
    kinds = {"inner": pairs, "left": [*pairs, *mine_alone], "right": [*pairs, *theirs_alone]}
    rows = found(spark, left, right, *({"kind": kind, **interval} for kind in kinds))
    assert rows == [in_order(wanted) for wanted in kinds.values()]


def test_as_of(spark: SparkSession) -> None:
    """The latest before, as pandas finds it; of two at the same time the one behind in the topic."""
    import pandas as pd

    left, right = events(2, 10 * SECOND, 0)

    def frame(side: list[Event], name: str) -> Any:
        rows = pd.DataFrame([each for each in side if each[0] is not None], columns=["key", "at", name])
        return rows.assign(at=pd.to_datetime(rows["at"], unit="us")).sort_values(["at", name])

    joins, wanted = [], []
    for tolerance in (10 * SECOND, 1, 3_600 * SECOND):
        within = pd.Timedelta(datetime.timedelta(microseconds=tolerance))
        rows = pd.merge_asof(frame(left, "mine"), frame(right, "theirs"), on="at", by="key", tolerance=within)
        matches = [
            (int(mine), None if pd.isna(theirs) else int(theirs))
            for mine, theirs in zip(rows["mine"], rows["theirs"], strict=True)
        ]
        matches += [(number, None) for key, _, number in left if key is None]
        pairs = [each for each in matches if each[1] is not None]
        assert 0 < len(pairs) < len(matches) == len(left)
        for kind, each in (("inner", pairs), ("left", matches)):
            joins.append({"as_of": f"{tolerance} microseconds", "kind": kind})
            wanted.append(in_order(each))
    assert found(spark, left, right, *joins) == wanted
