"""
Decodes records to columns in Arrow's layout (https://arrow.apache.org/docs/format/Columnar.html).

A column of variable-length bytes is three buffers: the end offset of each row, the data of all rows without gaps, and a
validity bit for each row. Numbers are in the machine's byte order, as in Arrow. No object per record is made.

This is the Python implementation, on top of :func:`~logbus.records.kernel.decode_records`. ``_columnar.pyx`` builds the
same columns directly, if a C compiler was available; :mod:`logbus.records.implementations` chooses.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import accumulate

from attrs import frozen

from logbus.records.checksum import Buffer
from logbus.records.kernel import decode_records
from logbus.records.record import Record, readable_name

REVISION = 4
"""Incremented whenever the exported functions change: a compiled module of another revision is not used."""

COLUMN_LIMIT = (1 << 31) - 1
"""Upper bound of a column's bytes: its offsets are int32."""
NAME_GROWTH = 3
"""Factor by which a header's name may grow: each byte that is not UTF-8 becomes U+FFFD, in three bytes."""

_MAX_MS = ((1 << 63) - 1) // 1000
"""Largest milliseconds that fit into int64 as microseconds; later times are clamped to it."""


@frozen
class HeaderData:
    """
    The headers of all rows, consecutively: a list for each row, of structs of name and content.

    :ivar count: headers of all rows together.
    :ivar offsets: int32, one more than rows: the range of each row's headers.
    :ivar name_offsets: int32, ``count + 1``.
    :ivar name_data: UTF-8; other bytes become U+FFFD, as for Kafka's own clients. Names are never null.
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
    Rows as buffers that ``pyarrow.Array.from_buffers`` accepts, with ``pyarrow.py_buffer`` around each.

    :ivar rows: their number.
    :ivar offsets: int64, the records' offsets in the partition.
    :ivar timestamps_us: int64, microseconds since 1970: a record's milliseconds times 1000, also of −1 (no timestamp).
        Values beyond 64 bits are clamped to ±9223372036854775 ms.
    :ivar key_validity: a bit for each row, the lowest first, 0 for rows without a key; None if all have one.
    :ivar key_offsets: int32, ``rows + 1``.
    :ivar key_data: the keys.
    :ivar value_validity: as ``key_validity``; a null value is a tombstone.
    :ivar value_offsets: int32, ``rows + 1``.
    :ivar value_data: the values.
    :ivar headers: None unless requested.
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
    The rows of one partition, collected batch by batch until they are taken.

    :param headers: make columns of the headers, too; else they are checked and left out.
    :param spares: memory of values that were taken and released, for reuse: allocating costs more than writing. One
        list may serve all columns of a process. Not used by the Python implementation.
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
        """Bytes held, without validity bits."""
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
        in_place: bool = False,
    ) -> int:
        """
        Add the records of a batch with offsets from ``first`` on and below ``end``. The others are only checked.

        :param data: the records section, decompressed; ``count`` records must fill it exactly.
        :param append_time: the timestamp of every record, in ms since 1970, if the topic uses LogAppendTime.
        :param in_place: ``data`` is a part of a buffer that nobody reads any more up to the end of ``data``: values
            may be moved within it instead of being copied out of it, and what is taken may be a view of it. This needs
            a ``memoryview`` of a ``bytearray``, else it makes no difference; nor does it in the Python implementation.
        :returns: the rows added.
        :raises DecodeError: the bytes are not ``count`` records with ascending offsets up to ``last_offset_delta``;
            none of them is added.
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

    def extend_plain(
        self,
        buf: Buffer,
        pos: int,
        first: int,
        end: int,
        max_rows: int,
        max_bytes: int,
        limit: int,
        in_place: bool = False,
    ) -> tuple[int, int]:
        """
        Add the records of whole batches in ``buf`` from ``pos`` on that need nothing but their records: until one is
        compressed, of a transaction, a control batch or damaged, or as ``extend_from_batches`` would stop, whose
        parameters these are. The Python implementation adds none.

        :returns: the position of the first batch that was not added, and the offset to continue from.
        """
        return pos, first

    def take(self) -> ColumnData:
        """Return all rows, and become empty."""
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
    """A column of variable-length bytes."""

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
    """A name as UTF-8, with invalid bytes replaced."""
    try:
        return name.encode()
    except UnicodeEncodeError:
        return readable_name(name).encode()
