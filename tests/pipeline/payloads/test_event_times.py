"""Tests on a real Spark that an event's time is the same in all time zones."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from logbus.pipeline.payloads.payload import REASON, TIME, JsonPayload
from tests.pipeline.query_fixtures import time_zone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3_600_000_000


def test_times_without_a_zone(spark: SparkSession) -> None:
    """They are UTC, in the hours that the clocks of New York leave out or have twice; those with a zone are of that."""
    from pyspark.sql import functions as f

    kinds = {
        "TIMESTAMP": [
            "2026-03-08T02:30:00",
            "2026-03-08T02:30:00-05:00",
            "2026-11-01T05:30:00Z",
            "2026-11-01T01:30:00.5",
        ],
        "TIMESTAMP_NTZ": ["2026-03-08T02:30:00", "1969-12-31T23:00:00.000001", None],
        "DATE": ["2026-11-01", "+999999-01-01"],
    }
    frames = []
    for kind, texts in kinds.items():
        values = ", ".join("('{}')" if text is None else f"""('{{"at": "{text}"}}')""" for text in texts)
        rows = spark.sql(f"SELECT cast(text AS BINARY) AS value FROM VALUES {values} AS v (text)")
        parsed = JsonPayload(schema=f"at {kind}", event_time="at").parsed(rows)
        frames.append(parsed.select(f.unix_micros(TIME).alias("micros"), f.col(REASON).alias("reason")))
    with time_zone(spark, "America/New_York"):
        found = reduce(lambda one, other: one.union(other), frames).collect()
    march, november = 20520 * 24 * HOUR, 20758 * 24 * HOUR
    assert [row["micros"] for row in found] == [
        march + HOUR * 5 // 2,
        march + HOUR * 15 // 2,
        november + HOUR * 11 // 2,
        november + HOUR * 3 // 2 + 500_000,
        march + HOUR * 5 // 2,
        1 - HOUR,
        None,
        november,
        None,
    ]
    no_time = "there is no time in 'at'"
    assert [row["reason"] for row in found] == [None] * 6 + [no_time, None, no_time]
