"""Writes a table's Parquet files with Spark, and counts their rows before they are committed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.file_system import LocalFileSystem
from logbus.pipeline.lake.hadoop_file_system import java_errors
from logbus.pipeline.lake.layout import QUARANTINE
from logbus.pipeline.lake.table import Table
from logbus.pipeline.payloads.payload import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TARGET_BYTES = 128 << 20
"""About the most bytes of rows, as Spark shuffles them, that become one file."""

PARQUET_SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    # The timestamp type that other readers support.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # hour=05 stays text.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Rows are brought together by directory in parts of the target size, and not in one for each core.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(TARGET_BYTES),
    # A batch without a good record is not replaced by nothing, of which Spark observes no counts.
    "spark.sql.adaptive.optimizer.excludedRules": ("org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"),
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


def gathered(rows: DataFrame, directories: Sequence[str], order: Sequence[str]) -> DataFrame:
    """
    Bring rows together by directory, so that a batch makes a file for each directory and not one for each task.

    A directory with more than about :data:`TARGET_BYTES` of rows is divided among several tasks.

    :param order: columns that the rows of a file are sorted by.
    """
    names = [*map(quoted_name, directories)]
    return rows.hint("rebalance", *names).sortWithinPartitions(*names, *order)


def write_parquet(rows: DataFrame, url: str, partitioned_by: Sequence[str]) -> None:
    """Append rows as Parquet files, in directories by the values of some columns."""
    writer = rows.write.mode("append")
    if partitioned_by:
        writer = writer.partitionBy(*partitioned_by)
    writer.parquet(url)


def staged_rows(spark: SparkSession, table: Table, base: str = "") -> int:
    """
    The number of rows in the staged files, by their Parquet footers, which the driver reads.

    It differs from the number of rows written if workers have disks of their own, or a failed task left a file.

    :param base: ``_quarantine``, or "" for the rows that could be read.
    :raise LakeError: a file is not Parquet, or cannot be read.
    """
    paths = [each.path for each in table.staged() if each.path.startswith(f"{QUARANTINE}/") == (base == QUARANTINE)]
    if isinstance(table.files, LocalFileSystem):
        return sum(_local_rows(table.files.root / table.staging / path) for path in paths)
    return sum(_hadoop_rows(spark, f"{table.staging_url}/{path}") for path in paths)


def _local_rows(path: Path) -> int:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return int(parquet.read_metadata(path).num_rows)
    except (OSError, pa.ArrowException) as e:
        raise LakeError(f"{path} was written, and cannot be read: {e}") from e


def _hadoop_rows(spark: SparkSession, url: str) -> int:
    jvm: Any = spark.sparkContext._jvm
    hadoop = jvm.org.apache.parquet.hadoop
    with java_errors(url):
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        file = hadoop.util.HadoopInputFile.fromPath(jvm.org.apache.hadoop.fs.Path(url), configuration)
        reader = hadoop.ParquetFileReader.open(file)
        try:
            return int(reader.getRecordCount())
        finally:
            reader.close()
