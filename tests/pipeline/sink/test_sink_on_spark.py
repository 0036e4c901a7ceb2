"""Tests the sink on a real Spark with a real broker; another client reads the records."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from logbus.client.producer.partitioner import partition_for_key
from logbus.testing import Broker
from tests.pipeline.committed_messages import client, committed_messages, create_topic
from tests.pipeline.query_fixtures import to_the_end

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "number int, key string, value binary, headers array<struct<key:string,value:binary>>, partition int, "
    "timestamp timestamp, topic string"
)


def writing(rows: DataFrame, broker: Broker, **given: Any) -> Any:
    """A writer that appends; dots are spelled as two underscores."""
    writer = rows.write.format("logbus").mode("append").option("kafka.bootstrap.servers", broker.bootstrap)
    return writer.options(**{name.replace("__", "."): value for name, value in given.items()})


def some_rows(count: int = 60) -> list[tuple[Any, ...]]:
    """Rows of all sorts, nulls in every column that takes them."""
    return [
        (
            number,
            None if number % 3 == 0 else f"k{number % 7}",
            None if number % 10 == 9 else b"%d" % number,
            [None, [], [("h", b"%d" % number)], [("h", None), ("h", b"2")]][number % 4],
            None if number % 5 else 1,
            None,
            None,
        )
        for number in range(count)
    ]


@pytest.mark.pair
def test_rows_equal_records(spark: SparkSession, broker: Broker) -> None:
    """With every codec: keys, values, headers, nulls, and partitions where they are asked for."""
    rows = some_rows()
    table = spark.createDataFrame(rows, SCHEMA).select("key", "value", "headers", "partition")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        topic = f"codec-{codec}"
        create_topic(broker.bootstrap, topic, 3)
        writing(table, broker, topic=topic, kafka__compression__type=codec).save()
        found = Counter()
        for each in committed_messages(broker.bootstrap, topic):
            headers = tuple((name, content) for name, content in each.headers() or ())
            found[each.key(), each.value(), headers] += 1
            if each.value() is not None and rows[int(each.value())][4] is not None:
                assert each.partition() == rows[int(each.value())][4]
            elif each.value() is not None and each.key() is not None:
                assert each.partition() == partition_for_key(each.key(), 3)
        wanted = Counter(
            (None if key is None else key.encode(), value, tuple(headers or ())) for _, key, value, headers, *_ in rows
        )
        assert found == wanted, codec


def test_topics_and_times_of_rows(spark: SparkSession, broker: Broker) -> None:
    """Columns say where rows go, and when they were; what no record has is passed over."""
    for topic in ("left", "right"):
        create_topic(broker.bootstrap, topic, 1, retention_ms="-1")
    rows = spark.range(0, 10, 1, 1).selectExpr(  # one task: of several, none waits for another
        "cast(id as string) as value",
        "if(id % 2 = 0, 'left', 'right') as topic",
        "timestamp_millis(1600000000000 + id) as timestamp",
        "id as offset",
    )
    writing(rows, broker).save()
    left = committed_messages(broker.bootstrap, "left")
    assert [each.value() for each in left] == [b"0", b"2", b"4", b"6", b"8"]
    assert [each.timestamp()[1] - 1600000000000 for each in left] == [0, 2, 4, 6, 8]
    writing(rows, broker, topic="left").save()
    assert len(committed_messages(broker.bootstrap, "left")) == 15


def test_errors_before_a_task_starts(spark: SparkSession, broker: Broker) -> None:
    """Columns, options, topics: each by name."""
    create_topic(broker.bootstrap, "wrong", 1)
    good = "cast(id as string) as value"
    cases: list[tuple[list[str], dict[str, str], str]] = [
        (["id as value"], {}, "column 'value' is bigint; it takes string or binary"),
        (["id as key", good], {}, "column 'key' is bigint; it takes string or binary"),
        (["id as other"], {}, "column 'value' is missing"),
        (["id as partition", good], {}, "column 'partition' is bigint; it takes int"),
        ([good], {"topics": "x"}, "option 'topics' is not known; did you mean topic"),
        ([good], {"kafka__acks": "0"}, "option 'kafka.acks'"),
        ([good], {"kafka__key__serializer": "x"}, "option 'kafka.key.serializer' cannot be used"),
    ]
    tracker = spark.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup(None))
    for columns, given, words in cases:
        with pytest.raises(Exception, match=words.replace("(", r"\(")):
            writing(spark.range(3).selectExpr(*columns), broker, **{"topic": "wrong", **given}).save()
    with pytest.raises(Exception, match="only added to it; use mode"):
        writing(spark.range(3).selectExpr(good), broker, topic="wrong").mode("overwrite").save()
    assert len(tracker.getJobIdsForGroup(None)) == before


def test_missing_topic(spark: SparkSession) -> None:
    """Brokers that create none: it is said at once."""
    with Broker({"auto.create.topics.enable": "false"}) as broker:
        rows = spark.range(3).selectExpr("cast(id as string) as value")
        with pytest.raises(Exception, match="there is no topic 'nowhere'"):
            writing(rows, broker, topic="nowhere", kafka__max__block__ms="200").save()


@pytest.mark.pair
def test_repeated_write(spark: SparkSession, broker: Broker) -> None:
    """Who numbers writes can repeat them; a failed one leaves nothing to be read."""
    create_topic(broker.bootstrap, "numbered", 2)
    rows = spark.range(20).selectExpr("cast(id as string) as value")
    once = {"topic": "numbered", "deliveryGuarantee": "exactly-once", "txnAppId": "daily"}

    def fail(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            if b"19" in batch.column(0).cast("binary").to_pylist():
                raise ValueError("broken")

    with pytest.raises(Exception, match="broken"):
        # By one task: another would go on for a while, and its transaction could fence that of the next write.
        writing(rows.coalesce(1).mapInArrow(fail, rows.schema), broker, **once, txnVersion=0).save()
    assert committed_messages(broker.bootstrap, "numbered") == []
    for _ in range(2):
        writing(rows, broker, **once, txnVersion=0).save()
    values = sorted(int(each.value()) for each in committed_messages(broker.bootstrap, "numbered"))
    assert values == list(range(20))


@pytest.mark.pair
def test_restarted_stream(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Also one whose last batch Spark did not note: it comes again, and is passed over."""
    create_topic(broker.bootstrap, "source", 2)
    create_topic(broker.bootstrap, "copy", 2)
    checkpoint = tmp_path / "checkpoint"
    keyed = spark.range(100).selectExpr("cast(id as string) as key", "concat('v', id) as value")

    def copy() -> None:
        rows = spark.readStream.format("logbus").option("kafka.bootstrap.servers", broker.bootstrap)
        rows = rows.option("subscribe", "source").option("startingOffsets", "earliest").load()
        writer = rows.select("key", "value").writeStream.format("logbus").option("topic", "copy")
        writer = writer.option("kafka.bootstrap.servers", broker.bootstrap)
        writer = writer.option("checkpointLocation", str(checkpoint))
        writer = writer.option("deliveryGuarantee", "exactly-once").trigger(availableNow=True)
        to_the_end(writer.start)

    for number in range(2):
        writing(keyed, broker, topic="source").save()
        copy()
        assert len(committed_messages(broker.bootstrap, "copy")) == 100 * (number + 1)
        for name in (f"{number}", f".{number}.crc"):
            (checkpoint / "commits" / name).unlink()
        copy()
        assert len(committed_messages(broker.bootstrap, "copy")) == 100 * (number + 1)
    with pytest.raises(Exception, match="column 'value' is bigint"):
        spark.readStream.format("rate").load().writeStream.format("logbus").option(
            "kafka.bootstrap.servers", broker.bootstrap
        ).option("topic", "copy").option("checkpointLocation", str(tmp_path / "other")).start().awaitTermination()


def test_topics_are_created(spark: SparkSession, broker: Broker) -> None:
    """Where brokers create topics that producers ask for."""
    rows = spark.range(3).selectExpr("cast(id as string) as value")
    writing(rows, broker, topic=f"new-{time.time_ns()}").save()
    brokers = client(broker.bootstrap)
    try:
        assert any(name.startswith("new-") for name in brokers.metadata())
    finally:
        brokers.close()
