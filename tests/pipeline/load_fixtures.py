"""Helpers of tests of loads: topics with known records, loads, and the content of tables."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.load import LoadOptions, LoadReport, run
from logbus.pipeline.payloads.payload import Payload, RawPayload
from logbus.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASE = 1_700_000_000_000
HOUR = 3_600_000
SECONDS = 120.0

Place = tuple[str, int, int]


def ask(bootstrap: str, what: str, *arguments: Any) -> None:
    """Have another client's AdminClient do something, to the end."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    for each in getattr(client, what)(*arguments).values():
        each.result(SECONDS)


def make(broker: Broker, partitions: int = 1, *names: str, **config: str) -> str:
    """Topics that keep what is old; the first one's name is given back."""
    names = names or (f"t-{uuid.uuid4().hex[:8]}",)
    config = {"retention.ms": "-1", **config}  # Records are of 2023: they would be gone at the first look for old ones.
    ask(broker.bootstrap, "create_topics", [NewTopic(name, partitions, 1, config=config) for name in names])
    return names[0]


def fill(
    broker: Broker,
    topic: str,
    values: Iterable[bytes | None],
    partition: int = 0,
    times: Callable[[int], int] = lambda number: BASE + number,
    headers: Any = None,
) -> dict[Place, bytes | None]:
    """Write values, with times by their numbers; where each is then."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    written: dict[Place, bytes | None] = {}

    def told(error: Any, message: Any) -> None:
        assert error is None, error
        written[message.topic(), message.partition(), message.offset()] = message.value()

    for number, value in enumerate(values):
        key = b"key %d" % number if number % 3 else None
        producer.produce(topic, value, key, partition, told, timestamp=times(number), headers=headers)
    assert producer.flush(SECONDS) == 0
    return written


def options(broker: Broker, table: Path, topic: str, **more: Any) -> LoadOptions:
    """A load of a topic, into directories by hour; names with capitals in them are the source's."""
    ours = {"partition_by": "hour", **{name: more.pop(name) for name in list(more) if name.islower()}}
    payload: Payload = ours.pop("payload", RawPayload())
    source = {"kafka.bootstrap.servers": broker.bootstrap, **{name: str(value) for name, value in more.items()}}
    if "subscribePattern" not in source:
        source["subscribe"] = topic
    return LoadOptions(source=source, table=str(table), payload=payload, **ours)


def load(
    spark: SparkSession, broker: Broker, table: Path, topic: str, watch: JobControl | None = None, **more: Any
) -> LoadReport:
    """See :func:`options`."""
    return run(spark, options(broker, table, topic, **more), watch)


def held(spark: SparkSession, table: Path) -> list[Place]:
    """What any reader of Parquet finds, in order; with what is there twice."""
    rows = spark.read.parquet(str(table)).select("topic", "partition", "offset").collect()
    return sorted((row[0], row[1], row[2]) for row in rows)


def odd(spark: SparkSession, table: Path) -> dict[int, str]:
    """The reasons in quarantine, by offset; nothing is there twice."""
    rows = spark.read.parquet(str(table / "_quarantine")).select("offset", "reason").collect()
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0]: row[1] for row in rows}


def directory(at_ms: int) -> tuple[str, str]:
    """The date and hour of a time, as tables spell them."""
    at = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    return at.strftime("%Y-%m-%d"), at.strftime("%H")


def commits(table: Path) -> list[dict[str, Any]]:
    """The table's log."""
    return [json.loads(path.read_text()) for path in sorted((table / "_logbus" / "commits").glob("*.json"))]
