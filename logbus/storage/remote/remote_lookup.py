"""
Finds offsets by timestamp in remote storage, for ListOffsets.

A generator, as the searches of :mod:`logbus.storage.offset_lookup` are: it yields None after a bit of work, and a
Deferred where something must be loaded first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

from twisted.internet.defer import Deferred

from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.model import TimestampOffset
from logbus.records.batch import BatchHeader
from logbus.records.checksum import Buffer
from logbus.records.record_stream import record_times
from logbus.storage.remote import object_names
from logbus.storage.remote.chunk_table import ChunkTable
from logbus.storage.remote.remote_log import RemoteLog
from logbus.storage.remote.remote_log_segment import EpochStarts, RemoteLogSegment
from logbus.storage.remote.remote_reader import NotFetched, RemoteReader
from logbus.storage.segments.indexes import TIME_ENTRY

T = TypeVar("T")

Search = Generator[Deferred[None] | None, None, TimestampOffset | None]

RECORDS_PER_STEP = 16
"""Records of a batch that are read between two yields."""

MOST_LOADS = 100
"""Waits for one piece of a segment; a slow store ends the search."""


def remote_offset_for_timestamp(
    remote: RemoteLog, start_offset: int, end_offset: int, epochs: EpochStarts, timestamp: int
) -> Search:
    """
    The first record from ``start_offset`` on and below ``end_offset``, in remote storage, whose timestamp is at least
    ``timestamp``.

    :raise ApiError: KAFKA_STORAGE_ERROR: not all segments are known, or one cannot be read.
    """
    remote.check_loaded()
    for segment, end in list(remote.index.chain(start_offset, epochs)):
        yield None
        if segment.start_offset >= end_offset:
            return None
        if segment.max_timestamp >= timestamp:
            found = yield from _in_segment(remote.reader, segment, max(start_offset, segment.start_offset), timestamp)
            if found is not None and found.offset < min(end, end_offset):
                return found
    return None


def remote_max_timestamp(remote: RemoteLog, start_offset: int, end_offset: int, epochs: EpochStarts) -> int:
    """
    The largest timestamp of the records that only remote storage has; −1 without any.

    :raise ApiError: KAFKA_STORAGE_ERROR: not all segments are known.
    """
    remote.check_loaded()
    chain = remote.index.chain(start_offset, epochs)
    return max((segment.max_timestamp for segment, _ in chain if segment.start_offset < end_offset), default=-1)


def _in_segment(reader: RemoteReader, segment: RemoteLogSegment, offset: int, timestamp: int) -> Search:
    times = yield from _loaded(segment, lambda: reader.small(segment, object_names.TIME_INDEX, _time_index))
    before = -1
    for at, relative in times:
        if at >= timestamp:
            break
        before = relative
    offset = max(offset, segment.start_offset + before + 1)
    table: ChunkTable = yield from _loaded(segment, lambda: reader.table(segment))
    for chunk in range(table.chunk_of(offset), len(table)):
        window = yield from _loaded(segment, lambda chunk=chunk: reader.window(segment, table, chunk))  # type: ignore[misc]
        end = table.end(chunk)
        for at, after, header in window.batches(table.positions[chunk]):
            if at >= end:
                break
            yield None
            if header.next_offset > offset and header.max_timestamp >= timestamp:
                try:
                    found = yield from _in_batch(window.read(at, after), header, offset, timestamp)
                except DecodeError as error:
                    # Checksums are not checked of what is in a directory.
                    raise ApiError(
                        ErrorCode.KAFKA_STORAGE_ERROR,
                        f"{segment.partition}: in remote storage the batch at offset {header.base_offset} is damaged: "
                        f"{error}",
                    ) from error
                if found is not None:
                    return found
    return None


def _in_batch(data: Buffer, header: BatchHeader, offset: int, timestamp: int) -> Search:
    if header.log_append_time and header.base_offset >= offset:
        return TimestampOffset(header.max_timestamp, header.base_offset, header.leader_epoch)
    seen = 0
    for record in record_times(data, header):
        if record is None:
            yield None
            continue
        if record[1] >= timestamp and record[0] >= offset:
            return TimestampOffset(record[1], record[0], header.leader_epoch)
        seen += 1
        if not seen % RECORDS_PER_STEP:
            yield None
    return None


def _loaded(segment: RemoteLogSegment, look_up: Callable[[], T | None]) -> Generator[Deferred[None] | None, None, T]:
    """Look something up, again after each wait for what must be loaded."""
    for _ in range(MOST_LOADS):
        try:
            found = look_up()
            if found is not None:
                return found
            loading: Deferred[None] | None = None
        except NotFetched as missing:
            loading = missing.load()
        yield loading
    raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{segment.partition}: remote storage is slow")


def _time_index(data: bytes) -> tuple[tuple[int, int], ...]:
    """
    Read a time index: timestamps, and offsets within the segment.

    :raise DecodeError: it is damaged.
    """
    if len(data) % TIME_ENTRY.size:
        raise DecodeError(f"{len(data)} bytes are no time index")
    entries: Iterator[tuple[int, int]] = TIME_ENTRY.iter_unpack(data)
    return tuple(entries)
