"""Reads and rewrites an Iceberg table's data files by Spark's tasks, with PyIceberg: on any store that it knows."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from logbus.pipeline.arrow_types import arrow_schema
from logbus.pipeline.lake.iceberg.files import io_properties
from logbus.pipeline.lake.part_files import PartFile
from logbus.pipeline.lake.part_writer import PartWriter, write_parts

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table
    from pyspark.sql import DataFrame, SparkSession

_TASKS = 8
"""Most tasks of Spark that read a table, for each of its cores."""


@frozen
class FileReader:
    """
    Reads data files, in tasks: columns by their ids, without rows that were deleted.

    :ivar metadata: of the table, as JSON;  ``properties``: of its store.
    :ivar kinds: the ``pyarrow.Schema`` of the rows.
    """

    metadata: str
    properties: Mapping[str, str]
    kinds: Any

    def read(self, tasks: Iterable[FileScanTask]) -> Iterator[Any]:
        """Batches of the rows of files."""
        import pyarrow as pa
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan
        from pyiceberg.table.metadata import TableMetadataUtil

        from logbus.pipeline.lake.iceberg.file_io import LakeFileIO

        metadata = TableMetadataUtil.parse_raw(self.metadata)
        scan = ArrowScan(metadata, LakeFileIO(dict(self.properties)), metadata.schema(), AlwaysTrue())
        for task in tasks:  # One by one, since PyIceberg reads all that it is given at the same time.
            for batch in scan.to_record_batches([task]):
                columns = [batch.column(each.name).cast(each.type) for each in self.kinds]
                yield pa.RecordBatch.from_arrays(columns, schema=self.kinds)

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Of a task, for ``mapInArrow``: the rows of the files that its rows name."""
        for batch in batches:
            for packed in batch.column("tasks").to_pylist():
                yield from self.read(pickle.loads(packed))


@frozen
class Rewriter:
    """Reads groups of data files and writes each to a file, in tasks."""

    reader: FileReader
    writer: PartWriter

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for below, packed in zip(batch.column("below").to_pylist(), batch.column("tasks").to_pylist(), strict=True):
                yield from evolve(self.writer, below=below)(self.reader.read(pickle.loads(packed)))


def reader_of(table: Table, kinds: Any) -> FileReader:
    """Of a table as it is now."""
    return FileReader(table.metadata.model_dump_json(), io_properties(table), kinds)


def read(spark: SparkSession, table: Table, snapshot: int | None) -> DataFrame:
    """
    The rows of a snapshot.

    :param snapshot: None: the current one.
    """
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(schema_to_pyarrow(table.schema(), include_field_ids=False))
    tasks = list(table.scan(snapshot_id=snapshot).plan_files())
    cores = spark.sparkContext.defaultParallelism
    groups = [tasks[number :: cores * _TASKS] for number in range(min(len(tasks), cores * _TASKS))]
    rows = _packed_rows(spark, [("", group) for group in groups])
    return rows.mapInArrow(reader_of(table, arrow_schema(schema)), schema)


def rewrite(
    spark: SparkSession, table: Table, writer: PartWriter, groups: Sequence[tuple[str, Sequence[DataFile]]]
) -> list[PartFile]:
    """
    Write the rows of each group of files to a file, or several.

    :param groups: where its files go, and which are read: they have no deleted rows.
    """
    from pyiceberg.table import FileScanTask

    rows = _packed_rows(spark, [(below, [FileScanTask(each) for each in files]) for below, files in groups])
    reader = reader_of(table, writer.schema)
    return write_parts(rows, writer, Rewriter(reader, writer))


def _packed_rows(spark: SparkSession, groups: Sequence[tuple[str, Sequence[FileScanTask]]]) -> DataFrame:
    rows = [(number, below, bytearray(pickle.dumps(list(tasks)))) for number, (below, tasks) in enumerate(groups)]
    context = spark.sparkContext
    schema = "number int, below string, tasks binary"
    return spark.createDataFrame(context.parallelize(rows, max(1, len(rows))), schema)
