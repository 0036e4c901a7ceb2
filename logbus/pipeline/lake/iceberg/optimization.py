"""Rewrites the small files of an Iceberg table as large ones, by Spark's tasks."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.iceberg import scans, schemas
from logbus.pipeline.lake.iceberg.files import data_file, store_of
from logbus.pipeline.lake.iceberg.snapshots import Overtaken, make_snapshot
from logbus.pipeline.lake.part_files import delete_parts
from logbus.pipeline.lake.part_writer import PartWriter
from logbus.pipeline.lake.target import CompactionReport

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession


def optimize(
    spark: SparkSession, url: str, table: Table, summary: Mapping[str, str], min_files: int, target_bytes: int
) -> CompactionReport:
    """
    Rewrite small files; those with deleted rows, and of an earlier partitioning, are left alone.

    :param url: of the report.
    :param summary: properties of the snapshot, which tell that no row has changed.
    :raise Overtaken: the table has changed meanwhile; nothing has happened.
    :raise LakeError: not as many rows were written as read; nothing has happened.
    """
    groups = _small_files(table, min_files, target_bytes)
    if not groups:
        return CompactionReport(url, 0, 0, 0, 0, 0)
    store = store_of(table)
    names = [each.name for each in table.schema().fields]
    schema = schemas.file_schema(table.schema(), names)
    writer = PartWriter(store=store, schema=schema, target_bytes=2 * target_bytes)
    places = [f"rewritten/{uuid.uuid4().hex}" for _ in groups]
    parts = scans.rewrite(spark, table, writer, list(zip(places, groups, strict=True)))
    old = [each for group in groups for each in group]
    before, after = (sum(each) for each in ((f.record_count for f in old), (p.records for p in parts)))
    if before != after:
        delete_parts(store, parts)
        raise LakeError(f"{url}: {before} rows were read and {after} written; nothing was changed")
    partitions = {place: group[0].partition for place, group in zip(places, groups, strict=True)}
    new = [data_file(table.metadata, store.url, each, partitions[each.path.rpartition("/")[0]]) for each in parts]
    try:
        make_snapshot(table, summary, new, old)
    except Overtaken:
        delete_parts(store, parts)
        raise
    size = sum(each.file_size_in_bytes for each in old)
    partitioned = {repr(group[0].partition) for group in groups}
    return CompactionReport(url, len(partitioned), len(old), len(new), size, sum(each.size for each in parts))


def _small_files(table: Table, min_files: int, target_bytes: int) -> list[list[DataFile]]:
    """Groups of small files of one partition, each to become a file."""
    small = [
        task.file
        for task in table.scan().plan_files()
        if not task.delete_files
        and task.file.file_size_in_bytes < target_bytes // 2
        and task.file.spec_id == table.metadata.default_spec_id
    ]
    small.sort(key=lambda each: repr(each.partition))
    groups: list[list[DataFile]] = []
    for _, found in groupby(small, key=lambda each: repr(each.partition)):
        files = list(found)
        if len(files) >= min_files:
            groups += packed(files, target_bytes)
    return groups


def packed(files: Sequence[DataFile], target_bytes: int) -> list[list[DataFile]]:
    """Divide files into groups of about a size; those of a single file are left out."""
    groups: list[list[DataFile]] = [[]]
    size = 0
    for each in files:
        if groups[-1] and size + each.file_size_in_bytes > target_bytes:
            groups.append([])
            size = 0
        groups[-1].append(each)
        size += each.file_size_in_bytes
    return [each for each in groups if len(each) > 1]
