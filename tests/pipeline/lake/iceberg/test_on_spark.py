"""Tests tables of Iceberg that Spark's tasks write, read and rewrite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyiceberg")
from logbus.pipeline.lake.iceberg.table import IcebergTable
from logbus.pipeline.lake.parquet import gathered, parquet_settings
from tests.pipeline.lake.iceberg.fixtures import NAME, catalog_in, change

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _events(spark: SparkSession, start: int, end: int) -> DataFrame:
    return spark.range(start, end).selectExpr(
        "'views' as topic",
        "int(0) as partition",
        "id as offset",
        "timestamp'2024-05-01T00:00:00Z' + make_dt_interval(0, int(id % 3)) as at",
        "struct(string(id) as id, array(named_struct('n', id)) as many) as event",
        "concat('/', id % 3) as page",
    )


def test_table(spark: SparkSession, tmp_path: Path) -> None:
    """Rows are written by partition, read by Spark with all types, and small files are made large ones."""
    with catalog_in(tmp_path) as catalog, parquet_settings(spark):
        table = IcebergTable.at(spark, NAME, catalog)
        table.claim(_events(spark, 0, 0).schema.jsonValue(), ["page"])
        for start in (0, 300, 600):
            rows = _events(spark, start, start + 300)
            assert table.stage(gathered(rows, ["page"], ["offset"]), ["page"]) == 300
            odd = rows.where("offset % 300 = 0").selectExpr("topic", "partition", "offset", "'why' as reason")
            assert table.stage(odd, quarantine=True) == 1
            assert table.commit(change(start, start + 300, records=301, quarantined=1)).files == 4
        wanted = sorted(_events(spark, 0, 900).collect(), key=lambda row: row["offset"])
        assert sorted(table.read().collect(), key=lambda row: row["offset"]) == wanted
        assert sorted(row["offset"] for row in table.read_quarantine().collect()) == [0, 300, 600]
        done = table.optimize(min_files=2, target_bytes=1 << 20)
        assert (done.directories, done.files_before, done.files_after) == (4, 12, 4), "with the quarantine's"
        assert table.optimize(min_files=2, target_bytes=1 << 20).directories == 0
        again = IcebergTable.at(spark, NAME, catalog)
        assert sorted(again.read().collect(), key=lambda row: row["offset"]) == wanted
        assert again.state.held("views", 0).ranges == ((0, 900),)
        again.claim()
        assert again.stage(_events(spark, 900, 901), ["page"]) == 1
        again.commit(change(900, 901))
        assert again.read().count() == 901
        done_with = again.vacuum(before_ms=2**53)
        assert done_with.files > 12, "the small ones, and manifests"
        for each in (again, IcebergTable.at(spark, NAME, catalog)):
            assert each.read().count() == 901
            assert sorted(row["offset"] for row in each.read_quarantine().collect()) == [0, 300, 600]
