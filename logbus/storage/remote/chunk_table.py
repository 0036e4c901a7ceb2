"""
The table of a remote segment's chunks: runs of whole batches, each with its first offset and its checksum. Pure.

A chunk is what is read from the store at least: readers find an offset's chunk without the offset index. What comes
over a network is checked, so that damage in the store is found before any record is sent.

::

    "LBCT" | version int16 | count int32 | size int64 | chunks ... | crc uint32 (CRC-32C of all before it)
    chunk: position int64 | base offset int64 | crc uint32 (CRC-32C of its bytes)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from struct import Struct

from logbus.errors import DecodeError
from logbus.records.batch import HEADER_SIZE, MAGIC, read_header
from logbus.records.checksum import Buffer, crc32c

VERSION = 1

CHUNK_BYTES = 256 * 1024
"""A chunk ends with the batch that reaches this size."""

WINDOW_BYTES = 16 * CHUNK_BYTES
"""A window is the chunks that begin within one such stretch of the segment: what is read from the store at a time."""

_HEAD = Struct(">4shiq")
_CHUNK = Struct(">qqI")
_CRC = Struct(">I")


class ChunkTable:
    """
    The chunks of a segment.

    :ivar positions: where each begins, in bytes; ``base_offsets``: its first offset; ``checksums``: CRC-32C.
    :ivar size: bytes of the segment.
    """

    __slots__ = ("base_offsets", "checksums", "positions", "size")

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.base_offsets: list[int] = []
        self.checksums: list[int] = []
        self.size = 0

    def __len__(self) -> int:
        return len(self.positions)

    def add(self, chunk: Buffer) -> None:
        """Add the next chunk: whole batches."""
        self.positions.append(self.size)
        self.base_offsets.append(read_header(chunk, 0).base_offset)
        self.checksums.append(crc32c(chunk))
        self.size += len(chunk)

    def end(self, i: int) -> int:
        """Where a chunk ends, in bytes."""
        return self.positions[i + 1] if i + 1 < len(self.positions) else self.size

    def chunk_of(self, offset: int) -> int:
        """The chunk that has an offset, or would have it; 0 if it is before all."""
        return max(0, bisect_right(self.base_offsets, offset) - 1)

    def chunk_at(self, position: int) -> int:
        """The chunk that a byte is in."""
        return max(0, bisect_right(self.positions, position) - 1)

    def window_of(self, chunk: int) -> range:
        """The chunks of the window that has a chunk."""
        number = self.positions[chunk] // WINDOW_BYTES
        first = bisect_left(self.positions, number * WINDOW_BYTES)
        return range(first, bisect_left(self.positions, (number + 1) * WINDOW_BYTES, first))

    def is_intact(self, i: int, data: Buffer) -> bool:
        """Whether the bytes of a chunk have its checksum."""
        return crc32c(data) == self.checksums[i]

    def encode(self) -> bytes:
        """The content of the object."""
        chunks = zip(self.positions, self.base_offsets, self.checksums, strict=True)
        data = _HEAD.pack(b"LBCT", VERSION, len(self), self.size) + b"".join(_CHUNK.pack(*each) for each in chunks)
        return data + _CRC.pack(crc32c(data))

    @classmethod
    def decode(cls, data: bytes) -> ChunkTable:
        """
        Read the object.

        :raise DecodeError: it is damaged, or of another version.
        """
        if len(data) < _HEAD.size + _CRC.size or data[:4] != b"LBCT":
            raise DecodeError(f"{len(data)} bytes are no table of chunks")
        if crc32c(memoryview(data)[: -_CRC.size]) != _CRC.unpack_from(data, len(data) - _CRC.size)[0]:
            raise DecodeError("the CRC of the table of chunks does not match")
        _, version, count, size = _HEAD.unpack_from(data)
        if version != VERSION or len(data) != _HEAD.size + count * _CHUNK.size + _CRC.size:
            raise DecodeError(f"the table of chunks has version {version}, and {len(data)} bytes for {count} chunks")
        table = cls()
        for position, base_offset, crc in _CHUNK.iter_unpack(memoryview(data)[_HEAD.size : -_CRC.size]):
            table.positions.append(position)
            table.base_offsets.append(base_offset)
            table.checksums.append(crc)
        table.size = size
        return table


def whole_batches(data: Buffer) -> int:
    """
    Length of the whole batches at the front of ``data``, up to the first that reaches :data:`CHUNK_BYTES`.

    :raise DecodeError: there is something else.
    """
    at, end = 0, len(data)
    while at < CHUNK_BYTES and end - at >= HEADER_SIZE:
        header = read_header(data, at)
        if header.magic != MAGIC or header.size < HEADER_SIZE:
            raise DecodeError(f"there is no record batch at {at}: magic {header.magic}")
        if header.size > end - at:
            break
        at += header.size
    return at


def first_batch_size(data: Buffer) -> int:
    """Bytes of the first batch, whose header is there."""
    return read_header(data, 0).size
