"""
Records to columns, as Arrow lays them out (https://arrow.apache.org/docs/format/Columnar.html).

A column of bytes of varying length is three buffers: where each row ends in the data, the data of all rows without
gaps, and a bit for each row that is not null. Numbers are in the machine's byte order, which is Arrow's. A reader that
wants columns gets them without an object per record.

This is the plain form, by way of :func:`~logbus.records.kernel.decode_records`. ``_columnar.pyx`` makes the same
columns without that way, where the installation finds a C compiler; :mod:`logbus.records.implementations` chooses.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import accumulate

from attrs import frozen

from logbus.records.checksum import Buffer
from logbus.records.kernel import decode_records
from logbus.records.record import Record

REVISION = 2
"""Grows whenever what is exported here changes: a compiled twin of another one is left alone."""

COLUMN_LIMIT = (1 << 31) - 1
"""Bytes that one column can hold: its offsets are int32."""
NAME_GROWTH = 3
"""What a header's name may grow to: each byte that is not UTF-8 becomes U+FFFD, which is three."""

_MAX_MS = ((1 << 63) - 1) // 1000
"""Milliseconds that are still an int64 as microseconds; times beyond are cut to it."""


@frozen
class HeaderData:
    """
    The headers of all rows, one after another: a list for each row, of structs of name and content.

    :ivar count: headers of all rows together.
    :ivar offsets: int32, one more than rows: which headers are a row's.
    :ivar name_offsets: int32, ``count + 1``.
    :ivar name_data: UTF-8; what was not is U+FFFD, as for Kafka's own clients. Names are never null.
    :ivar content_validity: a bit for each header, the lowest first; None if no content is null.
    :ivar content_offsets: int32, ``count + 1``.
    :ivar content_data: the contents.
    """

    count: int
    offsets: Buffer
    name_offsets: Buffer
    name_data: Buffer
    content_validity: Buffer | None
    content_offsets: Buffer
    content_data: Buffer


@frozen
class ColumnData:
    """
    Rows as buffers that ``pyarrow.Array.from_buffers`` takes as they are, with ``pyarrow.py_buffer`` around each.

    :ivar rows: how many.
    :ivar offsets: int64, the records' places in the partition.
    :ivar timestamps_us: int64, microseconds since 1970: a record's milliseconds times 1000, those of none (−1) too.
        What 64 bits cannot hold is cut to ±9223372036854775 ms.
    :ivar key_validity: a bit for each row, the lowest first, that is 0 where there is no key; None if all have one.
    :ivar key_offsets: int32, ``rows + 1``.
    :ivar key_data: the keys.
    :ivar value_validity: as ``key_validity``; a value that is null is a tombstone.
    :ivar value_offsets: int32, ``rows + 1``.
    :ivar value_data: the values.
    :ivar headers: None unless they were asked for.
    """

    rows: int
    offsets: Buffer
    timestamps_us: Buffer
    key_validity: Buffer | None
    key_offsets: Buffer
    key_data: Buffer
    value_validity: Buffer | None
    value_offsets: Buffer
    value_data: Buffer
    headers: HeaderData | None = None


class Columns:
    """
    The rows of one partition, batch by batch, until somebody takes them.

    :param headers: make columns of the headers, too; else they are checked and left out.
    :param spares: memory of values that were taken and let go, to be used again: new memory costs more than what is
        written into it. One list may do for all columns of a process. In Python it is of no use.
    """

    __slots__ = ("_content", "_header_offsets", "_key", "_name", "_offsets", "_timestamps", "_value", "_with_headers")

    def __init__(self, headers: bool = False, spares: list[bytearray] | None = None) -> None:
        self._with_headers = headers
        self._clear()

    def _clear(self) -> None:
        self._offsets = array("q")
        self._timestamps = array("q")
        self._key, self._value = _Binary(), _Binary()
        self._header_offsets = array("i", [0])
        self._name, self._content = _Binary(), _Binary()

    @property
    def rows(self) -> int:
        """Rows held."""
        return len(self._offsets)

    @property
    def nbytes(self) -> int:
        """Bytes held, validity aside."""
        size = 24 * len(self._offsets) + len(self._key.data) + len(self._value.data)
        if self._with_headers:
            size += 4 * len(self._offsets) + 8 * len(self._name.flags) + len(self._name.data) + len(self._content.data)
        return size

    def has_room(self, size: int) -> bool:
        """Whether no column can outgrow :data:`COLUMN_LIMIT` by a records section of ``size`` bytes."""
        return self.nbytes + size * (NAME_GROWTH if self._with_headers else 1) <= COLUMN_LIMIT

    def extend(
        self,
        data: Buffer,
        count: int,
        base_offset: int,
        last_offset_delta: int,
        base_timestamp: int,
        append_time: int | None,
        first: int,
        end: int,
    ) -> int:
        """
        Add the records of a batch whose offsets are from ``first`` on and below ``end``. The others are checked alike.

        :param data: the records section, decompressed; ``count`` records must fill it exactly.
        :param append_time: the timestamp of every record, in ms since 1970, if the broker stamped the batch.
        :returns: the rows added.
        :raises DecodeError: the bytes are not ``count`` records with rising offsets up to ``last_offset_delta``;
            nothing of them is kept.
        :raises OverflowError: there is no room (:meth:`has_room`): take the rows first.
        """
        if not self.has_room(len(data)):
            raise OverflowError(f"columns of {self.nbytes} bytes have no room for records of {len(data)}: take them")
        records: list[Record] = decode_records(
            bytes(data), count, base_offset, last_offset_delta, base_timestamp, append_time
        )
        kept = [record for record in records if first <= record.offset < end]
        self._offsets.extend([record.offset for record in kept])
        self._timestamps.extend([max(-_MAX_MS, min(record.timestamp, _MAX_MS)) * 1000 for record in kept])
        self._key.extend([record.key for record in kept])
        self._value.extend([record.value for record in kept])
        if self._with_headers:
            counts = accumulate((len(record.headers) for record in kept), initial=self._header_offsets.pop())
            self._header_offsets.extend(counts)
            self._name.extend([_utf8(name) for record in kept for name, _ in record.headers])
            self._content.extend([content for record in kept for _, content in record.headers])
        return len(kept)

    def take(self) -> ColumnData:
        """Hand over all rows, and be empty."""
        headers = None
        if self._with_headers:
            headers = HeaderData(
                len(self._name.flags),
                self._header_offsets.tobytes(),
                self._name.offsets.tobytes(),
                self._name.data,
                self._content.validity(),
                self._content.offsets.tobytes(),
                self._content.data,
            )
        taken = ColumnData(
            len(self._offsets),
            self._offsets.tobytes(),
            self._timestamps.tobytes(),
            self._key.validity(),
            self._key.offsets.tobytes(),
            self._key.data,
            self._value.validity(),
            self._value.offsets.tobytes(),
            self._value.data,
            headers,
        )
        self._clear()
        return taken


class _Binary:
    """A column of bytes of varying length."""

    __slots__ = ("data", "flags", "offsets")

    def __init__(self) -> None:
        self.data = bytearray()
        self.offsets = array("i", [0])
        self.flags = bytearray()
        """The digit 1 for each row, 0 where it is null."""

    def extend(self, cells: Iterable[bytes | None]) -> None:
        cells = list(cells)
        self.flags += b"".join([b"0" if cell is None else b"1" for cell in cells])
        self.offsets.extend(accumulate((len(cell) if cell else 0 for cell in cells), initial=self.offsets.pop()))
        self.data += b"".join(filter(None, cells))

    def validity(self) -> bytes | None:
        if b"0" not in self.flags:
            return None
        # The first row is the lowest bit, which is the last digit.
        return int(self.flags[::-1], 2).to_bytes((len(self.flags) + 7) // 8, "little")


def _utf8(name: str) -> bytes:
    """A name as UTF-8, what was not in it replaced."""
    try:
        return name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode()
