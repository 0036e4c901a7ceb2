"""Tests windows of a backlog that takes several batches: they are those that pandas finds, whatever the order."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from logbus.pipeline.errors import PipelineError
from logbus.pipeline.jobs.backlog import plans_of
from logbus.pipeline.jobs.event_stream import EventStream
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.late_watermark import LateWatermark
from logbus.pipeline.jobs.streaming_query import QueryReport, QuerySettings
from logbus.pipeline.jobs.windows import SessionWindow, SlidingWindow, TumblingWindow, WindowsOptions, run
from logbus.pipeline.lake.file_system import FileSystem, file_system_at
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.testing import Broker
from tests.pipeline.committed_messages import create_topic
from tests.pipeline.query_fixtures import Seen, event, nycflights, put, stream, topics

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

SCHEMA = "origin STRING, distance INT, time_hour TIMESTAMP"
PARTITIONS = 3


def flights(every: int) -> pd.DataFrame:
    """Each such flight of the year; the months are in no order."""
    import pandas as pd

    found = nycflights("flights").iloc[::every]
    months = dict(iter(found.groupby("month")))
    return pd.concat([months[month] for month in (7, 1, 12, 3, 10, 2, 9, 5, 4, 11, 6, 8)])


def produce(broker: Broker, topic: str, rows: pd.DataFrame) -> None:
    """Write flights as JSON, to the partition of their destination."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "queue.buffering.max.messages": 1_000_000})
    times = rows["time_hour"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    for origin, dest, distance, time in zip(rows["origin"], rows["dest"], rows["distance"], times, strict=True):
        producer.produce(
            topic, json.dumps({"origin": origin, "distance": distance, "time_hour": time}), partition=ord(dest[0]) % 3
        )
        producer.poll(0)
    assert producer.flush(120) == 0


def asked(broker: Broker, topic: str, seen: Seen, checkpoint: Path, limit: int, **running: Any) -> WindowsOptions:
    """Flights and miles by origin and hour, with the watermark that is the default."""
    source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "maxOffsetsPerTrigger": str(limit)}
    return WindowsOptions(
        stream=EventStream(source=source, payload=JsonPayload(schema=SCHEMA, event_time="time_hour")),
        window=TumblingWindow("1 hour"),
        by={"origin": "origin"},
        aggregates={"flights": "count(*)", "miles": "sum(distance)"},
        outputs=[seen],
        running=QuerySettings(str(checkpoint), **running),
    )


def windows_of(seen: Seen) -> dict[tuple[Any, ...], tuple[int, int]]:
    """The windows written, each of which is there once."""
    rows = [row for rows in seen.batches.values() for row in rows]
    found = {(start, origin): (count, miles) for start, _, origin, count, miles in rows}
    assert len(found) == len(rows)
    return found


def wanted(rows: pd.DataFrame) -> dict[tuple[Any, ...], tuple[int, int]]:
    """The windows as pandas finds them."""
    groups = rows.groupby(["time_hour", "origin"])["distance"].agg(["count", "sum"])
    return {
        (time.to_pydatetime().replace(tzinfo=None), origin): (row["count"], row["sum"])
        for (time, origin), row in groups.iterrows()
    }


def test_any_order(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """With several partitions and small batches, and with a run that ends in the middle."""
    rows = flights(400)
    create_topic(broker.bootstrap, "flights", PARTITIONS)
    produce(broker, "flights", rows)
    told: list[str] = []
    watch = JobControl(told.append)
    seen, checkpoint = Seen({}), tmp_path / "checkpoint"
    options = asked(broker, "flights", seen, checkpoint, 250)
    batches: list[int] = []
    finish = LateWatermark.after

    def dies(late: LateWatermark, files: FileSystem, batch: int) -> None:
        batches.append(batch)
        if batch == 1:
            raise ValueError("the machine is off")
        finish(late, files, batch)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(PipelineError, match="batch 1: the machine is off"):
        patch.setattr(LateWatermark, "after", dies)
        run(spark, options, watch)
    assert (batches, seen.batches) == ([0, 1], {})
    assert told[:2] == [
        f"flights: {len(rows)} offsets of 3 partitions to read, in 4 batches or more, from where a new query begins",
        "the watermark is held until all of this is read, so that none of it is late",
    ]
    rest = run(spark, options, watch)
    # As if it had been one batch: what the latest event leaves open is that of its own hour.
    rest = run(spark, asked(broker, "flights", seen, checkpoint, 200), watch)
    by_pandas = wanted(rows)
    last = max(time for time, _ in by_pandas)
    assert windows_of(seen) == {window: sums for window, sums in by_pandas.items() if window[0] != last}
    assert rest.late == 0
    assert rest.still_open == sum(sums[0] for window, sums in by_pandas.items() if window[0] == last)
    assert not (checkpoint / "logbus-backlog").exists()
    # At the end of the year, that too.
    closed = run(spark, asked(broker, "flights", seen, checkpoint, 250, close_open=True))
    assert (closed.rows_in, closed.still_open) == (0, 0)
    assert windows_of(seen) == by_pandas


def test_close_open(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Whatever windows are, all of them are written; the job may go on with later events."""
    clocks = ["00:10", "00:35", "01:06", "00:20"]
    topics(broker, "visits")
    put(broker, "visits", [event(clock, user="ann") for clock in clocks])

    def found(name: str, window: Any) -> tuple[QueryReport, list[tuple[str, str, int]]]:
        seen = Seen({})
        options = WindowsOptions(
            stream=stream(broker, "visits"),
            window=window,
            by={"user": "user"},
            outputs=[seen],
            running=QuerySettings(str(tmp_path / name), close_open=True),
        )
        report = run(spark, options)
        rows: Iterable[Any] = (row for rows in seen.batches.values() for row in rows)
        return report, sorted((row[0].strftime("%H:%M"), row[1].strftime("%H:%M"), row[3]) for row in rows)

    sliding = [("00:00", "01:00", 3), ("00:30", "01:30", 2), ("01:00", "02:00", 1), ("23:30", "00:30", 2)]
    assert found("sliding", SlidingWindow("1 hour", "30 minutes"))[1] == sliding
    assert found("sessions", SessionWindow("30 minutes"))[1] == [("00:10", "01:05", 3), ("01:06", "01:36", 1)]


@pytest.mark.long
def test_a_year(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """All 336,776 flights, in batches of 60,000: each window is that of pandas and of DuckDB."""
    import duckdb

    rows = flights(1)
    create_topic(broker.bootstrap, "a-year", PARTITIONS)
    produce(broker, "a-year", rows)
    seen = Seen({})
    report = run(spark, asked(broker, "a-year", seen, tmp_path / "checkpoint", 60_000, close_open=True))
    assert (report.rows_in, report.late, report.still_open) == (336_776, 0, 0)
    found = windows_of(seen)
    assert found == wanted(rows)
    times = rows.assign(hour_of=rows["time_hour"].dt.tz_localize(None))[["hour_of", "origin", "distance"]]
    assert len(times) == len(rows)
    by_duckdb = duckdb.sql("SELECT hour_of, origin, count(*), sum(distance) FROM times GROUP BY ALL").fetchall()
    assert found == {(at, origin): (count, int(miles)) for at, origin, count, miles in by_duckdb}


def test_plan_of_a_topic_made_anew(broker: Broker, tmp_path: Path) -> None:
    """All of it is to be read, also if that is less than was read of the old one: it may take several batches."""
    topics(broker, "again")
    asked = stream(broker, "again", maxOffsetsPerTrigger="3", failOnDataLoss="false")
    old = {"again": {"0": 10}, ":ids": {"again": str(uuid.uuid4())}}
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(old)}")
    put(broker, "again", [event("00:10")] * 4)
    (plan,) = plans_of(file_system_at(None, str(tmp_path)), [asked])
    assert (plan.left, plan.is_long) == (4, True)
    assert "4 offsets of 1 partition to read, in 2 batches" in str(plan)


def test_plan_of_a_topic_whose_oldest_records_are_gone(broker: Broker, tmp_path: Path) -> None:
    """What was deleted is not to be read."""
    topics(broker, "shorter")
    put(broker, "shorter", [event("00:10")] * 4)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for deleted in admin.delete_records([TopicPartition("shorter", 0, 3)]).values():
        deleted.result(120)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"shorter": {"0": 1}}')
    (plan,) = plans_of(file_system_at(None, str(tmp_path)), [stream(broker, "shorter", failOnDataLoss="false")])
    assert plan.left == 1
