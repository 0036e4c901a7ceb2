"""
Encodes and decodes record batches (Kafka: MemoryRecords, DefaultRecordBatch).

The header is in :mod:`logbus.records.header`, one record's bytes in :mod:`logbus.records.record`, transaction markers
in :mod:`logbus.records.control_records`; their functions for working with batches are exported here, too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, overload

from logbus.errors import ApiError, DecodeError
from logbus.records.checksum import Buffer, crc32c
from logbus.records.compression import MAX_DECOMPRESSED, Codec, compress, decompress
from logbus.records.control_records import (
    ControlType,
    Marker,
    decode_marker,
    encode_marker,
)
from logbus.records.header import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    CRC,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MIN_LENGTH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    OFFSET_AND_LENGTH,
    TRANSACTIONAL_BIT,
    BatchHeader,
    batch_problem,
    check_crc,
    iter_batches,
    read_header,
    require_crc,
)
from logbus.records.implementations import RecordBuffer, decode_records, encode_record
from logbus.records.record import Headers, Record, max_record_size

__all__ = [
    "BatchBuilder",
    "decode_batch",
    "encode_batch",
    "encode_marker_batch",
    "iter_records",
    "read_marker",
    "readdressed_batch",
    "rewrite_batch",
    # From .header
    "HEADER_SIZE",
    "MAGIC",
    "BatchHeader",
    "batch_problem",
    "check_crc",
    "iter_batches",
    "read_header",
    # From .record
    "Headers",
    "Record",
    # From .control
    "ControlType",
    "Marker",
    "decode_marker",
]

R = TypeVar("R")


class BatchBuilder(RecordBuffer):
    """
    Collects a producer's records into a batch; see :class:`~logbus.records.gathering.RecordBuffer`.

    :ivar codec: compresses the batch when it is built.
    :ivar level: the codec's level; None is its default.
    """

    __slots__ = ("_body", "_body_count", "codec", "level")

    def __init__(self, codec: Codec = Codec.NONE, level: int | None = None) -> None:
        super().__init__()
        self.codec = codec
        self.level = level
        self._body = b""
        self._body_count = 0

    def room_for(self, limit: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> bool:
        """Whether the batch stays within ``limit`` bytes, uncompressed, with this record; an empty one takes any."""
        return self.count == 0 or self.size + max_record_size(key, value, headers) <= limit

    def build(
        self,
        *,
        base_offset: int = 0,
        leader_epoch: int = -1,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        log_append_time: int | None = None,
    ) -> bytes:
        """
        The batch as bytes. It may be built again, for example with a new producer epoch: the records are compressed
        only once.

        :param log_append_time: set by the broker for the whole batch, ms since 1970; None keeps the records'.
        :raises ValueError: there are no records.
        """
        if not self.count:
            raise ValueError("a batch needs at least one record")
        if self._body_count != self.count:
            self._body, self._body_count = compress(self.codec, self.contents(), self.level), self.count
        attributes = self.codec | (TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0)
        header = BatchHeader(
            base_offset,
            0,
            leader_epoch,
            MAGIC,
            0,
            attributes if log_append_time is None else attributes | LOG_APPEND_TIME_BIT,
            self.count - 1,
            self.base_timestamp,
            self.max_timestamp if log_append_time is None else log_append_time,
            producer_id,
            producer_epoch,
            base_sequence,
            self.count,
        )
        return _assemble(header, self._body)


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time: int | None = None,
) -> bytes:
    """
    Encode a batch of ``records``, with offsets from ``base_offset`` on: their own offsets are ignored.

    :param log_append_time: as for :meth:`BatchBuilder.build`.
    :raises ValueError: there are no records, or one cannot be encoded.
    """
    builder = BatchBuilder(codec, level)
    for _, timestamp, key, value, headers in records:
        builder.append(timestamp, key, value, headers)
    return builder.build(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        log_append_time=log_append_time,
    )


def encode_marker_batch(
    marker: Marker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends a producer's transaction in one partition."""
    return encode_batch(
        [encode_marker(marker, base_offset, timestamp)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def rewrite_batch(
    header: BatchHeader,
    records: Sequence[Record],
    *,
    codec: Codec | None = None,
    level: int | None = None,
    delete_horizon: int | None = None,
) -> bytes:
    """
    The batch of ``header`` with only ``records`` left in it, for compaction: offsets, producer fields and all other
    fields stay.

    :param records: some of the batch's own, in order; may be empty.
    :param codec: another codec; None keeps the batch's.
    :param level: of the codec; None is its default.
    :param delete_horizon: time at which tombstones and markers may be removed, ms since 1970 (KIP-534); None keeps the
        batch's.
    :raises ValueError: an offset is not the batch's.
    """
    base_offset, base_timestamp, attributes = header.base_offset, header.base_timestamp, header.attributes
    if delete_horizon is not None:
        base_timestamp = delete_horizon
        attributes |= DELETE_HORIZON_BIT
    encoded = []
    for offset, timestamp, key, value, headers in records:
        if not base_offset <= offset <= header.last_offset:
            raise ValueError(f"offset {offset} is not in the batch of {base_offset}..{header.last_offset}")
        delta = 0 if header.log_append_time else timestamp - base_timestamp
        encoded.append(encode_record(delta, offset - base_offset, key, value, headers))
    if not encoded:
        codec, level = Codec.NONE, None
    elif codec is None:
        codec = Codec(header.codec)
    rewritten = header._replace(
        attributes=attributes & ~CODEC_MASK | codec,
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp
        if header.log_append_time or not records
        else max(record.timestamp for record in records),
        record_count=len(records),
    )
    return _assemble(rewritten, compress(codec, b"".join(encoded), level))


def replace_records(header: BatchHeader, records: Buffer, count: int, max_timestamp: int) -> bytes:
    """
    Like :func:`rewrite_batch`, for records that are encoded already, as they were in the batch.

    :param records: some of the batch's own, one after the other, not compressed.
    :param count: how many they are, at least one.
    :param max_timestamp: the largest of their timestamps, ms since 1970.
    """
    rewritten = header._replace(
        max_timestamp=header.max_timestamp if header.log_append_time else max_timestamp, record_count=count
    )
    return _assemble(rewritten, compress(header.codec, records))


@overload
def decode_batch(
    buf: Buffer, pos: int = 0, *, header: BatchHeader | None = None, limit: int = MAX_DECOMPRESSED
) -> list[Record]: ...
@overload
def decode_batch(
    buf: Buffer, pos: int = 0, *, header: BatchHeader | None = None, kind: type[R], prefix: tuple[object, ...]
) -> list[R]: ...
def decode_batch(
    buf: Buffer,
    pos: int = 0,
    *,
    header: BatchHeader | None = None,
    limit: int = MAX_DECOMPRESSED,
    kind: type[Any] = Record,
    prefix: tuple[object, ...] = (),
) -> list[Any]:
    """
    Decode all records of the batch at ``pos``. The caller checks the CRC: see :func:`check_crc`.

    :param header: the batch's header, if already read.
    :param kind: the record class: a named tuple of its fields, with ``prefix`` before them.
    :param limit: upper bound of the records' bytes, decompressed.
    :raises DecodeError: the batch is malformed.
    :raises ApiError: from decompression: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE or UNSUPPORTED_COMPRESSION_TYPE.
    """
    if header is None:
        header = read_header(buf, pos)
    size = header.size
    if header.magic != MAGIC or header.length < MIN_LENGTH or size > len(buf) - pos:
        raise DecodeError(
            f"no whole record batch at {pos}: magic {header.magic}, {size} bytes of {len(buf) - pos} that are there"
        )
    count = header.record_count
    body = memoryview(buf)[pos + HEADER_SIZE : pos + size]
    if count == 0 and not body:
        return []
    return decode_records(
        decompress(header.codec, body, limit),
        count,
        header.base_offset,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp if header.log_append_time else None,
        kind,
        prefix,
    )


def readdressed_batch(
    buf: Buffer,
    header: BatchHeader,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytes:
    """
    A batch of one log as another producer sends it to another log: its records stay as they are encoded.

    :param buf: one whole batch, which is not a control batch; the caller has checked its CRC.
    :param header: its header.
    :raises ValueError: a number is out of range.
    """
    attributes = header.attributes & ~TRANSACTIONAL_BIT | (TRANSACTIONAL_BIT if transactional else 0)
    sent = header._replace(
        base_offset=0,
        leader_epoch=-1,
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    return _assemble(sent, memoryview(buf)[HEADER_SIZE : header.size])


def iter_records(buf: Buffer) -> Iterator[Record]:
    """
    The records of all whole batches in ``buf``, in order, without control batches.

    :raises DecodeError: a batch is malformed, or its CRC does not match.
    :raises ApiError: from decompression, as in :func:`decode_batch`.
    """
    for pos, header in iter_batches(buf):
        require_crc(buf, pos, header)
        if not header.control:
            yield from decode_batch(buf, pos, header=header)


def read_marker(data: Buffer, position: int, header: BatchHeader) -> Marker | None:
    """
    The marker in a control batch; None if compaction removed it, or it is another kind of control batch.

    :raises DecodeError: the batch cannot be read.
    """
    if not header.record_count:
        return None
    try:
        records = decode_batch(data, position, header=header)
    except ApiError as error:
        raise DecodeError(str(error)) from error
    return decode_marker(records[0]) if records else None


def _assemble(header: BatchHeader, body: Buffer) -> bytes:
    """Prepend the header to the records, with length and CRC."""
    try:
        packed = bytearray(HEADER.pack(*header))
        OFFSET_AND_LENGTH.pack_into(packed, 0, header.base_offset, MIN_LENGTH + len(body))
    except struct.error as e:
        raise ValueError(f"a number does not fit into the header of a record batch: {e}") from None
    CRC.pack_into(packed, CRC_AT, crc32c(body, crc32c(memoryview(packed)[ATTRIBUTES_AT:])))
    return b"".join((packed, body))
