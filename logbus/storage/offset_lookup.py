"""
Finds offsets by timestamp, for ListOffsets.

The time index gives the offset below which all timestamps are lower; from there on headers are scanned, and batches
that may contain the record are decompressed piece by piece until it is found.

A header may promise a record that is not there, and a batch may hold millions of records. So a search is a
generator that yields after each bit of work (tens of microseconds), and returns the result.
"""

from __future__ import annotations

from collections.abc import Generator

from logbus.errors import DecodeError
from logbus.model import TimestampOffset
from logbus.records.batch import BatchHeader
from logbus.records.record_stream import record_times
from logbus.storage.istorage import IFile
from logbus.storage.log import Log
from logbus.storage.segments.segment import Segment

Search = Generator[None, None, TimestampOffset | None]
"""A search for a record; returns its offset and timestamp, or None."""

RECORDS_PER_STEP = 16
"""Records of a batch that are read between two yields."""

LATEST = -1
EARLIEST = -2


def offset_for_timestamp(log: Log, timestamp: int) -> Search:
    """The first record at or behind the log's start whose timestamp is at least ``timestamp``."""
    while True:
        segments = log.segments
        for segment in segments:
            yield
            if segment not in log.segments:
                break  # Retention or the cleaner was faster: look again at what there is.
            if segment.max_timestamp >= timestamp and segment.size:
                found = yield from _in_segment(segment, timestamp, log.log_start_offset)
                if found is not None:
                    return found
        else:
            return None


def max_timestamp_offset(log: Log) -> Search:
    """The first record that has the largest timestamp."""
    latest = max(log.segments, key=lambda segment: segment.max_timestamp)
    if latest.max_timestamp < 0:
        return None
    found = yield from _in_segment(latest, latest.max_timestamp, log.log_start_offset)
    if found is not None:
        return found
    return (yield from _latest_left(log))


def _latest_left(log: Log) -> Search:
    """The search where the record with the largest timestamp was compacted away, or lies before the log's start."""
    best: tuple[int, Segment, IFile, int, BatchHeader] | None = None
    for segment in log.segments:
        if segment in log.segments:
            file = segment.log.get()
            for position, header in segment.batches(segment.find(log.log_start_offset)):
                yield
                if header.record_count and (best is None or header.max_timestamp > best[0]):
                    best = header.max_timestamp, segment, file, position, header
    if best is None:
        return None
    timestamp, segment, file, position, header = best
    return (yield from _in_batch(segment, file, position, header, timestamp, log.log_start_offset))


def _in_segment(segment: Segment, timestamp: int, start_offset: int) -> Search:
    # The segment may be removed while the search is suspended; a reference keeps its file readable.
    file = segment.log.get()
    known_lower = segment.base_offset + segment.times.before(timestamp)
    for position, header in segment.batches(segment.find(max(known_lower + 1, start_offset))):
        yield
        if header.max_timestamp >= timestamp:
            found = yield from _in_batch(segment, file, position, header, timestamp, start_offset)
            if found is not None:
                return found
    return None


def _in_batch(
    segment: Segment, file: IFile, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> Search:
    if header.log_append_time and header.base_offset >= start_offset and _is_whole(header):
        return TimestampOffset(header.max_timestamp, header.base_offset, header.leader_epoch)
    data = file.pread(header.size, position)
    seen = 0
    try:
        for record in record_times(data, header):
            if record is None:
                yield
                continue
            if record[1] >= timestamp and record[0] >= start_offset:
                return TimestampOffset(record[1], record[0], header.leader_epoch)
            seen += 1
            if not seen % RECORDS_PER_STEP:
                yield
    except DecodeError as error:
        raise segment.damaged(position, f"batch at offset {header.base_offset}: {error}") from error
    return None


def _is_whole(header: BatchHeader) -> bool:
    """Whether compaction removed nothing from the batch."""
    return header.record_count == header.last_offset_delta + 1


def offsets_before(log: Log, timestamp: int, max_offsets: int, bound: int | None = None) -> list[int]:
    """
    Base offsets of segments, as Kafka's old ``getOffsetsBefore``: of those last modified at or before ``timestamp``,
    latest first; preceded by the log's end, if that is as old.

    :param timestamp: ms since 1970; −1 all, −2 the earliest only.
    :param bound: replaces all offsets above it, once.
    """
    points = [(max(segment.base_offset, log.log_start_offset), segment.modified_ms()) for segment in log.segments]
    if log.segments[-1].size:
        points.append((log.log_end_offset, int(log.wall_clock() * 1000)))
    if timestamp == EARLIEST:
        points = points[:1]
    elif timestamp != LATEST:
        while points and points[-1][1] > timestamp:
            points.pop()
    offsets = [offset for offset, _ in reversed(points)][: max(0, max_offsets)]
    if bound is not None and offsets and offsets[0] > bound:
        return [bound, *(offset for offset in offsets if offset < bound)]
    return offsets
