"""Makes Arrow record batches of decoded columns, in exactly the types of Spark's schema."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from logbus.model import TopicPartition
from logbus.records.batch_columns import ColumnData, HeaderData

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_FIELDS = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
]
SCHEMA = pa.schema(_FIELDS)
SCHEMA_WITH_HEADERS = pa.schema([*_FIELDS, pa.field("headers", pa.list_(pa.field("element", _HEADER)))])

_MOST_KEPT_ROWS = 1 << 14
"""Of a column of one value that is kept: more than most batches have."""


def record_batch(
    partition: TopicPartition, data: ColumnData, stamped: bool, columns: tuple[str, ...] | None = None
) -> Any:
    """
    A ``pyarrow.RecordBatch`` of a partition's rows; their bytes are not copied.

    :param stamped: whether timestamps are LogAppendTime: ``timestampType`` is 1 then, else 0.
    :param columns: that it has, in this order; None: all.
    """
    whole = SCHEMA if data.headers is None else SCHEMA_WITH_HEADERS
    schema = whole if columns is None else pa.schema([whole.field(name) for name in columns])
    arrays = [_COLUMNS[name](partition, data, stamped) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _binary(rows: int, validity: Any, offsets: Any, data: Any, kind: Any = None) -> Any:
    bits = None if validity is None else pa.py_buffer(validity)
    return pa.Array.from_buffers(kind or pa.binary(), rows, [bits, pa.py_buffer(offsets), pa.py_buffer(data)])


def _repeated(value: str | int, kind: Any, rows: int) -> Any:
    """A column of one value. Batches of usual sizes have parts of columns that are kept, as making one takes longer."""
    if rows > _MOST_KEPT_ROWS:
        return pa.repeat(pa.scalar(value, kind), rows)
    return _kept(value, kind, 1 << rows.bit_length()).slice(0, rows)


@lru_cache(maxsize=8)
def _kept(value: str | int, kind: Any, rows: int) -> Any:
    return pa.repeat(pa.scalar(value, kind), rows)


def _headers(rows: int, data: HeaderData | None) -> Any:
    assert data is not None, "they were read"
    names = _binary(data.count, None, data.name_offsets, data.name_data, pa.string())
    contents = _binary(data.count, data.content_validity, data.content_offsets, data.content_data)
    ends = pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(data.offsets)])
    # A record without headers has null, as in Spark's Kafka source, not an empty list.
    some = pc.not_equal(ends.slice(0, rows), ends.slice(1)).buffers()[1]
    structs = pa.StructArray.from_arrays([names, contents], fields=list(_HEADER))
    kind = SCHEMA_WITH_HEADERS.field("headers").type
    return pa.Array.from_buffers(kind, rows, [some, pa.py_buffer(data.offsets)], children=[structs])


_COLUMNS: dict[str, Callable[[TopicPartition, ColumnData, bool], Any]] = {
    "key": lambda _, data, __: _binary(data.rows, data.key_validity, data.key_offsets, data.key_data),
    "value": lambda _, data, __: _binary(data.rows, data.value_validity, data.value_offsets, data.value_data),
    "topic": lambda partition, data, _: _repeated(partition.topic, pa.string(), data.rows),
    "partition": lambda partition, data, _: _repeated(partition.partition, pa.int32(), data.rows),
    "offset": lambda _, data, __: pa.Array.from_buffers(pa.int64(), data.rows, [None, pa.py_buffer(data.offsets)]),
    "timestamp": lambda _, data, __: pa.Array.from_buffers(
        _FIELDS[5].type, data.rows, [None, pa.py_buffer(data.timestamps_us)]
    ),
    "timestampType": lambda _, data, stamped: _repeated(int(stamped), pa.int32(), data.rows),
    "headers": lambda _, data, __: _headers(data.rows, data.headers),
}
