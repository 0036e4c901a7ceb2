"""Tests the source on a real Spark with a real broker: every record is read as it was written."""

from __future__ import annotations

import datetime
import json
import re
import shutil
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.errors import AnalysisException, StreamingQueryException

from logbus.pipeline.source.arrow import SCHEMA, SCHEMA_WITH_HEADERS
from logbus.pipeline.source.lag import lag_of
from logbus.pipeline.source.schema import source_schema
from logbus.testing import Broker
from tests.pipeline.query_fixtures import to_the_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BASE = 1_700_000_000_000
SECONDS = 120

Written = dict[tuple[int, int], tuple[Any, ...]]


def make(broker: Broker, *topics: str, partitions: int = 1, **config: str) -> str:
    """Topics that keep what is old; the first one's name is given back."""
    config = {"retention.ms": "-1", **config}
    names = topics or (f"t-{uuid.uuid4().hex[:8]}",)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    new = [NewTopic(name, partitions, 1, config=config) for name in names]
    for made in admin.create_topics(new).values():
        made.result(SECONDS)
    return names[0]


def fill(broker: Broker, topic: str, values: Sequence[bytes | None], partition: int = 0, **settings: Any) -> Written:
    """Write records with keys, times and headers of many kinds; returns what a reader must find."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "batch.num.messages": 7, **settings})
    written: Written = {}

    def told(key: bytes | None, value: bytes | None, headers: Any) -> Callable[[Any, Any], None]:
        def done(error: Any, message: Any) -> None:
            assert error is None, error
            written[message.partition(), message.offset()] = (key, value, message.timestamp()[1], headers)

        return done

    for number, value in enumerate(values):
        key = None if number % 3 == 0 else b"" if number % 3 == 1 else b"key \xff %d" % number
        headers = [("name", b"\x00%d" % number), ("ü", None), ("name", b"")][: number % 4] or None
        producer.produce(
            topic, value, key, partition, told(key, value, headers), timestamp=BASE + number, headers=headers
        )
    assert producer.flush(SECONDS) == 0
    return written


def read(spark: SparkSession, broker: Broker, **options: object) -> DataFrame:
    """A batch; a double underscore is a dot."""
    reader = spark.read.format("logbus").option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.options(**{name.replace("__", "."): str(value) for name, value in options.items()}).load()


def found(table: DataFrame) -> Written:
    """What was read, as :func:`fill` tells it."""
    rows: Written = {}
    for row in table.collect():
        place = row["partition"], row["offset"]
        assert place not in rows
        since = row["timestamp"] - datetime.datetime(1970, 1, 1)
        headers = None if row["headers"] is None else [(each["key"], value(each["value"])) for each in row["headers"]]
        rows[place] = (value(row["key"]), value(row["value"]), since // datetime.timedelta(milliseconds=1), headers)
    return rows


def value(column: Any) -> bytes | None:
    """Bytes, or none."""
    return None if column is None else bytes(column)


class Stream:
    """A query into a table, which is stopped and started again."""

    def __init__(self, spark: SparkSession, broker: Broker, directory: Path, **options: object) -> None:
        self.spark, self.broker, self.options = spark, broker, options
        self.table, self.checkpoint = str(directory / "table"), directory / "checkpoint"

    def start(self, *, available_now: bool = True, **more: object) -> StreamingQuery:
        """Begin, or go on."""
        options = {"startingOffsets": "earliest", **self.options, **more}
        reader = self.spark.readStream.format("logbus").option("kafka.bootstrap.servers", self.broker.bootstrap)
        rows = reader.options(**{name.replace("__", "."): str(value) for name, value in options.items()}).load()
        writer = rows.writeStream.format("parquet").option("checkpointLocation", str(self.checkpoint))
        writer = (
            writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="100 milliseconds")
        )
        return writer.start(self.table)

    def run(self, **more: object) -> list[Any]:
        """Read all there is; returns the reports of the batches."""
        query = to_the_end(lambda: self.start(**more))
        return [each for each in query.recentProgress if each.numInputRows]

    def fails(self, **more: object) -> str:
        """What it fails with."""
        with pytest.raises(Exception) as caught:
            to_the_end(lambda: self.start(**more))
        return str(caught.value)

    def places(self) -> list[tuple[str, int, int]]:
        """What the table holds, in order; nothing twice."""
        rows = self.spark.read.parquet(self.table).select("topic", "partition", "offset").collect()
        places = sorted(tuple(row) for row in rows)
        assert len(set(places)) == len(places)
        return places


def offsets(topic: str, *ends: int) -> list[tuple[str, int, int]]:
    """All offsets of partitions that end there."""
    return [(topic, number, offset) for number, end in enumerate(ends) for offset in range(end)]


def test_equal_schemas_of_arrow_and_spark() -> None:
    """To the letter: Spark refuses batches otherwise."""
    from pyspark.sql.pandas.types import to_arrow_schema

    assert to_arrow_schema(source_schema(False), timezone="UTC").equals(SCHEMA)
    assert to_arrow_schema(source_schema(True), timezone="UTC").equals(SCHEMA_WITH_HEADERS)


@pytest.mark.pair
def test_rows_equal_records(spark: SparkSession, broker: Broker) -> None:
    """Keys, values, headers, nulls and times, by every codec, wherever ranges are cut."""
    topic = make(broker, partitions=len(CODECS))
    values = [None if number % 11 == 0 else b"\xfe value %d " % number * (number % 50) for number in range(400)]
    written: Written = {}
    for number, codec in enumerate(CODECS):
        written |= fill(broker, topic, values, number, **{"compression.type": codec})
    table = read(spark, broker, subscribe=topic, includeHeaders="true")
    assert table.schema == source_schema(True)
    assert found(table) == written
    assert len(written) == len(CODECS) * len(values)
    cut = read(spark, broker, subscribe=topic, includeHeaders="true", minPartitions=13, kafka__fetch__max__bytes=500)
    assert found(cut) == written


def test_positions(spark: SparkSession, broker: Broker) -> None:
    """Offsets and times, at both ends; assigned partitions; the broker's own times."""
    topic = make(broker, partitions=2)
    for number in range(2):
        fill(broker, topic, [b"x"] * 20, number)

    def places(**options: object) -> list[tuple[int, int]]:
        rows = read(spark, broker, **{"subscribe": topic, **options}).select("partition", "offset").collect()
        return sorted(tuple(row) for row in rows)

    one = [(0, each) for each in range(20)]
    two = [(1, each) for each in range(20)]
    begin, end = f'{{"{topic}": {{"0": 5, "1": -2}}}}', f'{{"{topic}": {{"0": 7, "1": -1}}}}'
    assert places(startingOffsets=begin, endingOffsets=end) == one[5:7] + two
    times = f'{{"{topic}": {{"0": {BASE + 3}, "1": {BASE + 19}}}}}'
    assert places(startingOffsetsByTimestamp=times, endingTimestamp=BASE + 10**9) == one[3:] + two[19:]
    alone = read(spark, broker, assign=f'{{"{topic}": [1]}}', endingTimestamp=BASE + 4).select("partition", "offset")
    assert sorted(tuple(row) for row in alone.collect()) == two[:4]
    late = {"subscribe": topic, "startingTimestamp": BASE + 10**9}
    with pytest.raises(Exception, match="no record at or after"):
        read(spark, broker, **late).count()
    assert read(spark, broker, **late, startingOffsetsByTimestampStrategy="latest").count() == 0
    stamped = make(broker, **{"message.timestamp.type": "LogAppendTime"})
    fill(broker, stamped, [b"x"])
    row = read(spark, broker, subscribe=stamped).collect()[0]
    assert row["timestampType"] == 1
    assert row["timestamp"].year > 2023


@pytest.mark.pair
def test_pushdown(spark: SparkSession, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a query's partitions, offsets and times only what is wanted is read, and the rows are the same."""
    topic = make(broker, partitions=4)
    for number in range(4):
        fill(broker, topic, [b"x"] * 20, number)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_records([Place(topic, 3, 5)])[Place(topic, 3)].result(SECONDS)
    # Reading from there is an error, unless nothing is wanted of it.
    gone = json.dumps({topic: {"0": 0, "1": 0, "2": 0, "3": 1}})
    table = read(spark, broker, subscribe=topic, startingOffsets=gone)
    for condition, tasks in (
        (f"topic = '{topic}' and partition = 3 and offset >= 7 and offset < 9", 1),
        ("partition in (0, 2) and offset between 1 and 3", 2),
        ("partition <> 3 and offset in (1, 19)", 3),
        (f"partition < 3 and timestamp >= timestamp_millis({BASE + 18})", 3),
        (f"partition < 3 and timestamp > timestamp_millis({BASE + 19})", 1),
        ("offset > 1000", 1),
    ):
        wanted = table.where(condition)
        assert wanted.rdd.getNumPartitions() == tasks, condition
        everything = read(spark, broker, subscribe=topic).where(f"({condition}) or value = cast('y' as binary)")
        assert everything.orderBy("partition", "offset").collect() == wanted.orderBy("partition", "offset").collect()
    wanted.explain("formatted")
    assert re.search(r"PushedFilters: .*GreaterThan\(offset,1000\)", capsys.readouterr().out)
    some = spark.read.format("logbus").schema("offset long, value binary")
    some = some.options(**{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}).load()
    assert some.where("offset = 19").distinct().collect() == [(19, b"x")]


def test_transactions(spark: SparkSession, broker: Broker) -> None:
    """What was aborted is there for those who read anything only; what is open, for them alone too."""
    topic = make(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(SECONDS)
    for number in range(6):
        producer.begin_transaction()
        for each in range(5):
            producer.produce(topic, b"%d-%d" % (number, each))
        producer.flush(SECONDS)
        if number == 5:
            break
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(SECONDS)

    def seen(level: str) -> set[bytes]:
        rows = read(spark, broker, subscribe=topic, kafka__isolation__level=level).select("value").collect()
        return {bytes(row[0]) for row in rows}

    everything = {b"%d-%d" % (number, each) for number in range(6) for each in range(5)}
    assert seen("read_uncommitted") == everything
    assert seen("read_committed") == {each for each in everything if each[:1] in b"024"}
    producer.abort_transaction(SECONDS)


def test_wrong_options_stop_before_any_task(spark: SparkSession, broker: Broker) -> None:
    """Each is named, with what it takes."""
    for options, words in (
        ({"subscribe": "t", "minPartitons": "3"}, "did you mean minPartitions"),
        ({"subscribe": "not-there"}, "there is no topic 'not-there'"),
    ):
        with pytest.raises(Exception, match=words):
            read(spark, broker, **options).collect()
    with pytest.raises(Exception, match="the schema has value string; it takes columns of struct<key:binary,value:"):
        spark.read.format("logbus").schema("value string").options(
            **{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "t"}
        ).load().collect()
    with pytest.raises(Exception, match="a stream has no end"):
        spark.readStream.format("logbus").options(
            **{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "t", "endingOffsets": "latest"}
        ).load().writeStream.format("noop").start().processAllAvailable()


def test_errors_are_brief(spark: SparkSession, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has mistyped something sees the sentence, and neither the way through our code nor errors of Spark's own."""
    brokers = {"kafka.bootstrap.servers": broker.bootstrap}
    with pytest.raises(AnalysisException) as table:
        read(spark, broker, subscribe="t", failOnDataLoss="no")
    with pytest.raises(AnalysisException) as missing:
        read(spark, broker, subscribe="not-there").collect()
    with pytest.raises(AnalysisException) as named:
        spark.readStream.format("logbus").options(**brokers, subscribe="t", startingOffset="x").load()
    ending = spark.readStream.format("logbus").options(**brokers, subscribe="t", endingOffsets="latest").load()
    with pytest.raises(StreamingQueryException) as stream:
        ending.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()
    for caught, words in (
        (table, "errors.OptionError: option 'failOnDataLoss': 'no' cannot be used; it takes true or false"),
        (missing, "errors.ApiError: there is no topic 'not-there', which is to be read"),
        (named, "errors.OptionError: option 'startingoffset' is not known; did you mean startingOffsets"),
        (stream, "errors.OptionError: option 'endingOffsets' is for batches; a stream has no end"),
    ):
        told = str(caught.value).partition("=== Streaming Query ===")[0]
        assert words in told
        frames = [line for line in told.splitlines() if line.lstrip().startswith("File ") and "pyspark" not in line]
        assert len(frames) == 1, told
        assert "UnboundLocalError" not in told


def test_restarted_stream(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Limited batches, restarts, new partitions and topics that a pattern finds: each offset once."""
    topic = make(broker, f"{tmp_path.name}-a", partitions=2)
    fill(broker, topic, [b"x"] * 90)
    fill(broker, topic, [b"x"] * 30, 1)
    stream = Stream(spark, broker, tmp_path, subscribePattern=f"^{tmp_path.name}-", maxOffsetsPerTrigger=50)
    batches = stream.run()
    assert [each.numInputRows for each in batches] == [50, 50, 20]
    assert [str(lag_of(each.sources[0])).split()[0] for each in batches] == ["70", "20", "not"]
    assert stream.places() == offsets(topic, 90, 30)
    fill(broker, topic, [b"y"] * 3)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(SECONDS)
    fill(broker, topic, [b"y"] * 4, 2)
    other = make(broker, f"{tmp_path.name}-b")
    fill(broker, other, [b"y"] * 5)
    assert sum(each.numInputRows for each in stream.run()) == 12
    assert stream.places() == offsets(topic, 93, 30, 4) + offsets(other, 5)
    assert stream.run() == []


@pytest.mark.pair
def test_unfinished_first_batch(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """It begins again where it began, though the end that it was to begin at is elsewhere now."""
    topic = make(broker)
    fill(broker, topic, [b"before"] * 5)
    stream = Stream(spark, broker, tmp_path, subscribe=topic, startingOffsets="latest")
    stream.run()
    shutil.rmtree(stream.checkpoint / "commits")
    fill(broker, topic, [b"after"] * 3)
    stream.run()
    assert stream.places() == offsets(topic, 8)[5:]


def test_lost_data(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """What has expired, and a topic that was made anew, are errors, unless they are not to be."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = make(broker)
    fill(broker, topic, [b"x"] * 10)
    stream = Stream(spark, broker, tmp_path, subscribe=topic)
    stream.run()
    fill(broker, topic, [b"x"] * 10)
    admin.delete_records([Place(topic, 0, 15)])[Place(topic, 0)].result(SECONDS)
    assert "begins at 15 now, and was read up to 10" in stream.fails()
    begins = f'{{"{topic}": {{"0": 3}}}}'
    with pytest.raises(Exception, match="begins at 15, and 3 was to be read"):
        read(spark, broker, subscribe=topic, startingOffsets=begins).count()
    assert read(spark, broker, subscribe=topic, startingOffsets=begins, failOnDataLoss="false").count() == 5
    stream.run(failOnDataLoss="false")
    assert stream.places() == [(topic, 0, each) for each in [*range(10), *range(15, 20)]]
    admin.delete_topics([topic])[topic].result(SECONDS)
    make(broker, topic)
    fill(broker, topic, [b"another"] * 30)
    assert sum(each.numInputRows for each in stream.run(failOnDataLoss="false")) == 30


def test_topic_deleted_during_a_query(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The running query fails, and says which."""
    topic = make(broker, f"{tmp_path.name}-a")
    fill(broker, topic, [b"x"] * 10)
    query = Stream(spark, broker, tmp_path, subscribePattern=tmp_path.name).start(available_now=False)
    query.processAllAvailable()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(SECONDS)
    with pytest.raises(Exception, match=f"{topic}-0 is gone; it was read up to 10"):
        query.awaitTermination(SECONDS)


def test_broker_restarts_during_a_query(spark: SparkSession) -> None:
    """Tasks wait for it, and read on."""
    with Broker() as broker:
        topic = make(broker)
        count = 3000
        fill(broker, topic, [b"x" * 100] * count)
        table = read(spark, broker, subscribe=topic, kafka__fetch__max__bytes=1000)
        counted: list[int] = []
        thread = threading.Thread(target=lambda: counted.append(table.select("offset").distinct().count()))
        thread.start()
        for _ in range(2):
            broker.restart()
        thread.join(SECONDS)
        assert counted == [count]
