"""
Decompresses a batch piece by piece, and reads its records, or only their times.

A batch of 200 kB may hold millions of records. A search can stop when the record is found, and pause between pieces.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.records.checksum import Buffer
from logbus.records.compression import GZIP_WBITS, MAX_DECOMPRESSED, ZSTD_MAX_WINDOW, Codec, corrupt, decompress
from logbus.records.header import HEADER_SIZE, BatchHeader
from logbus.records.implementations import decode_records
from logbus.records.record import Record
from logbus.records.varint import decode_varint, decode_varlong

PIECE = 64 * 1024
"""Bytes decompressed at a time; far less than a millisecond of work."""

#: The numbers before a record's key are no longer than this: length, attributes, timestamp and offset.
_HEAD = 5 + 1 + 10 + 5


def decompressed_pieces(codec: int, data: Buffer, limit: int = MAX_DECOMPRESSED) -> Iterator[bytes]:
    """
    Decompress the records of a batch piece by piece.

    Bytes after the compressed data, or missing at their end, are not noticed here, but by reading the records.

    :param limit: upper bound of all bytes (used only for a snappy block, which is one piece).
    :raises ApiError: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE or UNSUPPORTED_COMPRESSION_TYPE, as from
        :func:`~logbus.records.compression.decompress`.
    """
    if codec == Codec.GZIP:
        return _gzip_pieces(data)
    if codec == Codec.LZ4:
        return _lz4_pieces(data)
    if codec == Codec.ZSTD:
        return _zstd_pieces(data)
    # Snappy grows its data by 22 times at most, and has no streams.
    return iter((decompress(codec, data, limit),))


def _gzip_pieces(data: Buffer) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(GZIP_WBITS)
    try:
        while piece := unpacker.decompress(data, PIECE):
            yield piece
            data = unpacker.unconsumed_tail
    except zlib.error as e:
        raise corrupt(Codec.GZIP, e) from None


def _lz4_pieces(data: Buffer) -> Iterator[bytes]:
    import lz4.frame

    unpacker = lz4.frame.LZ4FrameDecompressor()
    try:
        piece: bytes = unpacker.decompress(data, max_length=PIECE)
        while piece:
            yield piece
            piece = b"" if unpacker.eof else unpacker.decompress(b"", max_length=PIECE)
    except RuntimeError as e:
        raise corrupt(Codec.LZ4, e) from None


def _zstd_pieces(data: Buffer) -> Iterator[bytes]:
    import zstandard

    unpacker = zstandard.ZstdDecompressor(max_window_size=ZSTD_MAX_WINDOW)
    try:
        with unpacker.stream_reader(data, read_across_frames=True) as reader:
            while piece := reader.read(PIECE):
                yield piece
    except zstandard.ZstdError as e:
        raise corrupt(Codec.ZSTD, e) from None


def record_times(data: Buffer, header: BatchHeader, limit: int = MAX_DECOMPRESSED) -> Iterator[tuple[int, int] | None]:
    """
    Read the offset and the timestamp of each record of a batch, in order.

    :param data: the batch, with its header.
    :param limit: upper bound of its records' bytes, decompressed.
    :returns: offset and timestamp of each record; and None after each decompressed piece, so that the caller can pause.
    :raises DecodeError: the batch is malformed.
    :raises ApiError: from decompression; MESSAGE_TOO_LARGE beyond ``limit``.
    """
    pieces = decompressed_pieces(header.codec, memoryview(data)[HEADER_SIZE : header.size], limit)
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.log_append_time else None
    held = b""
    pos = size = 0
    for _ in range(header.record_count):
        while len(held) - pos < _HEAD:
            piece = next(pieces, b"")
            if not piece:
                break
            size += len(piece)
            if size > limit:
                raise ApiError(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"the records of the batch at offset {base_offset} are more than {limit} bytes",
                )
            yield None
            # A record's end may lie beyond the bytes at hand: then the rest of it is skipped.
            held, pos = (held[pos:] + piece, 0) if pos <= len(held) else (piece, pos - len(held))
        length, start = decode_varint(held, pos)
        delta, at = decode_varlong(held, start + 1)
        offset_delta, at = decode_varint(held, at)
        if length < at - start:
            raise DecodeError(f"a record of {length} bytes in the batch at offset {base_offset} is too short")
        yield base_offset + offset_delta, base_timestamp + delta if append_time is None else append_time
        pos = start + length


def records_from(
    data: Buffer, header: BatchHeader, start: int, limit: int = MAX_DECOMPRESSED
) -> Iterator[Record | None]:
    """
    Read the records of a batch from an offset on, in order.

    :param data: the batch, with its header.
    :param start: records before this offset are skipped without being read.
    :param limit: upper bound of the records' bytes, decompressed.
    :returns: the records; and None after each decompressed piece and each skipped record, so that the caller can pause.
    :raises DecodeError: the batch is malformed.
    :raises ApiError: from decompression; MESSAGE_TOO_LARGE beyond ``limit``.
    """
    pieces = decompressed_pieces(header.codec, memoryview(data)[HEADER_SIZE : header.size], limit)
    append_time = header.max_timestamp if header.log_append_time else None
    held = bytearray()
    size = 0
    for _ in range(header.record_count):
        wanted, body = _HEAD, 0
        while True:
            while len(held) < wanted and (piece := next(pieces, b"")):
                size += len(piece)
                if size > limit:
                    raise ApiError(
                        ErrorCode.MESSAGE_TOO_LARGE,
                        f"the records of the batch at offset {header.base_offset} are more than {limit} bytes",
                    )
                held += piece
                yield None
            if body:
                break
            length, body = decode_varint(held, 0)
            wanted = body + length
        if length < 1 or len(held) < wanted:
            raise DecodeError(f"a record of {length} bytes in the batch at offset {header.base_offset} is cut short")
        _, at = decode_varlong(held, body + 1)
        offset_delta, _ = decode_varint(held, at)
        if header.base_offset + offset_delta < start:
            yield None
        else:
            yield from decode_records(
                bytes(memoryview(held)[:wanted]),
                1,
                header.base_offset,
                header.last_offset_delta,
                header.base_timestamp,
                append_time,
            )
        del held[:wanted]
