"""
Where in a log is that time? The questions behind ListOffsets.

The time index tells up to where all timestamps are lower; from there on headers are looked at, and the one batch that
may have the record is decoded, decompressed within bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logbus.errors import DecodeError, StorageError
from logbus.model import TimestampOffset
from logbus.records.batch import BatchHeader, decode_batch

if TYPE_CHECKING:
    from logbus.storage.log import Log
    from logbus.storage.segment import Segment

LATEST = -1
EARLIEST = -2


def offset_for_timestamp(log: Log, timestamp: int) -> TimestampOffset | None:
    """The first record at or behind the log's start whose timestamp is at least ``timestamp``."""
    for segment in log.segments:
        if segment.max_timestamp >= timestamp and segment.size:
            found = _in_segment(segment, timestamp, log.log_start_offset)
            if found is not None:
                return found
    return None


def max_timestamp_offset(log: Log) -> TimestampOffset | None:
    """The first record that has the largest timestamp."""
    latest = max(log.segments, key=lambda segment: segment.max_timestamp)
    if latest.max_timestamp < 0:
        return None
    found = _in_segment(latest, latest.max_timestamp, log.log_start_offset)
    return found if found is not None else _latest_left(log)


def _latest_left(log: Log) -> TimestampOffset | None:
    """The same where the record that had the largest timestamp was compacted away, or lies before the log's start."""
    best: tuple[int, Segment, int, BatchHeader] | None = None
    for segment in log.segments:
        for position, header in segment.batches(segment.find(log.log_start_offset)):
            if header.record_count and (best is None or header.max_timestamp > best[0]):
                best = header.max_timestamp, segment, position, header
    return None if best is None else _in_batch(best[1], best[2], best[3], best[0], log.log_start_offset)


def _in_segment(segment: Segment, timestamp: int, start_offset: int) -> TimestampOffset | None:
    known_lower = segment.base_offset + segment.times.before(timestamp)
    for position, header in segment.batches(segment.find(max(known_lower + 1, start_offset))):
        if header.max_timestamp >= timestamp:
            found = _in_batch(segment, position, header, timestamp, start_offset)
            if found is not None:
                return found
    return None


def _in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampOffset | None:
    if header.log_append_time and header.base_offset >= start_offset and _is_whole(header):
        return TimestampOffset(header.max_timestamp, header.base_offset, header.leader_epoch)
    data = segment.log.get().pread(header.size, position)
    try:
        records = decode_batch(data, header=header)
    except DecodeError as error:
        raise StorageError(f"{segment.log.path}: batch at offset {header.base_offset}: {error}") from error
    for record in records:
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
    return None


def _is_whole(header: BatchHeader) -> bool:
    """Whether compaction took nothing out of the batch."""
    return header.record_count == header.last_offset_delta + 1


def offsets_before(log: Log, timestamp: int, max_offsets: int, bound: int | None = None) -> list[int]:
    """
    Offsets at which segments begin, as ``getOffsetsBefore`` of old answered: those of segments last modified at or
    before ``timestamp``, latest first; and before them the log's end, if that, too, is that old.

    :param timestamp: ms since 1970; −1 all, −2 the earliest only.
    :param bound: stands in for all offsets above it, once.
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
