"""Tests loads into Delta Lake tables on a real Spark, and that other programs read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deltalake")
import polars
from confluent_kafka import TopicPartition
from deltalake import DeltaTable

from logbus.pipeline.errors import ClaimLost, DataLossFound, LakeError
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.lake.formats import table_at
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.testing import Broker
from tests.pipeline.delta_rows import delta_rows
from tests.pipeline.jobs.table_readers import delta_readers, found_by
from tests.pipeline.load_fixtures import BASE, HOUR, ask, fill, load, make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "user STRING, at TIMESTAMP, e INT"


def _json(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def test_read_while_it_is_written(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """
    After each commit, and after a compaction, all readers find the same rows, each record once; records that cannot be
    read are in a table beside it, with the reasons; filters on times and numbers find what is there.
    """
    table = tmp_path / "lake"
    topic = make(broker, 2, **{"message.timestamp.after.max.ms": str(2**62)})
    far = 400_000_000_000_000
    at = "2024-05-01T23:30:00.123456Z"
    values = [_json(user="ü", at=at, e=number) if number % 4 else b"odd" for number in range(12)]
    for partition in range(2):
        fill(broker, topic, values, partition, lambda number: far if number == 7 else BASE + number * HOUR)
    seen: list[int] = []

    def tell(line: str) -> None:
        if line.startswith("commit "):
            them = found_by(delta_readers(spark, table))
            rows = them["delta-rs"]
            assert len(set(rows)) == len(rows)
            assert all(each == rows for each in them.values()), them
            seen.append(len(rows))

    payload = JsonPayload(schema=SCHEMA, event_time="at")
    report = load(
        spark, broker, table, topic, JobControl(tell), payload=payload, batch_offsets=12, format="delta", compact=2
    )
    assert (report.batches, report.records, report.quarantined) == (2, 24, 6)
    assert seen[-1] == 18
    assert sorted(delta_readers(spark, table)["duckdb"]()) == [(p, o) for p in range(2) for o in range(12) if o % 4]
    odd = delta_rows(table / "_quarantine")
    assert sorted(zip(odd["offset"].to_pylist(), odd["partition"].to_pylist(), strict=True)) == [
        (o, p) for o in (0, 4, 8) for p in range(2)
    ]
    assert set(odd["reason"].to_pylist()) == {"the value is not JSON of the schema"}
    opened = table_at(spark, str(table))
    assert sorted(opened.read_quarantine().toPandas()["offset"]) == [0, 0, 4, 4, 8, 8]
    for where, count in (
        ("e = 7", 2),
        ("e > 10", 2),
        ("at = TIMESTAMP '2024-05-01T23:30:00.123456Z'", 18),
        ("timestamp < TIMESTAMP '2023-11-15T00:13:20Z'", 2),
    ):
        assert opened.read().where(where).count() == count, where
        assert polars.scan_delta(str(table)).filter(polars.sql_expr("e > 10")).collect().height == 2
    fill(broker, topic, [_json(user="v", page={"x": ["y"]})])
    wider = JsonPayload(schema="page STRUCT<x: ARRAY<STRING>>, user STRING")
    assert load(spark, broker, table, topic, payload=wider).records == 1, "the format is recognized"
    pages = polars.read_delta(str(table))["page"].to_list()
    assert sorted(pages, key=str)[-1] == {"x": ["y"]}
    assert len(pages) == 19
    with pytest.raises(LakeError, match="column 'user' is string in the table and integer in the new rows"):
        load(spark, broker, table, topic, payload=JsonPayload(schema="user INT"))
    with pytest.raises(LakeError, match="is a table of the format delta, and not parquet; load into a table of its"):
        load(spark, broker, table, topic, payload=wider, format="parquet")


def test_loaders_and_topics(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The loader that begins last goes on; lost offsets are noted once; a topic that was made anew is refused."""
    topic = make(broker)
    fill(broker, topic, [b"x"] * 9)

    def overtake(line: str) -> None:
        if line.startswith("commit "):
            table_at(spark, str(tmp_path)).claim()

    with pytest.raises(ClaimLost, match="claim 2 was made after claim 1"):
        load(spark, broker, tmp_path, topic, JobControl(overtake), batch_offsets=3, format="delta", partition_by="")
    ask(broker.bootstrap, "delete_records", [TopicPartition(topic, 0, 5)])
    with pytest.raises(DataLossFound, match=f"{topic}-0: offsets 3 to 4 are not kept any more"):
        load(spark, broker, tmp_path, topic, partition_by="")
    report = load(spark, broker, tmp_path, topic, partition_by="", failOnDataLoss=False)
    assert report.lost == {f"{topic}-0": [[3, 5]]}
    assert load(spark, broker, tmp_path, topic, partition_by="").batches == 0
    assert sorted(delta_readers(spark, tmp_path)["polars"]()) == [(0, each) for each in (0, 1, 2, 5, 6, 7, 8)]
    with pytest.raises(LakeError, match="its files are in no directories, and partition_by date would make date="):
        load(spark, broker, tmp_path, topic, partition_by="date")
    ask(broker.bootstrap, "delete_topics", [topic])
    make(broker, 1, topic)
    with pytest.raises(LakeError, match=f"topic '{topic}' has id .* the one in the table .* deleted and created again"):
        load(spark, broker, tmp_path, topic, partition_by="")


def test_changed_in_the_middle(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """
    A field that changes its type in the middle of a topic is in quarantine from there on, with the reason; what other
    programs do between two batches stays, is told of, and disturbs no load: a deletion, an overwrite, a compaction.
    """
    topic = make(broker)
    fill(broker, topic, [_json(e=each if each < 8 else {"n": each}) for each in range(12)])
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        table = DeltaTable(str(tmp_path))
        if line.startswith("commit 2:"):
            table.delete('"offset" = 1')
        elif line.startswith("commit 4:"):
            table.optimize.compact()

    into = {"payload": JsonPayload(schema="e INT"), "format": "delta", "partition_by": ""}
    report = load(spark, broker, tmp_path, topic, JobControl(tell), batch_offsets=4, **into)
    assert (report.batches, report.records, report.quarantined) == (3, 12, 4)
    assert any("DELETE" in each for each in told), told
    kept = [(0, each) for each in range(8) if each != 1]
    assert sorted(delta_readers(spark, tmp_path)["duckdb"]()) == kept
    odd = delta_rows(tmp_path / "_quarantine")
    assert sorted(odd["offset"].to_pylist()) == [8, 9, 10, 11]
    assert set(odd["reason"].to_pylist()) == {"the value is not JSON of the schema"}
    DeltaTable(str(tmp_path)).restore(2)
    assert load(spark, broker, tmp_path, topic, JobControl(told.append), **into).batches == 0
    assert any("RESTORE" in each for each in told), told


def test_commands(command: Callable[..., tuple[int, str, str]], broker: Broker, tmp_path: Path) -> None:
    """A table of a query's results, compacted while nobody is disturbed; options that do not fit are refused."""
    topic = make(broker)
    fill(broker, topic, [b"x"] * 6, times=lambda number: BASE + number * HOUR)
    table = tmp_path / "hourly"
    windows = ("windows", topic, "--size", "1 hour", "--checkpoint", tmp_path / "checkpoint", "--to-table", table)
    status, out, err = command(*windows, "--format", "delta", "--source", "maxOffsetsPerTrigger=2")
    assert status == 0, err
    counted = polars.read_delta(str(table)).sort("window_start")
    assert counted["count"].to_list() == [1] * counted.height
    assert counted.height >= 4
    status, out, err = command("compact", "--table", table, "--min-files", "2")
    assert status == 0, err
    assert json.loads(out)["files_after"] == 1
    assert polars.read_delta(str(table)).sort("window_start").equals(counted)
    for more, words in (
        (("--format", "parquet", "--table", "s3://lake/t"), "tables of the format parquet can be in a local directory"),
        (("--store-option", "AWS_REGION=x", "--table", "t"), "store options are for tables of the format delta"),
        (("--format", "delta", "--store-option", "REGION=x", "--table", "s3://lake/t"), "REGION is no option of s3"),
        (("--format", "delta", "--table", "ftp://lake/t"), "data files cannot be written to ftp: directly"),
    ):
        status, out, err = command("load", topic, *more)
        assert status, out
        assert words in err
