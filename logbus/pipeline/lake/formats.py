"""Opens the table at a URL, whatever its format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.parquet_table import ParquetTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from logbus.pipeline.lake.target import LoadTarget


def table_at(spark: SparkSession, url: str) -> LoadTarget:
    """
    The table at a URL or a path; a directory that does not exist is an empty table.

    :raise LakeError: it is a directory of other files, is damaged, or has wildcards in its name.
    """
    return ParquetTable.at(spark, url)


def existing_table(spark: SparkSession, url: str) -> LoadTarget:
    """
    The table at a URL or a path, which must exist.

    :raise LakeError: there is none, or it is damaged.
    """
    table = table_at(spark, url)
    if not table.number:
        raise LakeError(f"there is no table at {table.url}")
    return table
