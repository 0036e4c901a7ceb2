"""Tests loads by a real Spark to an S3 server of which one request in five fails, and what others read there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("moto")
import duckdb
from pyiceberg.catalog import load_catalog

from logbus.pipeline.lake.delta_writes import storage_options
from logbus.pipeline.lake.formats import table_at
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.testing import Broker
from tests.pipeline.delta_rows import delta_rows
from tests.pipeline.lake.iceberg.fixtures import NAME, catalog_in
from tests.pipeline.load_fixtures import fill, load, make
from tests.pipeline.s3_server import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long
VALUES = [b'{"e": %d, "page": "%d"}' % (number, number % 2) if number % 5 else b"odd" for number in range(40)]
GOOD = [number for number in range(40) if number % 5]
ODD = [number for number in range(40) if not number % 5]
INTO: dict[str, Any] = {
    "payload": JsonPayload(schema="e INT, page STRING"),
    "batch_offsets": 20,
    "partition_by": "page",
}


def test_delta(spark: SparkSession, broker: Broker) -> None:
    """Each record is there once, whoever reads it; batches, directories, a compaction and a second load."""
    topic = make(broker)
    fill(broker, topic, VALUES)
    url = "s3://lake/views"
    with S3Server("lake", failing=0.2) as server:
        where: Any = {**INTO, "format": "delta", "store_options": server.options}
        report = load(spark, broker, url, topic, **where)  # type: ignore[arg-type]
        assert (report.batches, report.records, report.quarantined) == (2, 40, 8)
        assert load(spark, broker, url, topic, **where).batches == 0  # type: ignore[arg-type]
        again = table_at(spark, url, "", server.options)
        assert again.optimize(min_files=2, target_bytes=1 << 20).files_after == 3, "with the quarantine's"
        options = storage_options(url, server.options)
        views = delta_rows(url, "page", "offset", options=options)
        assert sorted(views["offset"].to_pylist()) == GOOD
        odd = delta_rows(f"{url}/_quarantine", "offset", options=options)
        assert sorted(odd["offset"].to_pylist()) == ODD
        with duckdb.connect() as reader:
            reader.register("views", views)
            counted = reader.sql(
                'SELECT page, count(*), count(DISTINCT "offset") FROM views GROUP BY ALL ORDER BY page'
            )
            assert counted.fetchall() == [("0", 16, 16), ("1", 16, 16)]
        assert sorted(row["offset"] for row in again.read().collect()) == GOOD
        assert server.failed > 10


def test_iceberg(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The same, with the catalog on a disk."""
    topic = make(broker)
    fill(broker, topic, VALUES)
    with S3Server("lake", failing=0.2) as server:
        properties = {
            "s3__endpoint": server.url,
            "s3__access_key_id": "test",
            "s3__secret_access_key": "test",
            "s3__region": "us-east-1",
        }
        with catalog_in(tmp_path / "catalog", warehouse="s3://lake/warehouse", **properties) as catalog:
            where: Any = {**INTO, "format": "iceberg", "catalog": catalog}
            report = load(spark, broker, Path(NAME), topic, **where)
            assert (report.batches, report.records, report.quarantined) == (2, 40, 8)
            assert load(spark, broker, Path(NAME), topic, **where).batches == 0
            again = table_at(spark, NAME, "iceberg", catalog=catalog)
            assert again.optimize(min_files=2, target_bytes=1 << 20).files_after == 3, "with the quarantine's"
            assert sorted(row["offset"] for row in again.read().collect()) == GOOD
            assert sorted(row["offset"] for row in again.read_quarantine().collect()) == ODD
            assert server.failed > 10
            # PyIceberg by itself repeats too few requests for such a server.
            server.failing = 0.0
            plain = load_catalog(catalog)
            scan = plain.load_table(NAME).scan()
            assert sorted(scan.to_arrow()["offset"].to_pylist()) == GOOD
            counted = scan.to_duckdb("rows").sql('SELECT count(*), count(DISTINCT "offset") FROM rows').fetchall()
            assert counted == [(32, 32)]
            odd = plain.load_table(f"{NAME}_quarantine").scan().to_arrow()
            assert sorted(odd["offset"].to_pylist()) == ODD
