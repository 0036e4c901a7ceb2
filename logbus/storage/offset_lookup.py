"""
Finds offsets by timestamp, for ListOffsets.

The time index gives the offset below which all timestamps are lower; from there on headers are scanned, and batches
that may contain the record are decompressed piece by piece until it is found.

A header may promise a record that is not there, and a batch may hold millions of records. So a search is a
generator that yields after each bit of work (tens of microseconds), and returns the result. Where it would wait for the
device it yields a Deferred to be waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from twisted.internet.defer import Deferred

from logbus.errors import DecodeError
from logbus.model import TimestampOffset
from logbus.records.batch import BatchHeader
from logbus.records.record_stream import record_times
from logbus.storage.filesystem.cached_only import MOST_LOADS, CachedOnly
from logbus.storage.istorage import IFile, NotCached
from logbus.storage.log import Log
from logbus.storage.remote.remote_lookup import remote_max_timestamp, remote_offset_for_timestamp
from logbus.storage.segments.segment import Segment

Search = Generator[Deferred[None] | None, None, TimestampOffset | None]
"""A search for a record; yields what is to be waited for, or None; returns its offset and timestamp, or None."""

UNITS_PER_STEP = 4
"""Cost of the work between two yields, in units of a time slice: it takes some 20 microseconds."""

RECORDS_PER_STEP = 16
"""Records of a batch that are read between two yields."""

LATEST = -1
EARLIEST = -2


class _Removed(Exception):
    """A segment was removed while something was loaded from it."""


def offset_for_timestamp(log: Log, timestamp: int) -> Search:
    """The first record at or behind the log's start whose timestamp is at least ``timestamp``."""
    searched = 0
    while True:
        segments = log.segments
        start, local = max(searched, log.log_start_offset), segments[0].base_offset
        if log.remote is not None and start < local:
            epochs = tuple(log.epochs)
            found = yield from remote_offset_for_timestamp(log.remote, start, local, epochs, timestamp)
            if found is not None:
                return found
            # Local retention may have given up more meanwhile.
            searched = local
            continue
        for segment in segments:
            yield None
            if segment not in log.segments:
                break  # Retention or the cleaner was faster: look again at what there is.
            if segment.max_timestamp >= timestamp and segment.size:
                try:
                    found = yield from _in_segment(log, segment, timestamp)
                except _Removed:
                    break
                if found is not None:
                    return found
        else:
            return None


def max_timestamp_offset(log: Log) -> Search:
    """The first record that has the largest timestamp."""
    local = log.segments[0].base_offset
    if log.remote is not None and log.log_start_offset < local:
        epochs = tuple(log.epochs)
        largest = remote_max_timestamp(log.remote, log.log_start_offset, local, epochs)
        if largest >= max(segment.max_timestamp for segment in log.segments):
            found = yield from remote_offset_for_timestamp(log.remote, log.log_start_offset, local, epochs, largest)
            if found is not None:
                return found
    while True:
        latest = max(log.segments, key=lambda segment: segment.max_timestamp)
        if latest.max_timestamp < 0:
            return None
        try:
            found = yield from _in_segment(log, latest, latest.max_timestamp)
            return found if found is not None else (yield from _latest_left(log))
        except _Removed:
            pass


def _latest_left(log: Log) -> Search:
    """The search where the record with the largest timestamp was compacted away, or lies before the log's start."""
    best: tuple[int, Segment, IFile, int, BatchHeader] | None = None
    for segment in log.segments:
        if segment in log.segments:
            file = segment.log.get()
            start = yield from _cached(log, segment, lambda segment: segment.find(log.log_start_offset))
            for found in _batches(log, segment, start):
                if not isinstance(found, tuple):
                    yield found
                    continue
                position, header = found
                yield None
                if header.record_count and (best is None or header.max_timestamp > best[0]):
                    best = header.max_timestamp, segment, file, position, header
    if best is None:
        return None
    timestamp, segment, file, position, header = best
    return (yield from _in_batch(segment, file, position, header, timestamp, log.log_start_offset))


def _in_segment(log: Log, segment: Segment, timestamp: int) -> Search:
    # The segment may be removed while the search is suspended; a reference keeps its file readable.
    file, start = segment.log.get(), log.log_start_offset
    before = yield from _cached(log, segment, lambda segment: segment.times.before(timestamp))
    least = max(segment.base_offset + before + 1, start)
    position = yield from _cached(log, segment, lambda segment: segment.find(least))
    for found in _batches(log, segment, position):
        if not isinstance(found, tuple):
            yield found
            continue
        position, header = found
        yield None
        if header.max_timestamp >= timestamp:
            record = yield from _in_batch(segment, file, position, header, timestamp, start)
            if record is not None:
                return record
    return None


def _cached(log: Log, segment: Segment, look_up: Callable[[Segment], int]) -> Generator[Deferred[None], None, int]:
    """
    Call ``look_up``; yields what is to be waited for before it is called again.

    :raises _Removed: the log has the segment no more.
    """
    for _ in range(MOST_LOADS):
        try:
            with CachedOnly(segment.disk):
                return look_up(segment)
        except NotCached as cold:
            loading = cold.load()
        yield loading
        if segment not in log.segments:
            raise _Removed
    return look_up(segment)


def _batches(log: Log, segment: Segment, position: int) -> Iterator[tuple[int, BatchHeader] | Deferred[None]]:
    """
    The batches from ``position`` on, as :meth:`.Segment.batches`, and what is to be waited for before the next one.

    :raises _Removed: the log has the segment no more, and the rest is not cached.
    """
    disk, scan, loads = segment.disk, segment.batches(position), 0
    while True:
        try:
            with CachedOnly(disk, on=loads < MOST_LOADS):
                found = next(scan, None)
        except NotCached as cold:
            loads += 1
            loading = cold.load()
        else:
            if found is None:
                return
            yield found
            position, loads = found[0] + found[1].size, 0
            continue
        yield loading
        if segment not in log.segments:
            raise _Removed
        scan = segment.batches(position)


def _in_batch(
    segment: Segment, file: IFile, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> Search:
    if header.log_append_time and header.base_offset >= start_offset and _is_whole(header):
        return TimestampOffset(header.max_timestamp, header.base_offset, header.leader_epoch)
    if (loading := file.read_ahead(position, header.size)) is not None:
        yield loading
    data = file.pread(header.size, position)
    seen = 0
    try:
        for record in record_times(data, header):
            if record is None:
                yield None
                continue
            if record[1] >= timestamp and record[0] >= start_offset:
                return TimestampOffset(record[1], record[0], header.leader_epoch)
            seen += 1
            if not seen % RECORDS_PER_STEP:
                yield None
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
    if log.log_start_offset < points[0][0]:
        # What is before is in remote storage.
        points.insert(0, (log.log_start_offset, points[0][1]))
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
