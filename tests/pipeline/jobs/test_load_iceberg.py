"""Tests loads into tables of Iceberg on a real Spark, and that other programs read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyiceberg")
from confluent_kafka import TopicPartition

from logbus.pipeline.errors import DataLossFound, LakeError
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.lake.iceberg.table import IcebergTable
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.testing import Broker
from tests.pipeline.jobs.table_readers import found_by, iceberg_readers
from tests.pipeline.lake.iceberg.fixtures import NAME, catalog_in
from tests.pipeline.load_fixtures import BASE, HOUR, ask, fill, load, make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "user STRING, at TIMESTAMP, e INT"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[str]:
    """A catalog."""
    with catalog_in(tmp_path) as name:
        yield name


def _json(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def test_read_while_it_is_written(spark: SparkSession, broker: Broker, catalog: str) -> None:
    """
    After each commit, and after a compaction, all readers find the same rows, each record once; those that cannot be
    read are in a table beside it, with the reasons; hours are partitions of the event's time, and no columns.
    """
    topic = make(broker, 2, **{"message.timestamp.after.max.ms": str(2**62)})
    at = "2024-05-01T%02d:30:00.123456Z"
    values = [_json(user="ü", at=at % (number % 3), e=number) if number % 4 else b"odd" for number in range(12)]
    far = 400_000_000_000_000
    for partition in range(2):
        fill(broker, topic, values, partition, lambda number: far if number == 7 else BASE + number * HOUR)
    seen: list[int] = []

    def tell(line: str) -> None:
        if line.startswith("commit "):
            them = found_by(iceberg_readers(spark, catalog))
            rows = them["pyiceberg"]
            assert len(set(rows)) == len(rows)
            assert all(each == rows for each in them.values()), them
            seen.append(len(rows))

    payload = JsonPayload(schema=SCHEMA, event_time="at")
    into = {"payload": payload, "format": "iceberg", "catalog": catalog}
    report = load(spark, broker, Path(NAME), topic, JobControl(tell), batch_offsets=12, compact=2, **into)
    assert (report.batches, report.records, report.quarantined) == (2, 24, 6)
    assert seen[-1] == 18
    assert sorted(iceberg_readers(spark, catalog)["polars"]()) == [(p, o) for p in range(2) for o in range(12) if o % 4]
    table = IcebergTable.at(spark, NAME, catalog)
    assert table.directories == ("date", "hour")
    plain = table.catalog.load_table(NAME)
    assert [str(each.transform) for each in plain.spec().fields] == ["hour"]
    assert "hour" not in plain.scan().to_arrow().column_names
    late = plain.scan("at >= '2024-05-01T02:00:00+00:00'")
    assert sorted(set(late.to_arrow()["e"].to_pylist())) == [2, 5, 11]
    assert {task.file.partition[0] for task in late.plan_files()} == {19844 * 24 + 2}
    odd = table.read_quarantine().select("partition", "offset", "reason").collect()
    assert {(row["partition"], row["offset"]) for row in odd} == {(p, o) for p in range(2) for o in (0, 4, 8)}
    with pytest.raises(LakeError, match=r"lake\.views: column 'e' is integer in the table and string in the new rows"):
        load(spark, broker, Path(NAME), topic, **{**into, "payload": JsonPayload(schema="at TIMESTAMP, e STRING")})
    assert load(spark, broker, Path(NAME), topic, **{**into, "partition_by": ""}).batches == 0


def test_bad_days(spark: SparkSession, broker: Broker, catalog: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A field that changes its type in the middle of a topic is in quarantine from there on; lost offsets are noted once;
    old versions are spoken of, and kept; a topic that was made anew is refused.
    """
    topic = make(broker)
    fill(broker, topic, [_json(e=each if each < 4 else {"n": each}) for each in range(8)])
    into = {"payload": JsonPayload(schema="e INT"), "format": "iceberg", "catalog": catalog, "partition_by": ""}
    report = load(spark, broker, Path(NAME), topic, batch_offsets=4, **into)
    assert (report.records, report.quarantined) == (8, 4)
    assert sorted(iceberg_readers(spark, catalog)["duckdb"]()) == [(0, each) for each in range(4)]
    changed = {**into, "payload": JsonPayload(schema="e STRUCT<n: INT>")}
    with pytest.raises(
        LakeError, match=r"lake\.views: column 'e' is integer in the table and .*struct.* in the new rows"
    ):
        load(spark, broker, Path(NAME), topic, **changed)
    fill(broker, topic, [_json(e=8), _json(e=9)])
    ask(broker.bootstrap, "delete_records", [TopicPartition(topic, 0, 9)])
    with pytest.raises(DataLossFound, match=f"{topic}-0: offsets 8 to 8 are not kept any more"):
        load(spark, broker, Path(NAME), topic, **into)
    told: list[str] = []
    monkeypatch.setattr("logbus.pipeline.lake.vacuum.OLD_DAYS", -1)
    assert load(spark, broker, Path(NAME), topic, JobControl(told.append), failOnDataLoss=False, **into).lost == {
        f"{topic}-0": [[8, 9]]
    }
    assert [each for each in told if "only for versions that were replaced more than 7 days ago; --vacuum 7" in each]
    assert sorted(iceberg_readers(spark, catalog)["polars"]()) == [(0, each) for each in (0, 1, 2, 3, 9)]
    ask(broker.bootstrap, "delete_topics", [topic])
    make(broker, 1, topic)
    with pytest.raises(LakeError, match=f"topic '{topic}' has id .* the one in the table .* deleted and created again"):
        load(spark, broker, Path(NAME), topic, **into)
