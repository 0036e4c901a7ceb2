"""Parquet, in row groups of a bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from logbus.cli.input_records import InputRecord
from logbus.cli.record_files.record_file import BadRecord
from logbus.cli.record_files.rows import COLUMNS, check_columns, record_of, row_of
from logbus.cli.record_filter import AnyRecord
from logbus.model import TopicPartition

_SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
    ]
)

_GROUP_ROWS = 100_000
_GROUP_BYTES = 64 << 20
"""Of a row group, which is held in memory until it is written."""

_CHUNK = 1000
"""Records that are read at a time."""


class ParquetWriter:
    """Writes a row group at a time."""

    def __init__(self, file: IO[bytes]) -> None:
        self._writer = pq.ParquetWriter(file, _SCHEMA, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._size = 0

    def write(self, partition: TopicPartition, records: Sequence[AnyRecord]) -> None:
        for each in records:
            self._rows.append(row_of(partition.partition, each))
            self._size += 100 + len(each.key or b"") + len(each.value or b"")
            if len(self._rows) >= _GROUP_ROWS or self._size >= _GROUP_BYTES:
                self._write_group()

    def _write_group(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._rows, _SCHEMA))
        self._rows, self._size = [], 0

    def close(self) -> None:
        if self._rows:
            self._write_group()
        self._writer.close()


new_writer = ParquetWriter


def read(file: IO[bytes]) -> Iterator[list[InputRecord]]:
    """See :class:`~logbus.cli.record_files.record_file.FileFormat`."""
    try:
        parquet = pq.ParquetFile(file)
    except pa.ArrowException as e:
        raise ValueError(f"it is not a Parquet file: {e}") from None
    names = parquet.schema_arrow.names
    check_columns(names)
    batches = parquet.iter_batches(_CHUNK, columns=[each for each in COLUMNS if each in names and each != "offset"])
    number = 0
    while True:
        try:
            batch = next(batches, None)
        except pa.ArrowException as e:
            raise ValueError(f"it is damaged behind record {number}: {e}") from None
        if batch is None:
            break
        found: list[InputRecord] = []
        for row in _milliseconds(batch).to_pylist():
            number += 1
            try:
                found.append(record_of(row))
            except ValueError as problem:
                yield found
                raise BadRecord(number, problem) from None
        yield found


def _milliseconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose timestamps are numbers: not all of them are dates of Python."""
    at = batch.schema.get_field_index("timestamp")
    if at < 0 or not pa.types.is_timestamp(batch.schema.field(at).type):
        return batch
    unit = pa.timestamp("ms", batch.schema.field(at).type.tz)
    return batch.set_column(at, "timestamp", batch.column(at).cast(unit, safe=False).cast(pa.int64()))
