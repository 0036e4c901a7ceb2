"""
Decodes the batches of a fetch response to columns: checks and decompresses them, without an object per record.

The columns are in :mod:`logbus.records.columnar`, the reverse direction in :mod:`logbus.records.packing`; their
functions for users are exported here, too.
"""

from __future__ import annotations

from logbus.errors import ApiError, DecodeError
from logbus.records.checksum import Buffer
from logbus.records.columnar import COLUMN_LIMIT, NAME_GROWTH, ColumnData, HeaderData
from logbus.records.compression import MAX_DECOMPRESSED, Codec, decompress
from logbus.records.header import HEADER_SIZE, BatchHeader, iter_batches, require_crc
from logbus.records.implementations import Columns, partitions_of_keys
from logbus.records.read_committed import CommittedFilter

__all__ = ["ColumnData", "Columns", "HeaderData", "extend_from_batches", "partitions_of_keys"]

_LARGEST = COLUMN_LIMIT // NAME_GROWTH
"""Bytes of a records section that empty columns always have room for, headers included."""


def extend_from_batches(
    columns: Columns,
    buf: Buffer,
    hidden: CommittedFilter,
    first: int,
    end: int,
    *,
    max_rows: int,
    max_bytes: int,
    pos: int = 0,
    limit: int = MAX_DECOMPRESSED,
    in_place: bool = False,
) -> tuple[int, int]:
    """
    Add the records from the offset ``first`` on and below ``end``, of the whole batches in ``buf`` from ``pos`` on.
    Control batches and those of aborted transactions are skipped.

    It stops between batches: when the columns are full, at ``end``, at the end of the bytes, or before a damaged batch,
    unless that is the first: a call that begins there raises.

    :param hidden: of this response: it must see each batch in order, from the first call for ``buf`` to the last.
    :param max_rows: no further batch is begun once the columns hold so many.
    :param max_bytes: no further batch is begun once the columns hold so many.
    :param limit: upper bound of the bytes of one batch's records, decompressed.
    :param in_place: see :meth:`Columns.extend`; for the bytes before the returned position.
    :returns: the position after the last batch read, and the offset to continue from; this is ``end`` once there can be
        no more rows below it.
    :raises DecodeError: a batch is malformed, or its CRC does not match.
    :raises ApiError: from decompression: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE or UNSUPPORTED_COMPRESSION_TYPE.
    """
    limit = min(limit, _LARGEST)
    begun = pos
    pos, next_offset = columns.extend_plain(buf, pos, first, end, max_rows, max_bytes, limit, in_place)
    if pos > begun and next_offset >= end:
        return pos, end
    try:
        for at, header in iter_batches(buf, pos):
            if header.base_offset >= end:
                return at, end
            if columns.rows >= max_rows or columns.nbytes >= max_bytes:
                break
            require_crc(buf, at, header)
            if not hidden.hides(buf, at, header) and header.last_offset >= first:
                data = _records_section(buf, at, header, limit)
                if not columns.has_room(len(data)):
                    break
                if data or header.record_count:
                    columns.extend(
                        data,
                        header.record_count,
                        header.base_offset,
                        header.last_offset_delta,
                        header.base_timestamp,
                        header.max_timestamp if header.log_append_time else None,
                        first,
                        end,
                        in_place,
                    )
            pos = at + header.size
            next_offset = max(next_offset, header.next_offset)
            if next_offset >= end:
                return pos, end
    except (ApiError, DecodeError):
        if pos == begun:
            raise
    return pos, next_offset


def _records_section(buf: Buffer, pos: int, header: BatchHeader, limit: int) -> Buffer:
    """The records of the batch at ``pos``, decompressed; empty for a batch that compaction emptied."""
    body = memoryview(buf)[pos + HEADER_SIZE : pos + header.size]
    if not body and not header.record_count:
        return b""
    if header.codec == Codec.NONE and len(body) <= limit:
        return body
    return decompress(header.codec, body, limit)
