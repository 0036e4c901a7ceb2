"""
The 61-byte header of a record batch, magic 2 (KIP-98; Kafka: DefaultRecordBatch).

::

    base_offset int64 | length int32 | leader_epoch int32 | magic int8 | crc uint32 | attributes int16
    last_offset_delta int32 | base_timestamp int64 | max_timestamp int64
    producer_id int64 | producer_epoch int16 | base_sequence int32 | record_count int32 | records ...

``length`` counts the bytes after it. The CRC covers everything from ``attributes`` to the end, so the broker may assign
``base_offset`` and ``leader_epoch`` without changing it; setting the log append time changes it.

Attributes: bits 0-2 codec, 3 timestamp is the log append time, 4 transactional, 5 control, 6 ``base_timestamp`` is a
delete horizon (KIP-534), the rest reserved.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple, TypeAlias

from logbus.errors import DecodeError
from logbus.records.checksum import Buffer, crc32c

HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
MAGIC = 2

LENGTH_OVERHEAD = 12
"""Bytes of a batch that its ``length`` field does not count: ``base_offset`` and the field itself."""
MIN_LENGTH = HEADER_SIZE - LENGTH_OVERHEAD
"""The ``length`` of a batch without records."""
MIN_RECORD_SIZE = 7
"""Seven fields of at least one byte: length, attributes, timestamp, offset, key, value, headers."""

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
KNOWN_BITS = 0x7F

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1

PREFIX = Struct(">qii")
"""``base_offset``, ``length``, ``leader_epoch`` at position 0: the fields that the CRC does not cover, except magic."""
PREFIX_SIZE = PREFIX.size
BASE_OFFSET = Struct(">q")
OFFSET_AND_LENGTH = Struct(">qi")
"""``base_offset`` and ``length`` at position 0: enough to skip from batch to batch."""
MAGIC_AT = 16
CRC = Struct(">I")
CRC_AT = 17
ATTRIBUTES = Struct(">h")
ATTRIBUTES_AT = 21
"""Also where the range of the CRC begins."""
MAX_TIMESTAMP = Struct(">q")
MAX_TIMESTAMP_AT = 35

HeaderFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""Those of :class:`BatchHeader`, in its order."""

read_fields: Callable[..., HeaderFields] = HEADER.unpack_from
"""``read_fields(buf: Buffer, pos: int = 0) -> HeaderFields``; raises struct.error for fewer than 61 bytes."""

_new_tuple = tuple.__new__


class BatchHeader(NamedTuple):
    """
    A batch's header, as read: nothing in it is checked.

    Times are milliseconds since 1970; -1 stands for "none" in epochs, producer id, sequence and times.
    ``max_timestamp`` is the producer's: some write the last record's time, which may be lower than ``base_timestamp``.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The last offset of the batch, even if compaction removed its record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """The compression codec's number, 0-7; see :class:`logbus.records.compression.Codec`."""
        return self.attributes & CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        """Whether ``max_timestamp``, the broker's clock, is the timestamp of every record."""
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def control(self) -> bool:
        """Whether the batch holds a control record instead of a user's records."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def delete_horizon(self) -> int | None:
        """When compaction may remove the batch's tombstones and markers, in ms since 1970; None: not set yet."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; 0 follows 2**31 - 1. -1 without sequence."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def header_of(fields: HeaderFields) -> BatchHeader:
    """The header with these fields."""
    return _new_tuple(BatchHeader, fields)


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """
    Read the header of the batch that starts at ``pos``; its fields are not checked.

    :raises DecodeError: fewer than 61 bytes are left.
    """
    try:
        return _new_tuple(BatchHeader, read_fields(buf, pos))
    except struct.error:
        raise DecodeError(f"{len(buf) - pos} bytes at {pos} are too few for a record batch header") from None


def first_offset(buf: Buffer) -> int:
    """The base offset of the first batch in ``buf``, from its first eight bytes; −1 for fewer bytes."""
    return BASE_OFFSET.unpack_from(buf)[0] if len(buf) >= BASE_OFFSET.size else -1


def iter_batches(buf: Buffer, pos: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """
    Yield position and header of each whole batch in ``buf``, from ``pos`` on.

    An incomplete batch ends the iteration without an error: fetch responses may end in the middle of one.

    :raises DecodeError: the bytes cannot be a batch of magic 2.
    """
    end = len(buf)
    while end - pos >= HEADER_SIZE:
        header = _new_tuple(BatchHeader, read_fields(buf, pos))
        length = header.length
        if length < MIN_LENGTH or header.magic != MAGIC:
            raise DecodeError(
                f"no record batch at {pos}: length {length}, magic {header.magic} (at least {MIN_LENGTH}, {MAGIC})"
            )
        if length > end - pos - LENGTH_OVERHEAD:
            return
        yield pos, header
        pos += length + LENGTH_OVERHEAD


def batch_crc(buf: Buffer, pos: int, size: int) -> int:
    """Compute the CRC of the batch of ``size`` bytes at ``pos``."""
    view = buf if isinstance(buf, memoryview) else memoryview(buf)
    return crc32c(view[pos + ATTRIBUTES_AT : pos + size])


def check_crc(buf: Buffer, pos: int, header: BatchHeader) -> bool:
    """Whether the CRC of the whole batch at ``pos`` is right."""
    return batch_crc(buf, pos, header.size) == header.crc


def require_crc(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """
    Check the CRC of the whole batch at ``pos``.

    :raises DecodeError: it is wrong.
    """
    if not check_crc(buf, pos, header):
        raise DecodeError(f"the CRC of the batch at offset {header.base_offset} does not match")


def batch_problem(buf: Buffer, pos: int, header: BatchHeader) -> str | None:
    """
    The reason why the batch at ``pos`` cannot be in a log, or None. For bytes from a disk or another broker: control
    batches, and batches that compaction thinned out, are valid.
    """
    # All fields at once: access to each takes longer than its check.
    base, length, _, magic, crc, _, delta, _, _, _, _, _, count = header
    size = length + LENGTH_OVERHEAD
    if magic != MAGIC:
        return f"magic is {magic}, not {MAGIC}"
    if length < MIN_LENGTH:
        return f"length is {length}, below the {MIN_LENGTH} of an empty batch"
    if size > len(buf) - pos:
        return f"{size} bytes announced, {len(buf) - pos} there"
    if base < 0 or delta < 0:
        return f"offsets {base} + {delta} are negative"
    if not 0 <= count <= delta + 1:
        return f"{count} records for {delta + 1} offsets"
    computed = batch_crc(buf, pos, size)
    if computed != crc:
        return f"CRC is {crc:#010x}, computed {computed:#010x}"
    return None


def patched_prefix(header: BatchHeader, base_offset: int, leader_epoch: int) -> bytes:
    """
    The first :data:`PREFIX_SIZE` bytes of the batch with new offset and epoch, for bytes that must not be changed:
    write this, then the rest of the batch.
    """
    return PREFIX.pack(base_offset, header.length, leader_epoch)


def rewrite_log_append_time(buf: bytearray | memoryview, pos: int, ms: int) -> None:
    """
    Set the log append time of the batch at ``pos``, in place (``message.timestamp.type=LogAppendTime``). The CRC is
    recomputed, which reads the whole batch.

    :param ms: milliseconds since 1970.
    """
    _, length = OFFSET_AND_LENGTH.unpack_from(buf, pos)
    attributes: int = ATTRIBUTES.unpack_from(buf, pos + ATTRIBUTES_AT)[0]
    ATTRIBUTES.pack_into(buf, pos + ATTRIBUTES_AT, attributes | LOG_APPEND_TIME_BIT)
    MAX_TIMESTAMP.pack_into(buf, pos + MAX_TIMESTAMP_AT, ms)
    CRC.pack_into(buf, pos + CRC_AT, batch_crc(buf, pos, length + LENGTH_OVERHEAD))
