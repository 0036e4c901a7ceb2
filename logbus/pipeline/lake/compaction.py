"""
Compacts a table: rewrites many small Parquet files as few large ones.

Each batch of a load makes a file for each directory. Directories with several small files are rewritten, and one commit
replaces the old files by the new ones. Readers of the commits see no difference; readers of the directory may miss rows
for a moment while it happens, but see none twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from logbus.pipeline.errors import LakeError, OptionError
from logbus.pipeline.lake.commit_log import CommitKind, DataFile
from logbus.pipeline.lake.layout import QUARANTINE, directories_of
from logbus.pipeline.lake.parquet import TARGET_BYTES, parquet_settings, staged_rows, write_parquet
from logbus.pipeline.lake.table import Table
from logbus.pipeline.lake.target import CompactionReport
from logbus.pipeline.payloads.payload import quoted_name
from logbus.pipeline.payloads.record_metadata import metadata_of, metadata_struct

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_FILES = 4
_SORTED_BY = ("topic", "partition", "offset")


def files_to_compact(
    files: Iterable[DataFile], min_files: int = MIN_FILES, target_bytes: int = TARGET_BYTES
) -> dict[str, list[DataFile]]:
    """The files to compact, by directory: those below half the target, where there are at least ``min_files``."""
    small: dict[str, list[DataFile]] = {}
    for each in files:
        if each.size < target_bytes // 2:
            small.setdefault(each.path.rpartition("/")[0], []).append(each)
    return {directory: found for directory, found in sorted(small.items()) if len(found) >= min_files}


def compact(
    spark: SparkSession, table: Table, *, min_files: int = MIN_FILES, target_bytes: int = TARGET_BYTES
) -> CompactionReport:
    """
    Compact a table that this job has claimed.

    :raise OptionError: a limit is not positive.
    :raise ClaimLost: another job has claimed it; nothing has happened.
    :raise LakeError: not as many rows were written as read; nothing has happened.
    """
    if min_files < 2 or target_bytes < 1:
        raise OptionError(f"compaction takes at least 2 files and 1 byte, not {min_files} and {target_bytes}")
    table.files.delete(table.staging)  # of an attempt that failed
    old = files_to_compact(table.state.files.values(), min_files, target_bytes)
    if not old:
        return CompactionReport(table.files.url, 0, 0, 0, 0, 0)
    # A column's directories may be named like it.
    odd = {directory: files for directory, files in old.items() if directory.partition("/")[0] == QUARANTINE}
    with parquet_settings(spark):
        for base, found in ((QUARANTINE, odd), ("", {each: old[each] for each in old.keys() - odd.keys()})):
            if found:
                _rewrite(spark, table, base, found, target_bytes)
    before = [each for files in old.values() for each in files]
    after = table.staged()
    table.commit(CommitKind.COMPACT, after, removed=tuple(each.path for each in before))
    return CompactionReport(
        table.files.url,
        len(old),
        len(before),
        len(after),
        sum(each.size for each in before),
        sum(each.size for each in after),
    )


def _rewrite(
    spark: SparkSession, table: Table, base: str, found: Mapping[str, list[DataFile]], target_bytes: int
) -> None:
    from pyspark.sql import functions as f

    root, staging = table.files.url, table.staging_url
    if base:
        root, staging = f"{root}/{base}", f"{staging}/{base}"
    paths = [f"{table.files.url}/{each.path}" for files in found.values() for each in files]
    rows = spark.read.option("basePath", root).option("mergeSchema", "true").parquet(*paths)
    by = directories_of(each.path.removeprefix(f"{base}/") for files in found.values() for each in files) or ()
    columns = [*map(quoted_name, by)]
    struct = metadata_struct((), metadata_of(json.loads(rows.schema.json())))
    order = [f"{struct}.{name}" if struct else name for name in _SORTED_BY if struct or name in rows.columns]
    most = max(sum(each.size for each in files) for files in found.values())
    parts = -(-most // target_bytes)  # of the largest directory
    spread = [*map(f.col, columns)]
    if parts > 1 and order:
        spread.append(f.pmod(f.hash(*order), f.lit(parts)))
    gathered = rows.repartition(*spread) if spread else rows.repartition(1)
    if by or order:
        gathered = gathered.sortWithinPartitions(*columns, *order)
    write_parquet(gathered, staging, by)
    before, after = rows.count(), staged_rows(spark, table, base)
    if before != after:
        raise LakeError(f"{root}: {before} rows were read and {after} written; nothing was changed")
