"""
The compression codecs of record batches, with bounded output.

Announced sizes are never trusted: a few hundred bytes can claim, or become, gigabytes. Each decompressor stops just
past the limit, so that a decompression bomb costs no more memory than a legitimate batch of the largest size.

The libraries are imported on first use: a broker that stores batches unchanged never needs them.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from struct import Struct
from typing import Literal, TypeAlias

from logbus.errors import ApiError, ConfigError, DecodeError, ErrorCode
from logbus.records.checksum import Buffer
from logbus.records.varint import decode_uvarint

MAX_DECOMPRESSED = 64 * 1024 * 1024
"""Upper bound in bytes of a batch that the broker decompresses."""


class Codec(IntEnum):
    """Bits 0-2 of a batch's attributes; the names are those of ``compression.type``."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CodecName: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]
"""The names of codecs, as the clients' options take them."""

_NAMED = {codec.name.lower(): codec for codec in Codec} | {"uncompressed": Codec.NONE}

GZIP_WBITS = 31
"""zlib's largest window, with a gzip header around."""

ZSTD_MAX_WINDOW = 2**27
"""The largest window that Kafka's own readers accept, in bytes."""
_ZSTD_FIRST_READ = 64 * 1024

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
"""Magic, version 1, readable by version 1 (SnappyCodec of snappy-java)."""
_XERIAL_BLOCK_SIZE = 32 * 1024
_XERIAL_LENGTH = Struct(">i")
_SNAPPY_MAX_RATIO = 22
"""A copy of 64 bytes takes three: nothing grows more than 64/3 times."""


def codec_named(name: str) -> Codec:
    """
    The codec with this name in ``compression.type``, in any case.

    :raises ConfigError: there is none.
    """
    try:
        return _NAMED[name.lower()]
    except KeyError:
        raise ConfigError(f"there is no compression codec {name!r}; use one of {', '.join(_NAMED)}") from None


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """
    Compress the records of a batch in the framing that Kafka's own client writes.

    :param level: gzip 1-9, lz4 1-12, zstd -131072-22; None is the codec's default. Snappy has no levels.
    :raises ValueError: the codec is unknown, or has no such level.
    """
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, GZIP_WBITS)
        return packer.compress(data) + packer.flush()
    if codec == Codec.SNAPPY:
        if level is not None:
            raise ValueError("snappy has no compression levels")
        return _compress_xerial(data)
    if codec == Codec.LZ4:
        import lz4.frame

        # Java does not support blocks that depend on each other.
        frame: bytes = lz4.frame.compress(data, compression_level=level or 0, block_linked=False, store_size=False)
        return frame
    if codec == Codec.ZSTD:
        import zstandard

        return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)
    raise ValueError(f"there is no compression codec {codec}")


def decompress(codec: int, data: Buffer, limit: int = MAX_DECOMPRESSED) -> bytes:
    """
    Decompress the records of a batch.

    :param limit: upper bound of the result's bytes.
    :raises ApiError: CORRUPT_MESSAGE if the data are damaged, truncated or followed by something else;
        MESSAGE_TOO_LARGE if the result would exceed ``limit``; UNSUPPORTED_COMPRESSION_TYPE for codecs 5-7.
    """
    if codec == Codec.NONE:
        if len(data) > limit:
            raise _too_large(Codec.NONE, limit)
        return bytes(data)
    if codec == Codec.GZIP:
        return _decompress_gzip(data, limit)
    if codec == Codec.SNAPPY:
        return _decompress_snappy(data, limit)
    if codec == Codec.LZ4:
        return _decompress_lz4(data, limit)
    if codec == Codec.ZSTD:
        return _decompress_zstd(data, limit)
    raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {codec}")


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    unpacker = zlib.decompressobj(GZIP_WBITS)
    try:
        out = unpacker.decompress(data, limit + 1)
    except zlib.error as e:
        raise corrupt(Codec.GZIP, e) from None
    return _whole(Codec.GZIP, out, limit, unpacker.eof, unpacker.unused_data)


def _decompress_lz4(data: Buffer, limit: int) -> bytes:
    import lz4.frame

    unpacker = lz4.frame.LZ4FrameDecompressor()
    try:
        out: bytes = unpacker.decompress(data, max_length=limit + 1)
    except RuntimeError as e:
        raise corrupt(Codec.LZ4, e) from None
    return _whole(Codec.LZ4, out, limit, unpacker.eof, unpacker.unused_data)


def _whole(codec: Codec, out: bytes, limit: int, is_at_end: bool, left_over: bytes | None) -> bytes:
    """What was decompressed, if that is all there is, and no more than allowed."""
    if len(out) > limit:
        raise _too_large(codec, limit)
    if not is_at_end:
        raise corrupt(codec, "they end early")
    if left_over:
        raise corrupt(codec, f"{len(left_over)} bytes follow them")
    return out


def _decompress_zstd(data: Buffer, limit: int) -> bytes:
    import zstandard

    unpacker = zstandard.ZstdDecompressor(max_window_size=ZSTD_MAX_WINDOW)
    try:
        announced = zstandard.frame_content_size(data)
        if announced > limit:
            raise _too_large(Codec.ZSTD, limit)
        if announced >= 0:
            # Exactly that much is allocated, and a frame with more or less is an error.
            return unpacker.decompress(data, allow_extra_data=False)
        # Streaming writers announce no size. A truncated frame is not noticed here, but by its missing records.
        chunks = []
        size = 0
        wanted = max(_ZSTD_FIRST_READ, 4 * len(data))
        with unpacker.stream_reader(data, read_across_frames=True) as reader:
            while chunk := reader.read(min(wanted, limit + 1 - size)):
                chunks.append(chunk)
                size += len(chunk)
                if size > limit:
                    raise _too_large(Codec.ZSTD, limit)
                wanted = size
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
    except zstandard.ZstdError as e:
        raise corrupt(Codec.ZSTD, e) from None


def _compress_xerial(data: Buffer) -> bytes:
    """Snappy as Java writes it: a header, then blocks of 32 KB, each with its length in front."""
    import snappy

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    # Some readers want a block even if it is empty.
    for start in range(0, len(view) or 1, _XERIAL_BLOCK_SIZE):
        block = snappy.compress(view[start : start + _XERIAL_BLOCK_SIZE])
        parts += (_XERIAL_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, limit: int) -> bytes:
    """Decompress either framing: Java writes xerial's, librdkafka and others one raw block."""
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _unpack_snappy_block(view, limit, limit)
    end = len(view)
    pos = len(_XERIAL_HEADER)
    if end < pos:
        raise corrupt(Codec.SNAPPY, "they end in the header")
    chunks = []
    room = limit
    while pos < end:
        if end - pos < _XERIAL_LENGTH.size:
            raise corrupt(Codec.SNAPPY, "they end in a block's length")
        (length,) = _XERIAL_LENGTH.unpack_from(view, pos)
        pos += _XERIAL_LENGTH.size
        if not 0 < length <= end - pos:
            raise corrupt(Codec.SNAPPY, f"a block of {length} bytes is announced, {end - pos} are left")
        chunk = _unpack_snappy_block(view[pos : pos + length], room, limit)
        chunks.append(chunk)
        room -= len(chunk)
        pos += length
    return b"".join(chunks)


def _unpack_snappy_block(block: memoryview, room: int, limit: int) -> bytes:
    """Decompress one raw block; its announced size is checked first, since the library allocates that much."""
    import snappy

    try:
        announced, _ = decode_uvarint(block, 0)
    except DecodeError as e:
        raise corrupt(Codec.SNAPPY, e) from None
    if announced > room:
        raise _too_large(Codec.SNAPPY, limit)
    if announced > _SNAPPY_MAX_RATIO * len(block):
        raise corrupt(Codec.SNAPPY, f"{len(block)} bytes cannot become {announced}")
    try:
        out: bytes = snappy.uncompress(block)
    except snappy.UncompressError as e:
        raise corrupt(Codec.SNAPPY, e.__cause__ or e) from None
    return out


def corrupt(codec: Codec, why: object) -> ApiError:
    """The error for data that cannot be decompressed."""
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"records compressed with {codec.name.lower()} are damaged: {why}")


def _too_large(codec: Codec, limit: int) -> ApiError:
    return ApiError(
        ErrorCode.MESSAGE_TOO_LARGE, f"records compressed with {codec.name.lower()} are more than {limit} bytes"
    )
