"""Tests loads on a real Spark with a real broker: each offset is loaded once, whatever interrupts the load."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions
from pyspark.sql import functions as f

from logbus.errors import ApiError
from logbus.pipeline.errors import ClaimLost, DataLossFound, LakeError, OptionError, Unreachable
from logbus.pipeline.jobs.audit_tables import TablePlace, count_table
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.load import LoadOptions, remaining, run
from logbus.pipeline.lake import parquet_table
from logbus.pipeline.lake.compaction import compact
from logbus.pipeline.lake.formats import table_at
from logbus.pipeline.lake.hadoop_file_system import HadoopFileSystem
from logbus.pipeline.lake.layout import directories_of
from logbus.pipeline.lake.table import Table
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.testing import Broker
from tests.pipeline.load_fixtures import BASE, HOUR, ask, commits, directory, fill, held, load, make, odd, options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "user STRING, at TIMESTAMP, e INT"
ODD_NAME = "the.page: 1"
"""Not a name in SQL, and not one of a directory."""


def _json(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def test_rows_equal_records(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Keys, values, times and headers of several topics, in directories by hour; a second run adds what has come."""
    table = tmp_path / "the lake, 100%25 #1"
    one, two = (make(broker, 2, **{"message.timestamp.after.max.ms": str(2**62)}) for _ in range(2))
    # A time before 1970 has no place on the wire but -1, and one that is far away has no usual date.
    far = 400_000_000_000_000

    def times(number: int) -> int:
        return far if number == 7 else BASE + number * HOUR // 4

    values = [None if number % 5 == 0 else b"\xff %d" % number for number in range(12)]
    written = {}
    for topic, partition in ((one, 0), (one, 1), (two, 0)):
        written |= fill(broker, topic, values, partition, times, [("h", b"\x00"), ("n", None)])
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        report = load(spark, broker, table, f"{one},{two}", includeHeaders=True, batch_offsets=20)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert (report.batches, report.records, report.offsets, report.quarantined) == (2, 36, 36, 0)
    found = spark.read.parquet(str(table))
    columns = ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers", "date", "hour"]
    assert sorted(found.columns) == sorted(columns)
    rows = found.withColumn("timestamp", f.unix_millis("timestamp")).collect()
    assert len(rows) == 36
    for row in rows:
        value = written.pop((row["topic"], row["partition"], row["offset"]))
        assert row["value"] == value
        assert row["timestamp"] == times(row["offset"])
        assert row["key"] == (b"key %d" % row["offset"] if row["offset"] % 3 else None)
        assert [tuple(each) for each in row["headers"]] == [("h", b"\x00"), ("n", None)]
        date, hour = directory(times(row["offset"])) if row["offset"] != 7 else ("9999-12-31", "23")
        assert (str(row["date"]), f"{row['hour']:02}") == (date, hour)
    assert not written
    more = fill(broker, two, [b"more"])
    report = load(spark, broker, table, f"{one},{two}", includeHeaders=True)
    assert (report.batches, report.records) == (1, 1)
    places = held(spark, table)
    assert len(places) == len(set(places)) == 37
    assert places[-1] in more or set(more) < set(places)
    assert load(spark, broker, table, f"{one},{two}").batches == 0


def test_ranges(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """A range of offsets or of time, and later what is left around it; topics by pattern, later ones, too."""
    prefix = make(broker, 2)
    late = f"{prefix}-late"
    for partition in range(2):
        fill(broker, prefix, [b"x"] * 10, partition)

    def places(topic: str, partition: int, *ranges: tuple[int, int]) -> list[tuple[str, int, int]]:
        return [(topic, partition, each) for start, end in ranges for each in range(start, end)]

    begin, end = f'{{"{prefix}": {{"0": 4, "1": 0}}}}', f'{{"{prefix}": {{"0": 6, "1": 0}}}}'
    load(spark, broker, tmp_path, prefix, startingOffsets=begin, endingOffsets=end)
    assert held(spark, tmp_path) == places(prefix, 0, (4, 6))
    load(spark, broker, tmp_path, prefix, startingTimestamp=BASE + 8, endingTimestamp=BASE + 9)
    assert held(spark, tmp_path) == places(prefix, 0, (4, 6), (8, 9)) + places(prefix, 1, (8, 9))
    make(broker, 1, late)
    fill(broker, late, [b"x"])
    pattern = f"^{prefix}"
    asked = options(broker, tmp_path, "", subscribePattern=pattern, batch_offsets=5)
    left = remaining(spark, asked)
    assert left.offsets == {f"{prefix}-0": 7, f"{prefix}-1": 9, f"{late}-0": 1}
    before = len(commits(tmp_path))
    report = load(spark, broker, tmp_path, "", subscribePattern=pattern, batch_offsets=5)
    assert report.offsets == 17
    assert report.batches == len(commits(tmp_path)) - before - 1
    assert held(spark, tmp_path) == sorted(
        places(prefix, 0, (0, 10)) + places(prefix, 1, (0, 10)) + places(late, 0, (0, 1))
    )
    assert remaining(spark, asked).offsets == {}


def test_json(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Events become columns, by their own time; what cannot be read goes to quarantine, each with its reason."""
    topic = make(broker)
    at = "2024-05-01T23:30:00Z"
    good = [_json(user="ü", at=at, e=1), _json(user="u", at=at, extra={"x": [1]}), _json(at=at, e=None)]
    bad = {
        None: "there is no value",
        b"": "the value is empty",
        b"\xff\xfe": "the value is not UTF-8",
        b"nonsense": "the value is not JSON of the schema",
        b"null": "the value is not JSON of the schema",
        b"[1]": "the value is not JSON of the schema",
        _json(user="u", at="yesterday"): "the value is not JSON of the schema",
        _json(user="u", at=at, e="x"): "the value is not JSON of the schema",
        _json(user="u", at=at) + b"x": "something follows the JSON object",
        _json(user="u", at=at) * 2: "something follows the JSON object",
        _json(user="u", at=at) + b"," + _json(user="u", at=at): "something follows the JSON object",
        _json(user="u", at=at) + b"]": "something follows the JSON object",
        _json(user="u", at=at) + b",0]": "something follows the JSON object",
        _json(user="u", at=at) + b"] " + _json(user="u", at=at): "something follows the JSON object",
        b"{'at': '2024'}": "the value is not JSON of the schema",
        _json(user="u"): "there is no time in 'at'",
    }
    fill(broker, topic, [*good, *bad])
    payload = JsonPayload(schema=SCHEMA, event_time="at")
    report = load(spark, broker, tmp_path, topic, payload=payload)
    assert (report.records, report.quarantined, report.late) == (len(good) + len(bad), len(bad), 0)
    rows = sorted(spark.read.parquet(str(tmp_path)).collect(), key=lambda row: int(row["offset"]))
    assert [(row["user"], row["e"], str(row["date"]), row["hour"]) for row in rows] == [
        ("ü", 1, "2024-05-01", 23),
        ("u", None, "2024-05-01", 23),
        (None, None, "2024-05-01", 23),
    ]
    assert odd(spark, tmp_path) == dict(enumerate(bad.values(), len(good)))
    kept = spark.read.parquet(str(tmp_path / "_quarantine")).where("offset = 6").collect()[0]
    assert (kept["value"], str(kept["date"])) == (b"nonsense", "2023-11-14")


def test_fields_with_names_of_metadata(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """They are columns, beside a struct with the record's own; an audit finds those, and a table stays as it is."""
    topic = make(broker)
    fill(broker, topic, [b'{"key": "k", "hour": 5, "offset": 7, "topic": "t", "timestamp": "2024-05-01T00:00:00Z"}'])
    schema = "key STRING, hour INT, offset INT, topic STRING, timestamp TIMESTAMP"
    payload = JsonPayload(schema=schema, event_time="timestamp")
    load(spark, broker, tmp_path, topic, payload=payload, partition_by="none")
    fill(broker, topic, [b'{"hour": 6}'])
    hours = JsonPayload(schema="hour INT")
    load(spark, broker, tmp_path, topic, payload=hours, partition_by="")
    rows = spark.read.option("mergeSchema", "true").parquet(str(tmp_path)).orderBy("kafka.offset").collect()
    assert [(row["kafka"]["topic"], row["kafka"]["offset"], row["hour"]) for row in rows] == [
        (topic, 0, 5),
        (topic, 1, 6),
    ]
    first = rows[0].asDict()
    assert [first[name] for name in ("key", "offset", "topic")] == ["k", 7, "t"]
    table = TablePlace("all", str(tmp_path)).open(spark)
    assert count_table(spark, table, {}, HOUR).windows == {(topic, BASE // HOUR * HOUR): 2}
    with pytest.raises(LakeError, match="it has the records' metadata as kafka, and not as columns; leave out --meta"):
        load(spark, broker, tmp_path, topic, payload=evolve(hours, metadata="columns"), partition_by="")
    load(spark, broker, tmp_path / "columns", topic, payload=hours, partition_by="none")
    with pytest.raises(OptionError, match="the event's field 'key' has the name of one of the record's own columns"):
        load(spark, broker, tmp_path / "columns", topic, payload=payload, partition_by="")


def test_unusual_names(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Fields of any name become columns; a directory that Spark would take for a pattern is refused."""
    topic = make(broker)
    fill(broker, topic, [b'{"a b": 1, "c`d": 2, "e.f": 3, "x,y;(z)": 4}'])
    payload = JsonPayload(schema="`a b` INT, `c``d` INT, `e.f` INT, `x,y;(z)` INT")
    load(spark, broker, tmp_path / "a table", topic, payload=payload)
    row = spark.read.parquet(str(tmp_path / "a table")).collect()[0]
    assert [row[name] for name in ("a b", "c`d", "e.f", "x,y;(z)")] == [1, 2, 3, 4]
    with pytest.raises(LakeError, match=r"cannot be the name of a table: Spark takes \[ and \] for patterns"):
        load(spark, broker, tmp_path / "t[1]", topic)
    assert not (tmp_path / "t[1]").exists()


def test_late_events_and_new_columns(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Late events are stored by their own time; a schema may get columns, and no column may change its type."""
    topic = make(broker)
    fill(broker, topic, [_json(user="u", at="2023-11-14T22:00:00Z"), _json(user="u", at="2023-11-14T20:00:00Z")])
    report = load(spark, broker, tmp_path, topic, payload=JsonPayload(schema=SCHEMA, event_time="at"))
    assert report.late == 1
    assert (tmp_path / "date=2023-11-14" / "hour=20").is_dir()
    fill(broker, topic, [_json(user="v", page="p")])
    load(spark, broker, tmp_path, topic, payload=JsonPayload(schema="page STRING, user STRING"))
    table = table_at(spark, str(tmp_path))
    rows = table.read().select("user", "page", "e").orderBy("offset").collect()
    assert [tuple(row) for row in rows] == [("u", None, None), ("u", None, None), ("v", "p", None)]
    with pytest.raises(LakeError, match="column 'user' is string in the table and integer in the new rows"):
        load(spark, broker, tmp_path, topic, payload=JsonPayload(schema="user INT"))
    assert table_at(spark, str(tmp_path)).number == table.number, "it was claimed before its schema was looked at"


def test_changed_payload_option(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Bytes do not become new columns of a table of events, nor events of one of bytes."""
    topic = make(broker)
    fill(broker, topic, [_json(user="u")])
    read, raw = tmp_path / "read", tmp_path / "raw"
    payload = JsonPayload(schema="user STRING")
    load(spark, broker, read, topic, payload=payload)
    load(spark, broker, raw, topic)
    fill(broker, topic, [_json(user="v")])
    for table, wrong, words in (
        (read, {}, "in columns of their own .* would have them in one column of bytes"),
        (raw, {"payload": payload}, "in one column of bytes .* would have them in columns of their own"),
    ):
        with pytest.raises(LakeError, match=words):
            load(spark, broker, table, topic, **wrong)
        assert held(spark, table) == [(topic, 0, 0)]
    assert load(spark, broker, raw, topic).records == load(spark, broker, read, topic, payload=payload).records == 1


def test_quarantine_counts(
    spark: SparkSession, broker: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Records in quarantine of several days are counted without a word in Spark's log."""
    topic = make(broker)
    fill(broker, topic, [b"odd"] * 3, times=lambda number: BASE + 24 * number * HOUR)
    context = spark.sparkContext
    context.setLogLevel("WARN")
    try:
        capfd.readouterr()
        assert load(spark, broker, tmp_path, topic, payload=JsonPayload(schema="user STRING")).quarantined == 3
        assert "FileStreamSink" not in capfd.readouterr().err
    finally:
        context.setLogLevel("ERROR")


def test_quarantine_reason_changes_during_a_write(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is read twice where records are odd; when the second time finds fewer, nothing is forgotten."""
    topic = make(broker)
    fill(broker, topic, [b"{}", b"odd", b"odd"])
    counted = parquet_table.staged_rows
    wrong = ["_quarantine"]

    def fewer(spark: SparkSession, table: Table, base: str = "") -> int:
        return counted(spark, table, base) - (base in wrong and not wrong.remove(base))  # type: ignore[func-returns-value]

    monkeypatch.setattr(parquet_table, "staged_rows", fewer)
    payload = JsonPayload(schema="user STRING")
    assert load(spark, broker, tmp_path / "a", topic, payload=payload).records == 3
    assert len(held(spark, tmp_path / "a")) == 1
    assert sorted(odd(spark, tmp_path / "a")) == [1, 2]
    wrong[:] = ["_quarantine"] * 3
    with pytest.raises(LakeError, match="which records can be read changed"):
        load(spark, broker, tmp_path / "b", topic, payload=payload)
    wrong[:] = [""]
    with pytest.raises(LakeError, match="1 rows were written, and the new files have 0; nothing was committed"):
        load(spark, broker, tmp_path / "b", topic, payload=payload)
    assert [each["kind"] for each in commits(tmp_path / "b")] == ["claim", "claim"]


def test_expired_offsets_and_recreated_topics(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Offsets that expired end a load, or are noted once; a topic that was made anew is not mixed with the old one."""
    topic = make(broker, 2)
    for partition in range(2):
        fill(broker, topic, [b"x"] * 10, partition)
    load(spark, broker, tmp_path, topic, endingTimestamp=BASE + 4)
    ask(broker.bootstrap, "delete_records", [TopicPartition(topic, 0, 7), TopicPartition(topic, 1, 2)])
    words = f"{topic}-0: offsets 4 to 6 are not kept any more, and were not loaded; with failOnDataLoss=false"
    with pytest.raises(DataLossFound, match=words):
        load(spark, broker, tmp_path, topic)
    begin = f'{{"{topic}": {{"0": 8, "1": 8}}}}'
    assert load(spark, broker, tmp_path, topic, startingOffsets=begin).records == 4, "nothing of this is lost"
    told: list[str] = []
    report = load(spark, broker, tmp_path, topic, JobControl(told.append), failOnDataLoss=False)
    assert report.lost == {f"{topic}-0": [[4, 7]]}
    assert told[0] == f"{topic}-0: offsets 4 to 6 are not kept any more, and were not loaded"
    assert load(spark, broker, tmp_path, topic).batches == 0, "it is known to be lost"
    expected = [(topic, 0, each) for each in (0, 1, 2, 3, 7, 8, 9)] + [(topic, 1, each) for each in range(10)]
    assert held(spark, tmp_path) == expected
    ask(broker.bootstrap, "delete_topics", [topic])
    make(broker, 2, topic)
    fill(broker, topic, [b"y"])
    with pytest.raises(LakeError, match=f"topic '{topic}' has id .* the one in the table .* deleted and created again"):
        load(spark, broker, tmp_path, topic)
    assert held(spark, tmp_path) == expected


def test_compaction(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Fewer files with the same rows, of the quarantine, too, whatever columns are called; and the load goes on."""
    topic = make(broker, 2)
    values = [_json(user="u", e=number) if number % 4 else b"odd" for number in range(24)]
    for partition in range(2):
        fill(broker, topic, values, partition, lambda number: BASE + number % 2 * HOUR)
    payload = JsonPayload(schema=SCHEMA)
    load(spark, broker, tmp_path, topic, payload=payload, batch_offsets=16)

    def rows() -> list[Any]:
        found = spark.read.parquet(str(tmp_path)).select("partition", "offset", "e", "hour").collect()
        return sorted(map(tuple, found))

    small = rows()
    assert {row[:2] for row in small} == {(p, o) for p in range(2) for o in range(24) if o % 4}
    table = Table.at(spark, str(tmp_path))
    table.claim()
    before = len(table.state.files)
    done = compact(spark, table, min_files=2, target_bytes=1 << 20)
    # Two hours, and one of records that cannot be read.
    assert (done.directories, done.files_before, done.files_after) == (3, before, 3)
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet"))
    assert files == sorted(table.state.files)
    assert rows() == small
    reasons = table_at(spark, str(tmp_path)).read_quarantine().select("partition", "offset").collect()
    assert sorted(map(tuple, reasons)) == [(p, o) for p in range(2) for o in range(0, 24, 4)]
    assert table_at(spark, str(tmp_path)).read().count() == len(small)
    assert compact(spark, table, min_files=2).directories == 0
    with pytest.raises(OptionError, match="at least 2 files and 1 byte, not 1 and 5"):
        compact(spark, table, min_files=1, target_bytes=5)


def test_compaction_of_a_directory_named_like_the_quarantine(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """It is a column's, whose name begins likewise."""
    topic = make(broker)
    fill(broker, topic, [_json(_quarantined="no", e=number) for number in range(8)])
    payload = JsonPayload(schema="_quarantined STRING, e INT")
    load(spark, broker, tmp_path, topic, payload=payload, batch_offsets=4, partition_by="_quarantined")
    table = Table.at(spark, str(tmp_path))
    table.claim()
    assert compact(spark, table, min_files=2).files_after == 1
    found = table_at(spark, str(tmp_path)).read().select("_quarantined", "e").collect()
    assert sorted(map(tuple, found)) == [("no", number) for number in range(8)]


def is_batch(line: str) -> bool:
    """Whether a line tells of a batch that was committed, and not of what is to be done."""
    return line.startswith("commit ")


def test_two_loaders(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The one that begins last goes on; the other ends when it is about to commit."""
    topic = make(broker)
    fill(broker, topic, [b"x"] * 9)
    watch = JobControl(lambda line: Table.at(spark, str(tmp_path)).claim() if is_batch(line) else None)
    with pytest.raises(ClaimLost, match="has made commit 3 after commit 2"):
        load(spark, broker, tmp_path, topic, watch, batch_offsets=3)
    load(spark, broker, tmp_path, topic)
    assert held(spark, tmp_path) == [(topic, 0, each) for each in range(9)]


def test_follow_and_stop(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """A load that follows takes what comes, in new partitions too, and ends in order when it is told to."""
    topic = make(broker)
    fill(broker, topic, [b"x"] * 3)
    seen: list[str] = []

    def tell(line: str) -> None:
        if not is_batch(line):
            return
        seen.append(line)
        if len(seen) == 1:
            ask(broker.bootstrap, "create_partitions", [NewPartitions(topic, 2)])
            fill(broker, topic, [b"y"] * 2, 1)
        else:
            watch.stop()

    watch = JobControl(tell)
    begin = f'{{"{topic}": {{"0": 1}}}}'
    report = load(spark, broker, tmp_path, topic, watch, follow=0.01, startingOffsets=begin, compact=5)
    assert report.stopped
    assert report.batches == 2
    assert held(spark, tmp_path) == [(topic, 0, 1), (topic, 0, 2), (topic, 1, 0), (topic, 1, 1)]


@pytest.mark.parametrize(
    ("partition_by", "names", "count"),
    [("none", (), 1), ("date", ("date",), 2), (ODD_NAME, (ODD_NAME,), 4), ("column:hour", ("hour",), 3)],
)
def test_layouts(
    spark: SparkSession, broker: Broker, tmp_path: Path, partition_by: str, names: tuple[str, ...], count: int
) -> None:
    """
    A batch makes one file for each directory, however many partitions are read, and a field of the events may have any
    name, and that of what is no directory. The next load makes the same directories by itself, and others are refused.
    """
    topic = make(broker, 2)
    pages = ["/", "a=b/c", None, "ü %"]
    values = [
        _json(**{ODD_NAME: pages[each % 4]}, hour=each % 3, at=f"2024-05-0{1 + each % 2}T12:00:00Z")
        for each in range(24)
    ]
    for partition in range(2):
        fill(broker, topic, [*values, b"odd"], partition)
    payload = JsonPayload(schema=f"`{ODD_NAME}` STRING, hour INT, at TIMESTAMP", event_time="at")
    report = load(spark, broker, tmp_path, topic, payload=payload, partition_by=partition_by)
    assert (report.records, report.quarantined, report.files) == (50, 2, count + 1)
    files = Table.at(spark, str(tmp_path)).state.files
    assert directories_of(files) == names
    fill(broker, topic, values)
    report = load(spark, broker, tmp_path, topic, payload=payload, partition_by="")
    assert (report.records, report.files) == (24, count)
    rows = spark.read.parquet(str(tmp_path)).select(f"`{ODD_NAME}`", "hour", "at").collect()
    expected = [(pages[each % 4], each % 3, 1 + each % 2) for each in range(24)] * 3
    assert sorted([(row[0] or "", int(row[1]), row[2].day) for row in rows]) == sorted(
        (page or "", hour, day) for page, hour, day in expected
    )
    table = Table.at(spark, str(tmp_path))
    table.claim()
    assert compact(spark, table, min_files=2).files_after == count
    assert table_at(spark, str(tmp_path)).read().count() == 72
    other = "date" if partition_by != "date" else "none"
    with pytest.raises(LakeError, match=f"and partition_by {other} would make .*; load into a table of its own"):
        load(spark, broker, tmp_path, topic, payload=payload, partition_by=other)


def test_impossible_directories(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """A column that is not there or whose values are no names, and directories with the name of a field."""
    topic = make(broker)
    fill(broker, topic, [b"{}"])
    payload = JsonPayload(schema="hour INT, place STRUCT<x: INT>")
    for partition_by, words in (
        ("pge", "partition_by is 'pge', and the rows have no such column; there are topic, "),
        ("key", "partition_by is 'key', a column of type binary, whose values are no names"),
        ("place", "partition_by is 'place', a column of type struct"),
        ("column:", "partition_by is 'column:'; it takes none, date, hour, or a column"),
        ("hour", "the event's field 'hour' has the name of a directory (date, hour)"),
    ):
        with pytest.raises(OptionError, match=re.escape(words)):
            load(spark, broker, tmp_path / "table", topic, payload=payload, partition_by=partition_by)
    assert not (tmp_path / "table").exists()


def test_a_file_that_is_no_parquet(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """A file that another program puts among those of a batch is found before the commit."""
    topic = make(broker)
    fill(broker, topic, [b"x"])
    write = parquet_table.write_parquet

    def spoiled(rows: Any, url: str, directories: Any) -> None:
        write(rows, url, directories)
        Path(url.removeprefix("file://"), "part-0.parquet").write_bytes(b"PAR1 and no more")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_table, "write_parquet", spoiled)
        with pytest.raises(LakeError, match=r"part-0\.parquet was written, and cannot be read"):
            load(spark, broker, tmp_path, topic)
    assert load(spark, broker, tmp_path, topic).records == 1


def test_hadoop(spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables where Hadoop's own file system takes care of the files: nothing is overwritten, and all is the same."""
    files = HadoopFileSystem(spark, f"file://{tmp_path}")
    files.create("a/b", b"one")
    with pytest.raises(FileExistsError):
        files.create("a/b", b"two")
    assert files.read("a/b") == b"one"
    assert files.names("a") == ["b"], "no draft is left"
    files.create("c", b"three")
    with pytest.raises(FileExistsError):
        files.move("c", "a/b")
    assert sorted(files.walk("")) == [("a/b", 3), ("c", 5)]
    files.move("c", "d/e/f")
    files.move("c", "d/e/f")
    with pytest.raises(FileNotFoundError):
        files.move("c", "g")
    with pytest.raises(FileNotFoundError):
        files.read("nowhere")
    assert files.names("nowhere") == list(files.walk("nowhere")) == []
    files.delete("d")
    files.delete("d")
    assert files.names("") == ["a"]
    monkeypatch.setattr("logbus.pipeline.lake.table.file_system_at", HadoopFileSystem)
    topic = make(broker)
    fill(broker, topic, [b"odd", *[b"{}"] * 11])
    place = f"file://{tmp_path}/table"
    source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}
    asked = LoadOptions(source=source, table=place, payload=JsonPayload(schema=SCHEMA), batch_offsets=3, compact=2)
    report = run(spark, asked)
    assert (report.batches, report.records, report.quarantined) == (4, 12, 1)
    assert report.compacted
    assert held(spark, tmp_path / "table") == [(topic, 0, each) for each in range(1, 12)]
    assert list(odd(spark, tmp_path / "table")) == [0]


def test_errors_before_a_table_is_created(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Errors are reported before a table is created."""
    topic = make(broker, 2)
    table = tmp_path / "table"
    refused: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (ApiError, "there is no topic 'nowhere'", lambda: load(spark, broker, table, "nowhere")),
        (
            OptionError,
            f"{topic}-1 must be named, too",
            lambda: load(spark, broker, table, topic, startingOffsets=f'{{"{topic}": {{"0": 1}}}}'),
        ),
        (OptionError, "batch_offsets is 0; it takes", lambda: load(spark, broker, table, topic, batch_offsets=0)),
        (OptionError, "compact is -1; it takes", lambda: load(spark, broker, table, topic, compact=-1)),
        (OptionError, "follow is 0; it takes", lambda: load(spark, broker, table, topic, follow=0)),
        (
            OptionError,
            "late_after is nan; it takes",
            lambda: load(spark, broker, table, topic, late_after=float("nan")),
        ),
        (OptionError, "'startingOffset' is not known", lambda: load(spark, broker, table, topic, startingOffset="1")),
    ]
    for schema, more, words in (
        ("", {}, "JSON needs a schema"),
        ("user STRNG", {}, "'user STRNG' is no schema such as 'user STRING, at TIMESTAMP'"),
        ("STRING", {}, "'STRING' is no schema"),
        ("Topic STRING", {"metadata": "columns"}, "the event's field 'Topic' has the name of one of the record's own"),
        ("a INT", {"into": "date"}, "the event's column 'date' has the name of a directory (date, hour)"),
        ("a INT, A INT", {}, "field 'a': names must differ in more than case"),
        ("a INT", {"event_time": "b"}, "the schema has no field 'b' for the event's time"),
        ("a INT", {"event_time": "a"}, "the event's time 'a' is of type integer; it must be a timestamp"),
    ):
        refused.append(
            (
                OptionError,
                words,
                lambda schema=schema, more=more: load(  # type: ignore[misc]
                    spark, broker, table, topic, payload=JsonPayload(schema=schema, **more)
                ),
            )
        )
    for kind, words, what in refused:
        with pytest.raises(kind, match=re.escape(words)):
            what()
    source = {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": topic, "kafka.default.api.timeout.ms": "300"}
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
        run(spark, LoadOptions(source=source, table=str(table)))
    assert not table.exists()
