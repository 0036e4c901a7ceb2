"""
A record batch of columns in Arrow's layout.

Each row is copied once, from its columns to where it lies in the batch that is sent.
"""

from __future__ import annotations

import struct

from logbus.records.checksum import Buffer, crc32c
from logbus.records.columnar import ColumnData
from logbus.records.compression import Codec, compress
from logbus.records.header import (
    ATTRIBUTES_AT,
    CRC,
    CRC_AT,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    MIN_LENGTH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from logbus.records.implementations import encode_columns
from logbus.records.packing import MAX_RECORD


class ColumnBatch:
    """
    Consecutive rows as a batch: those from ``start`` on and below ``stop`` that keep it within ``limit`` bytes, before
    compression, but at least one.

    :param data: at least one row; see :func:`~logbus.records.packing.encode_columns`, also for ``timestamp`` and
        ``order``.
    :param level: the codec's; None is its default.
    :ivar count: the rows in it.
    :ivar size: bytes of the batch before compression, with its header.
    :raises ValueError: the buffers do not hold these rows, or a number is out of range.
    """

    __slots__ = ("_is_compressed", "_whole", "base_timestamp", "codec", "count", "level", "max_timestamp", "size")

    def __init__(
        self,
        data: ColumnData,
        start: int,
        stop: int,
        limit: int,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        timestamp: int | None = None,
        order: Buffer | None = None,
    ) -> None:
        if start >= stop:
            raise ValueError(f"rows {start} to {stop} make no batch: it needs at least one record")
        found = encode_columns(data, start, stop, limit - HEADER_SIZE, timestamp, order, HEADER_SIZE)
        if not found[1]:
            found = encode_columns(data, start, start + 1, MAX_RECORD, timestamp, order, HEADER_SIZE)
        self._whole, self.count, self.base_timestamp, self.max_timestamp = found
        self._is_compressed = codec is Codec.NONE
        self.codec = codec
        self.level = level
        self.size = len(self._whole)

    def build(
        self,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
    ) -> memoryview:
        """
        The batch as bytes, which stay the same until it is built again. The records are compressed only once.

        :raises ValueError: a number is out of range.
        """
        if not self._is_compressed:
            whole = bytearray(HEADER_SIZE)
            whole += compress(self.codec, memoryview(self._whole)[HEADER_SIZE:], self.level)
            self._whole, self._is_compressed = whole, True
        header = BatchHeader(
            0,
            len(self._whole) - HEADER_SIZE + MIN_LENGTH,
            -1,
            MAGIC,
            0,
            self.codec | (TRANSACTIONAL_BIT if transactional else 0),
            self.count - 1,
            self.base_timestamp,
            self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.count,
        )
        view = memoryview(self._whole)
        try:
            HEADER.pack_into(view, 0, *header)
        except struct.error as e:
            raise ValueError(f"a number does not fit into the header of a record batch: {e}") from None
        CRC.pack_into(view, CRC_AT, crc32c(view[ATTRIBUTES_AT:]))
        return view
