"""Scans the batch headers of a segment file, skipping the records between them where that saves reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from logbus.errors import StorageError
from logbus.records.batch import HEADER_SIZE, MAGIC, BatchHeader, read_header
from logbus.storage.istorage import IFile

CHUNK = 16 * 1024
"""Bytes read at a time at first; doubled while the scan goes on."""
MAX_CHUNK = 4 * 1024 * 1024


def scan_headers(
    file: IFile, position: int, end: int, damaged: Callable[[int, str], StorageError]
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
