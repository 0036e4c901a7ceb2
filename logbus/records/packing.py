"""
Encodes columns in Arrow's layout (:mod:`logbus.records.columnar`) to records.

The buffers are not trusted: each offset is checked against the data before it is used. ``_packing.pyx`` is the compiled
implementation, if a C compiler was available; :mod:`logbus.records.implementations` chooses.
"""

from __future__ import annotations

from array import array
from typing import Literal

from logbus.records.checksum import Buffer
from logbus.records.columnar import ColumnData, HeaderData
from logbus.records.kernel import encode_record
from logbus.records.murmur import partition_for_key

REVISION = 3
"""Incremented whenever the exported functions change: a compiled module of another revision is not used."""

NO_TIMESTAMP = -1
MAX_RECORD = (1 << 31) - 1
"""
Upper bound of a record's bytes: its length is an int32. Columns with offsets of this size have no more rows, either.
"""
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


def encode_columns(
    data: ColumnData,
    start: int,
    stop: int,
    room: int,
    timestamp: int | None = None,
    order: Buffer | None = None,
    front: int = 0,
) -> tuple[bytearray, int, int, int]:
    """
    Encode the rows from ``start`` on and below ``stop``, as many as fit.

    :param data: its ``offsets`` are ignored, its ``timestamps_us`` only used without ``timestamp``. A buffer may be
        longer than the rows need.
    :param room: upper bound of the records' bytes.
    :param timestamp: of all rows, in ms since 1970; None: each row has its own.
    :param order: int64, the numbers of rows: ``start`` and ``stop`` are positions in it. None: rows are taken as they
        lie.
    :param front: zero bytes in front of the records.
    :returns: the records, their number, the base timestamp, which is the first row's, and the highest; both are −1
        without records.
    :raises ValueError: the buffers do not hold these rows, a timestamp is too far from the base, or a row is too large
        for a record.
    """
    if timestamp is not None and not _INT64_MIN <= timestamp <= _INT64_MAX:
        raise ValueError(f"{timestamp} is not a signed 64-bit number")
    _check_rows(data.rows if order is None else len(memoryview(order).cast("B")) // 8, start, stop)
    last = stop if order is None else data.rows
    numbers = range(start, stop) if order is None else _numbers("q", order, stop, "the order")[start:]
    keys, values, headers = _columns(data, last)
    # With one timestamp for all rows there may be no others.
    times = None if timestamp is not None else _numbers("q", data.timestamps_us, last, "timestamps")
    encoded: list[bytes] = []
    base, highest = NO_TIMESTAMP, NO_TIMESTAMP
    for row in numbers:
        if not 0 <= row < data.rows:
            raise ValueError(f"row {row} is not among {data.rows}")
        now = timestamp if times is None else times[row] // 1000
        assert now is not None
        if not encoded:
            base = now
        record = encode_record(
            now - base, len(encoded), keys.cell(row), values.cell(row), headers.row(row) if headers else ()
        )
        if len(record) > MAX_RECORD:
            raise ValueError(f"row {row} makes a record of {len(record)} bytes; {MAX_RECORD} are the most")
        room -= len(record)
        if room < 0:
            break
        encoded.append(record)
        highest = max(highest, now)
    if not encoded:
        base = NO_TIMESTAMP
    return bytearray(front) + b"".join(encoded), len(encoded), base, highest


def partitions_of_keys(data: ColumnData, start: int, stop: int, count: int) -> Buffer:
    """
    The partitions, out of ``count``, of the rows from ``start`` on and below ``stop``, as Kafka's clients choose them.

    :param data: only its keys are used.
    :returns: int32, one for each row: −1 where the key is null.
    :raises ValueError: the buffers do not hold these rows, or ``count`` is not positive.
    """
    if count <= 0:
        raise ValueError(f"a topic cannot have {count} partitions")
    _check_rows(data.rows, start, stop)
    keys = _Cells(data.key_validity, data.key_offsets, data.key_data, stop, "key")
    cells = [keys.cell(row) for row in range(start, stop)]
    return array("i", [-1 if cell is None else partition_for_key(cell, count) for cell in cells]).tobytes()


def _columns(data: ColumnData, stop: int) -> tuple[_Cells, _Cells, _Headers | None]:
    """The columns of bytes, checked to be long enough for the rows below ``stop``."""
    return (
        _Cells(data.key_validity, data.key_offsets, data.key_data, stop, "key"),
        _Cells(data.value_validity, data.value_offsets, data.value_data, stop, "value"),
        None if data.headers is None else _Headers(data.headers, stop),
    )


def _check_rows(count: int, start: int, stop: int) -> None:
    if not 0 <= start <= stop <= min(count, MAX_RECORD):
        raise ValueError(f"rows {start} to {stop} are not among {count}")


def _numbers(kind: Literal["B", "i", "q"], buf: Buffer, count: int, name: str) -> memoryview:
    """The first ``count`` numbers of a buffer."""
    view = memoryview(buf).cast("B")
    size = array(kind).itemsize * count
    if len(view) < size:
        raise ValueError(f"the buffer of {name} has {len(view)} bytes; {count} take {size}")
    return view[:size].cast(kind)


class _Cells:
    """A column of variable-length bytes."""

    __slots__ = ("_data", "_ends", "_name", "_validity")

    def __init__(self, validity: Buffer | None, offsets: Buffer, data: Buffer, count: int, name: str) -> None:
        self._name = name
        self._data = memoryview(data).cast("B")
        self._ends = _numbers("i", offsets, count + 1, f"{name} offsets")
        self._validity = None if validity is None else _numbers("B", validity, (count + 7) // 8, f"{name} validity")

    def cell(self, row: int) -> bytes | None:
        begin, end = self._ends[row], self._ends[row + 1]
        if not 0 <= begin <= end <= len(self._data):
            raise ValueError(f"{self._name} {row} cannot lie from {begin} to {end} in {len(self._data)} bytes")
        if self._validity is not None and not self._validity[row >> 3] >> (row & 7) & 1:
            return None
        return bytes(self._data[begin:end])


class _Headers:
    """The headers of rows."""

    __slots__ = ("_contents", "_count", "_ends", "_names")

    def __init__(self, headers: HeaderData, rows: int) -> None:
        if not 0 <= headers.count <= MAX_RECORD:
            raise ValueError(f"columns cannot have {headers.count} headers")
        self._count = headers.count
        self._ends = _numbers("i", headers.offsets, rows + 1, "header offsets")
        self._names = _Cells(None, headers.name_offsets, headers.name_data, headers.count, "header name")
        self._contents = _Cells(
            headers.content_validity, headers.content_offsets, headers.content_data, headers.count, "header content"
        )

    def row(self, row: int) -> list[tuple[str, bytes | None]]:
        begin, end = self._ends[row], self._ends[row + 1]
        if not 0 <= begin <= end <= self._count:
            raise ValueError(f"the headers of row {row} cannot be those from {begin} to {end} of {self._count}")
        # Names go out as they are.
        return [
            ((self._names.cell(n) or b"").decode("utf-8", "surrogateescape"), self._contents.cell(n))
            for n in range(begin, end)
        ]
