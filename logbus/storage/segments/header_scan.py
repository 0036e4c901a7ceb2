"""Scans the batch headers of a segment file, skipping the records between them where that saves reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Protocol

from logbus.errors import StorageError
from logbus.records.batch import HEADER_SIZE, MAGIC, BatchHeader, read_header
from logbus.records.header import LENGTH_OVERHEAD
from logbus.storage.istorage import IFile

CHUNK = 16 * 1024
"""Bytes read at a time at first; doubled while the scan goes on."""
MAX_CHUNK = 4 * 1024 * 1024
POSITION_FIELDS = Struct(">qi4xb6xi")
"""``base_offset``, ``length``, ``magic`` and ``last_offset_delta`` of a header: what tells where the next batch is."""


class CanPread(Protocol):
    """A file that can be read."""

    def pread(self, size: int, position: int) -> bytes:
        """Read up to ``size`` bytes."""


def scan_headers(
    file: CanPread, position: int, end: int, damaged: Callable[[int, str], StorageError]
) -> Iterator[tuple[int, BatchHeader]]:
    """
    Yield position and header of each batch from ``position``, where one begins, to ``end``, in bytes.

    :param damaged: makes the error from a position and a description.
    :raises StorageError: there is no batch at a position.
    """
    chunk = CHUNK
    data, start = b"", position
    while position < end:
        at = position - start
        if len(data) - at < HEADER_SIZE:
            data, start, at = file.pread(min(chunk, end - position), position), position, 0
            chunk = min(2 * chunk, MAX_CHUNK)
            if len(data) < HEADER_SIZE:
                raise damaged(position, "the file ends in the middle of a batch header")
        header = read_header(data, at)
        if header.magic != MAGIC or header.size < HEADER_SIZE:
            raise damaged(position, f"there is no record batch (magic {header.magic})")
        if header.last_offset_delta < 0 or header.size > end - position:
            raise damaged(position, f"a batch of {header.size} bytes and {header.last_offset_delta + 1} offsets")
        yield position, header
        size = header.size
        position += size
        # Longer reads pay for small batches only: the records of large ones would be read for nothing.
        if size > CHUNK:
            chunk = CHUNK


def fitting_batches(
    file: IFile,
    start: int,
    max_bytes: int,
    limit: int,
    damaged: Callable[[int, str], StorageError],
    *,
    at_least_one: bool,
) -> tuple[int, int, memoryview | None] | None:
    """
    The whole batches from ``start``, where one begins before ``limit``, that fit into ``max_bytes``: their length, the
    offset after them, and the bytes, unless the first one is too large. None: none fits. All is got by one read.

    :param at_least_one: the first one counts however large it is.
    :raises StorageError: there is no batch at a position.
    """
    data = file.pread(min(limit - start, max_bytes + POSITION_FIELDS.size), start)
    at, last = 0, len(data) - POSITION_FIELDS.size
    next_offset = -1
    while at <= last:
        base, length, magic, delta = POSITION_FIELDS.unpack_from(data, at)
        size = length + LENGTH_OVERHEAD
        if magic != MAGIC or size < HEADER_SIZE:
            raise damaged(start + at, f"there is no record batch (magic {magic})")
        if delta < 0 or size > limit - start - at:
            raise damaged(start + at, f"a batch of {size} bytes and {delta + 1} offsets")
        if at + size > max_bytes and (at or not at_least_one):
            break
        at += size
        next_offset = base + delta + 1
    else:
        if at < min(limit - start, max_bytes):
            raise damaged(start + at, "the file ends in the middle of a batch header")
    if not at:
        return None
    return at, next_offset, memoryview(data)[:at] if at <= len(data) else None
