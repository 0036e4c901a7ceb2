"""Avro object container files, whose blocks are compressed by deflate, which every implementation has (Avro 1.12)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any

import fastavro
from fastavro.write import Writer

from logbus.cli.input_records import InputRecord
from logbus.cli.record_files.record_file import BadRecord
from logbus.cli.record_files.rows import check_columns, record_of, row_of
from logbus.cli.record_filter import AnyRecord
from logbus.model import TopicPartition

_BYTES = ["null", "bytes"]
_HEADER = {
    "type": "record",
    "name": "Header",
    "fields": [{"name": "name", "type": "string"}, {"name": "value", "type": _BYTES}],
}
_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Record",
        "namespace": "logbus",
        "fields": [
            {"name": "partition", "type": "int"},
            {"name": "offset", "type": "long"},
            {"name": "timestamp", "type": "long", "doc": "Milliseconds since 1970; -1: none."},
            {"name": "key", "type": _BYTES},
            {"name": "value", "type": _BYTES},
            {"name": "headers", "type": {"type": "array", "items": _HEADER}},
        ],
    }
)

_CHUNK = 1000
"""Records that are read at a time."""


class AvroWriter:
    """Writes blocks of 16 KB."""

    def __init__(self, file: IO[bytes]) -> None:
        self._writer = Writer(file, _SCHEMA, codec="deflate")

    def write(self, partition: TopicPartition, records: Sequence[AnyRecord]) -> None:
        for each in records:
            self._writer.write(row_of(partition.partition, each))

    def close(self) -> None:
        self._writer.flush()


new_writer = AvroWriter


def read(file: IO[bytes]) -> Iterator[list[InputRecord]]:
    """See :class:`~logbus.cli.record_files.record_file.FileFormat`."""
    try:
        rows = fastavro.reader(file)
    except Exception as e:  # fastavro raises what its parts do
        raise ValueError(f"it is not an Avro file: {e}") from None
    schema: Any = rows.writer_schema
    fields = schema.get("fields", ()) if isinstance(schema, dict) else ()
    check_columns([each["name"] for each in fields])
    found: list[InputRecord] = []
    number = 0
    while True:
        try:
            row: Any = next(rows, None)
            if row is None:
                break
            number += 1
            record = record_of(row)
        except ValueError as problem:
            yield found
            raise BadRecord(number, problem) from None
        except Exception as e:
            yield found
            raise ValueError(f"it is cut or damaged behind record {number}: {e or type(e).__name__}") from None
        found.append(record)
        if len(found) >= _CHUNK:
            yield found
            found = []
    yield found
