"""
Sums up monitoring events on Spark, each event once.

Workers decode the events. The driver gets one row for each application, window and topic, however many events there
are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from attrs import frozen

from logbus.client.audit.monitoring_event import MonitoringEvent
from logbus.client.serializers import SerializationError
from logbus.pipeline.blocking.schema_registry import RegistryClient
from logbus.pipeline.jobs.audit_event_reader import AuditEventReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WHO = ("application", "role", "window_start", "window_ms")
_NUMBERS = ("counted", "failed", "uncounted")
_SCHEMA = (
    "place struct<topic: string, partition: int, offset: bigint>, problem string, id string, "
    "application string, role string, window_start bigint, window_ms bigint, topic string, "
    "counted bigint, failed bigint, uncounted bigint"
)
_ARROW = pa.schema(
    [
        ("place", pa.struct([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])),
        *((name, pa.string()) for name in ("problem", "id", "application", "role")),
        ("window_start", pa.int64()),
        ("window_ms", pa.int64()),
        ("topic", pa.string()),
        *((name, pa.int64()) for name in _NUMBERS),
    ]
)
_BATCH = 10_000
_LONGEST_PROBLEM = 300

Row = dict[str, Any]


@frozen
class EventSums:
    """
    The sums of the counts in monitoring events.

    :ivar sums: one event with the total counts for each application, role, window and topic.
    :ivar events: the number of events read;  ``repeated``: how many of them are repetitions.
    :ivar unreadable: records that are no monitoring events;  ``problem``: the position and error of the first.
    """

    sums: Sequence[MonitoringEvent] = ()
    events: int = 0
    repeated: int = 0
    unreadable: int = 0
    problem: str = ""


def sum_events(
    spark: SparkSession, source: Mapping[str, str], registry: RegistryClient | None, topics: Sequence[str] = ()
) -> EventSums:
    """
    Read monitoring events, and sum up their counts.

    :param source: options of ``format("logbus")``.
    :param registry: see :class:`.AuditEventReader`.
    :param topics: those to count; empty: all.
    """
    from pyspark.sql import functions as f

    records = spark.read.format("logbus").options(**source).load().select("topic", "partition", "offset", "value")
    rows = records.mapInArrow(partial(_rows_of_batches, registry), _SCHEMA).persist()
    try:
        is_event = f.col("id").isNotNull() & f.col("topic").isNull()
        totals = rows.agg(
            f.count_if(is_event).alias("events"),
            f.count_distinct(f.when(is_event, f.col("id"))).alias("different"),
            f.count("problem").alias("unreadable"),
            f.min(f.when(f.col("problem").isNotNull(), f.struct("place.*", "problem"))).alias("first"),
        ).first()
        assert totals is not None
        sums = _sums(rows, topics)
    finally:
        rows.unpersist()
    first = totals["first"]
    return EventSums(
        sums,
        events=totals["events"],
        repeated=totals["events"] - totals["different"],
        unreadable=totals["unreadable"],
        problem="" if first is None else f"{first.topic}-{first.partition} at offset {first.offset}: {first.problem}",
    )


def _sums(rows: DataFrame, topics: Sequence[str]) -> list[MonitoringEvent]:
    from pyspark.sql import functions as f

    once = rows.where("id is not null").dropDuplicates(["id", "topic"])
    if topics:
        once = once.where(f.col("topic").isNull() | f.col("topic").isin(list(topics)))
    # Counts are input from others: their sum may overflow a long.
    sums = [f.sum(f.col(name).cast("decimal(20)")).alias(name) for name in _NUMBERS]
    return [
        MonitoringEvent(
            id=f"sum {number}",
            application=row["application"],
            host="",
            role=row["role"],
            window_start=row["window_start"],
            window_ms=row["window_ms"],
            counts={row["topic"]: int(row["counted"])} if row["counted"] is not None else {},
            failed={row["topic"]: int(row["failed"])} if row["failed"] is not None else {},
            uncounted=int(row["uncounted"] or 0),
        )
        for number, row in enumerate(once.groupBy(*_WHO, "topic").agg(*sums).sort(*_WHO, "topic").collect())
    ]


def _rows_of_batches(registry: RegistryClient | None, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode records; runs in Spark's workers."""
    reading = AuditEventReader(registry)
    rows: list[Row] = []
    for batch in batches:
        for record in batch.to_pylist():
            place = {name: record[name] for name in ("topic", "partition", "offset")}
            rows += ({"place": place, **row} for row in rows_of(reading, record["value"]))
            if len(rows) >= _BATCH:
                yield pa.RecordBatch.from_pylist(rows, _ARROW)
                rows.clear()
    yield pa.RecordBatch.from_pylist(rows, _ARROW)


def rows_of(reading: AuditEventReader, value: bytes | None) -> list[Row]:
    """
    The rows of one record: a row for the event, without a topic, and one for each topic; or one row with the error.

    :raise RegistryFailed: the registry does not answer.
    """
    try:
        event = reading.event(value)
        # JSON may contain lone surrogates, which a column cannot.
        "".join((event.id, event.application, event.role, *event.counts, *event.failed)).encode()
    except (SerializationError, UnicodeEncodeError) as e:
        return [{"problem": str(e)[:_LONGEST_PROBLEM].encode(errors="replace").decode()}]
    same = {"id": event.id, **{name: getattr(event, name) for name in _WHO}}
    return [
        {**same, "uncounted": event.uncounted},
        *(
            {**same, "topic": topic, "counted": event.counts.get(topic), "failed": event.failed.get(topic)}
            for topic in {**event.counts, **event.failed}
        ),
    ]
