"""Reads columns back into rows, by nothing but Arrow's layout."""

from __future__ import annotations

import struct
from typing import NamedTuple

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logbus.records import columnar, implementations
from logbus.records.batch_columns import ColumnData
from logbus.records.checksum import Buffer
from logbus.records.record import Record

MAX_MS = (2**63 - 1) // 1000


class Row(NamedTuple):
    """A row; ``headers`` is None where none were asked for."""

    offset: int
    timestamp_us: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] | None


def numbers(kind: str, count: int, buf: Buffer) -> tuple[int, ...]:
    """All numbers of a buffer, which has exactly so many."""
    return struct.unpack(f"={count}{kind}", buf)


def cells(count: int, validity: Buffer | None, offsets: Buffer, data: Buffer) -> list[bytes | None]:
    """A column of bytes of varying length; its buffers have no byte more than it takes."""
    ends = numbers("i", count + 1, offsets)
    assert ends[0] == 0 and ends[-1] == len(data) and list(ends) == sorted(ends)
    if validity is None:
        valid = [1] * count
    else:
        assert len(validity) == (count + 7) // 8
        bits = [byte >> bit & 1 for byte in bytes(validity) for bit in range(8)]
        valid = bits[:count]
        assert not all(valid), "a column without nulls has no validity"
        assert not any(bits[count:]), "the bits behind the last row are 0"
    return [bytes(data[ends[n] : ends[n + 1]]) if valid[n] else None for n in range(count)]


def rows_of(data: ColumnData) -> list[Row]:
    """The rows of columns."""
    offsets = numbers("q", data.rows, data.offsets)
    timestamps = numbers("q", data.rows, data.timestamps_us)
    keys = cells(data.rows, data.key_validity, data.key_offsets, data.key_data)
    values = cells(data.rows, data.value_validity, data.value_offsets, data.value_data)
    lists: list[tuple[tuple[str, bytes | None], ...] | None] = [None] * data.rows
    if (headers := data.headers) is not None:
        ends = numbers("i", data.rows + 1, headers.offsets)
        assert ends[0] == 0 and ends[-1] == headers.count
        names = [
            bytes(name or b"").decode() for name in cells(headers.count, None, headers.name_offsets, headers.name_data)
        ]
        contents = cells(headers.count, headers.content_validity, headers.content_offsets, headers.content_data)
        pairs = list(zip(names, contents, strict=True))
        lists = [tuple(pairs[ends[n] : ends[n + 1]]) for n in range(data.rows)]
    return [Row(*row) for row in zip(offsets, timestamps, keys, values, lists, strict=True)]


def row_of(record: Record, with_headers: bool) -> Row:
    """What a record is as a row."""
    headers = None
    if with_headers:
        headers = tuple(
            (name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), content)
            for name, content in record.headers
        )
    timestamp = max(-MAX_MS, min(record.timestamp, MAX_MS)) * 1000
    return Row(record.offset, timestamp, record.key, record.value, headers)


class PlainTwin(SynchronousTestCase):
    """Mix-in: tests of the Python implementation."""

    Columns = columnar.Columns


class CompiledTwin(SynchronousTestCase):
    """Mix-in: tests of the compiled implementation."""

    Columns = implementations.Columns

    def setUp(self) -> None:
        if not implementations.COLUMNS_ARE_COMPILED:
            raise SkipTest("LOGBUS_PURE is set, or the installation found no C compiler")
