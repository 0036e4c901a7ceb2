"""Writes a table's Parquet files with Spark, and counts their rows before they are committed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from logbus.pipeline.lake.table import QUARANTINE, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARQUET_SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    # The timestamp type that other readers support.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # hour=05 stays text.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Files of failed or speculative tasks do not appear.
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


@contextmanager
def parquet_settings(spark: SparkSession) -> Iterator[None]:
    """Give a session the settings that tables are written with, and restore its own at the end."""
    before = {name: spark.conf.get(name, None) for name in PARQUET_SETTINGS}
    try:
        for name, value in PARQUET_SETTINGS.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, had in before.items():
            if had is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, had)


def write_parquet(rows: DataFrame, url: str, partitioned_by: Sequence[str]) -> None:
    """Append rows as Parquet files, in directories by the values of some columns."""
    writer = rows.write.mode("append")
    if partitioned_by:
        writer = writer.partitionBy(*partitioned_by)
    writer.parquet(url)


def staged_rows(spark: SparkSession, table: Table, base: str = "") -> int:
    """
    The number of rows in the staged files, by their Parquet footers.

    It differs from the number of rows written if workers have disks of their own, or a failed task left a file.

    :param base: ``_quarantine``, or "" for the rows that could be read.
    """
    url = f"{table.staging_url}/{base}" if base else table.staging_url
    paths = [each.path for each in table.staged() if each.path.startswith(f"{QUARANTINE}/") == (base == QUARANTINE)]
    if not paths:
        return 0
    if not base:
        return spark.read.parquet(url).count()
    # Spark rejects a path whose last name begins with '_', and logs a warning about one with '*'.
    inner = sorted({path.split("/")[1] for path in paths})
    return spark.read.option("basePath", url).parquet(*(f"{url}/{name}" for name in inner)).count()
