"""Checks a segment's indexes against its batches: a few reads that detect a stale index."""

from __future__ import annotations

from logbus.errors import StorageError
from logbus.storage.segments.indexed_file import IndexedFile
from logbus.storage.segments.indexes import MAX_RELATIVE_OFFSET, IndexCorrupt, OffsetIndex

LAST_INTERVAL = 256 * 1024
"""Upper bound of bytes behind the last entry. A rebuilt index has an entry every 4 KB."""


def check_times(file: IndexedFile) -> None:
    """
    Check the time index of a sealed segment: its last entry must name the largest timestamp.

    Reads only the batch that the entry refers to, and the last one indexed.

    :raises IndexCorrupt: it does not.
    """
    if not file.size:
        return
    last = file.times.last
    indexed = file.offsets.floor(MAX_RELATIVE_OFFSET)[1]
    latest = -1
    try:
        for position, header in file.batches(indexed):
            if position - indexed > LAST_INTERVAL:
                raise IndexCorrupt(f"its last entry points at byte {indexed} of {file.size}")
            latest = max(latest, header.max_timestamp)
    except StorageError as problem:
        if not indexed:
            raise
        raise IndexCorrupt(f"its last entry points at byte {indexed}, where no batch begins") from problem
    if last is None:
        if latest >= 0:
            raise IndexCorrupt(f"it has no entry for timestamp {latest}")
        return
    timestamp, relative = last
    _, found = next(file.batches(file.search(file.base_offset + relative)), (0, None))
    if found is None or found.max_timestamp != timestamp or latest > timestamp:
        raise IndexCorrupt(f"its last entry ({timestamp}, {relative}) does not fit the batches")


def trusted_entry(file: IndexedFile, offsets: OffsetIndex, offset: int) -> tuple[int, int]:
    """
    The entry to start from for ``offset``, if it matches the batch at its position.

    :raises IndexCorrupt: it does not.
    """
    relative, position = offsets.floor(offset - file.base_offset)
    if relative >= 0:
        problem = IndexCorrupt(f"entry ({relative}, {position}) does not fit the batch there")
        try:
            _, header = next(file.batches(position))
        except StorageError:
            raise problem from None
        if header.last_offset - file.base_offset != relative:
            raise problem
    return relative, position
