"""Tests Spark's own Kafka connector with our broker, beside ``format("logbus")``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from logbus.testing import Broker
from tests.pipeline.conftest import made
from tests.pipeline.query_fixtures import to_the_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACE = ("topic", "partition", "offset")


def _read(spark: SparkSession, kind: str, broker: Broker, topic: str, **options: str) -> DataFrame:
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "includeHeaders": "true", **options}
    return spark.read.format(kind).options(**given).load()


def _rows(frame: DataFrame, *columns: str) -> list[Any]:
    return frame.select(*columns).orderBy(*columns[:3]).collect()


@pytest.fixture(scope="module")
def filled(broker: Broker) -> str:
    """A topic with all sorts of records, some of them of transactions."""
    made(broker, filled=3)
    begun = int(time.time() * 1000)
    plain = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "zstd"})
    for number in range(300):
        plain.produce(
            "filled",
            None if number % 10 == 0 else b"v%d" % number,
            key=None if number % 5 == 0 else b"%d" % number,
            partition=number % 3,
            timestamp=begun + number,
            headers=[("a", b"1"), ("b", None)] if number % 7 == 0 else None,
        )
    plain.flush()
    for ends in ("commit_transaction", "abort_transaction"):
        writer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": ends})
        writer.init_transactions()
        writer.begin_transaction()
        for number in range(30):
            writer.produce("filled", ends.encode(), partition=number % 3)
        writer.flush()
        getattr(writer, ends)()
    return "filled"


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_both_see_the_same(spark_kafka: SparkSession, broker: Broker, filled: str, isolation: str) -> None:
    """Schemas are equal, and so are rows, column for column."""
    options = {"kafka.isolation.level": isolation}
    ours = _read(spark_kafka, "logbus", broker, filled, **options)
    theirs = _read(spark_kafka, "kafka", broker, filled, **options)
    assert ours.schema == theirs.schema
    columns = [*PLACE, *(name for name in ours.columns if name not in PLACE)]
    rows = _rows(ours, *columns)
    assert rows == _rows(theirs, *columns)
    assert len(rows) == (330 if isolation == "read_committed" else 360)


def test_sources_and_sinks_are_interchangeable(
    spark_kafka: SparkSession, broker: Broker, filled: str, tmp_path: Path
) -> None:
    """Rows go through both sinks, as a batch and as a stream, and are the same at the end."""
    kinds = {"logbus": "kafka", "kafka": "logbus"}
    made(broker, **{f"by-{kind}": 2 for kind in kinds}, **{f"streamed-by-{kind}": 2 for kind in kinds})
    columns = ("key", "value", "headers")
    wanted = sorted(_rows(_read(spark_kafka, "logbus", broker, filled), *columns), key=repr)
    for kind, other in kinds.items():
        sink = {"kafka.bootstrap.servers": broker.bootstrap, "includeHeaders": "true"}
        rows = _read(spark_kafka, other, broker, filled).select(*columns)
        rows.write.format(kind).options(**sink, topic=f"by-{kind}").mode("append").save()
        found = _read(spark_kafka, other, broker, f"by-{kind}")
        assert sorted(_rows(found, *columns), key=repr) == wanted
        stream = spark_kafka.readStream.format(other).options(
            **{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": filled, "includeHeaders": "true"},
            startingOffsets="earliest",
        )
        writer = stream.load().select(*columns).writeStream.format(kind).trigger(availableNow=True)
        writer = writer.options(**sink, topic=f"streamed-by-{kind}", checkpointLocation=str(tmp_path / kind))
        to_the_end(writer.start)
        found = _read(spark_kafka, other, broker, f"streamed-by-{kind}")
        assert sorted(_rows(found, *columns), key=repr) == wanted
