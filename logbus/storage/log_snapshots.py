"""
Snapshots: the files of all logs, as they are at one moment, under other names.

A snapshot is for a backup, which copies it while the broker goes on. Its files are other names of those of the logs
(hard links), so that neither retention nor compaction takes them away; what is appended meanwhile goes to other files.

1. Active segments that are large are closed, so that they can be linked: nobody changes a file with several names
   (see :mod:`~logbus.storage.log_linker`). 2. Compaction, repairs and truncation wait. 3. In one turn of the reactor
   the end of every log is noted: that is the moment. 4. In I/O threads, some logs at a time, closed segments are linked
   and the active ones, which are small now, copied up to the end that was noted.

Each log directory of the snapshot has a manifest, ``snapshot.jsonl``: a line of JSON about each log, with its offsets
and the sizes of its files. Indexes are in it for segments below the recovery point only: a start builds the others.

One snapshot at a time; one that nobody renews is removed after a while, and so is any at the next start.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from attrs import define, field
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from logbus.errors import ApiError, ErrorCode, LogbusError, StorageError
from logbus.storage import file_names
from logbus.storage.cleaner.log_cleaner import LogCleaner
from logbus.storage.istorage import IDisk, IOPool
from logbus.storage.log import Log
from logbus.storage.log_directory import LogDirectory
from logbus.storage.log_truncator import LogTruncator
from logbus.storage.repair.log_repairer import LogRepairer
from logbus.storage.segments.segment import Segment
from logbus.timers import Timer, Timers

MANIFEST = "snapshot.jsonl"
BACKUP = "backup.json"
"""In the directory of a backup, which ``logbus backup`` makes of snapshots."""
KEPT_SECONDS = 600
"""Seconds after which a snapshot is removed that nobody renewed, by default."""
COPIED_BYTES = 1 << 20
"""Active segments up to this size are copied."""
LATE_BYTES = 16 << 20
"""Active segments that have grown beyond this since are closed at the moment of the snapshot."""
LOGS_PER_SLICE = 50
_INDEXES = (file_names.OFFSET_INDEX, file_names.TIME_INDEX, file_names.TRANSACTION_INDEX)


class SnapshotExists(LogbusError):
    """There is a snapshot already, or one is being made."""


class NoSnapshot(LogbusError):
    """There is no snapshot of that name."""


class LogEnd(NamedTuple):
    """The end of a log at the moment of the snapshot; ``size``: of its last segment, in bytes."""

    log: Log
    segments: tuple[Segment, ...]
    size: int
    start: int
    end: int
    high_watermark: int
    recovery_point: int
    cleaned: int


class Snapshot(NamedTuple):
    """
    A snapshot.

    :ivar directories: its path in each log directory.
    :ivar logs: how many logs it has.
    """

    name: str
    directories: tuple[str, ...]
    logs: int


@define(eq=False, repr=False)
class LogSnapshots:
    """
    Makes, keeps and removes snapshots of all logs of a broker.

    :ivar current: the snapshot that there is.
    """

    _directories: Sequence[LogDirectory]
    _timers: Timers
    _cleaner: LogCleaner
    _repairer: LogRepairer
    _truncator: LogTruncator
    _high_watermark_of: Callable[[Log], int]
    _remove_later: Callable[[IDisk, list[str], int], None]
    _unique: Callable[[], uuid.UUID]
    current: Snapshot | None = field(default=None, init=False)
    _expiry: Timer | None = field(default=None, init=False)
    _turn: DeferredLock = field(factory=DeferredLock, init=False)
    _stopped: bool = field(default=False, init=False)
    _log = Logger()

    async def stop(self) -> None:
        """Begin nothing more, and give up what has begun; returns when nothing runs."""
        self._stopped = True
        async with self._turn:
            pass

    async def make(self, kept_seconds: float = KEPT_SECONDS) -> Snapshot:
        """
        Make a snapshot.

        :param kept_seconds: how long to keep it if it is not renewed.

        :raise SnapshotExists: release that one first.
        :raise ApiError: KAFKA_STORAGE_ERROR: a log directory is offline, its file system has no hard links, or no
            space; BROKER_NOT_AVAILABLE: the broker stops.
        :raise StorageError: a disk failed.
        """
        if self._stopped:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "this broker stops")
        if self._turn.locked:
            raise SnapshotExists("a snapshot is being made")
        if self.current is not None:
            raise SnapshotExists(f"the snapshot {self.current.name} was not released yet")
        async with self._turn:
            for directory in self._directories:
                if not directory.is_online:
                    raise ApiError(
                        ErrorCode.KAFKA_STORAGE_ERROR,
                        f"the log directory {directory.disk.root} is offline: a snapshot would lack its logs",
                    )
            name = file_names.snapshot_directory(self._unique())
            try:
                count = await self._make(name)
            except (ApiError, StorageError):
                self._remove(name)
                raise
            made = tuple(f"{directory.disk.root}/{name}" for directory in self._directories)
            self.current = Snapshot(name, made, count)
            self.renew(name, kept_seconds)
            self._log.info("snapshot {name}: {count} logs", name=name, count=count)
            return self.current

    def renew(self, name: str, kept_seconds: float = KEPT_SECONDS) -> None:
        """
        Keep a snapshot for this many seconds from now on.

        :raise NoSnapshot: there is none of that name, or not any more.
        """
        self._check(name)
        self._forget_expiry()
        self._expiry = self._timers.call_later(kept_seconds, lambda: self._expire(name))

    def release(self, name: str) -> None:
        """
        Remove a snapshot.

        :raise NoSnapshot: there is none of that name, or not any more.
        """
        self._check(name)
        self._forget_expiry()
        self.current = None
        self._remove(name)

    def _check(self, name: str) -> None:
        if self.current is None or self.current.name != name:
            raise NoSnapshot(f"there is no snapshot {name!r}: one that is not renewed is removed after a while")

    def _expire(self, name: str) -> None:
        self._log.warn("snapshot {name} is removed: nobody has renewed it", name=name)
        self.release(name)

    def _forget_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = None

    def _remove(self, name: str) -> None:
        for directory in self._directories:
            if directory.is_online:
                self._remove_later(directory.disk, [name], 0)

    # -- Making

    async def _make(self, name: str) -> int:
        for directory in self._directories:
            for some in _slices(list(directory.logs.values())):
                _close_large(some, COPIED_BYTES)
                # Files are created: let others work meanwhile.
                await directory.disk.submit(IOPool.BACKGROUND, directory.disk.exists, name)
        logs = [log for directory in self._directories for log in directory.logs.values()]
        async with self._repairer.paused(logs), self._cleaner.paused(logs), self._truncator.turn:
            for directory in self._directories:
                _close_large(directory.logs.values(), LATE_BYTES)
            # The moment: from here to the end of the statement nothing is appended.
            ends = [[self._end(log) for log in directory.logs.values()] for directory in self._directories]
            count = 0
            for directory, some in zip(self._directories, ends, strict=True):
                count += await self._make_in(directory, name, some)
        return count

    def _end(self, log: Log) -> LogEnd:
        last = log.segments[-1]
        return LogEnd(
            log,
            log.segments,
            last.size,
            log.log_start_offset,
            log.log_end_offset,
            self._high_watermark_of(log),
            min(log.recovery_point, last.base_offset),
            log.cleaned_end_offset,
        )

    async def _make_in(self, directory: LogDirectory, name: str, ends: Sequence[LogEnd]) -> int:
        disk, lines = directory.disk, list[bytes]()
        await disk.submit(IOPool.BACKGROUND, disk.make_directory, name)
        for some in _slices(ends):
            if self._stopped:
                raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "this broker stops")
            made: list[bytes | None] = await disk.submit(IOPool.BACKGROUND, _link_logs, disk, name, some)
            for end, line in zip(some, made, strict=True):
                if line is not None:
                    lines.append(line)
                elif self._is_here(end.log):
                    raise ApiError(
                        ErrorCode.KAFKA_STORAGE_ERROR,
                        f"{end.log.partition} changed while the snapshot was made; try again",
                    )
        await disk.submit(IOPool.BACKGROUND, disk.replace, f"{name}/{MANIFEST}", b"".join(lines), False)
        return len(lines)

    def _is_here(self, log: Log) -> bool:
        """Whether a log was not deleted meanwhile; it may be in another directory now."""
        return any(log.partition in directory.logs for directory in self._directories)


def _slices(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (items[i : i + LOGS_PER_SLICE] for i in range(0, len(items), LOGS_PER_SLICE))


def _close_large(logs: Any, size: int) -> None:
    for log in logs:
        if log.segments[-1].size > size and not log.is_closed:
            log.close_active_segment()


def _link_logs(disk: IDisk, name: str, ends: Sequence[LogEnd]) -> list[bytes | None]:
    """Runs in an I/O thread. Returns the lines of the manifest; None for a log that is gone."""
    return [_link_log(disk, f"{name}/{end.log.directory}", end) for end in ends]


def _link_log(disk: IDisk, copy: str, end: LogEnd) -> bytes | None:
    log, segments, start = end.log, end.segments, end.start
    while segments:
        disk.make_directory(copy)
        try:
            files = _link_segments(disk, copy, segments, end)
            break
        except FileNotFoundError:
            # Retention takes the oldest segments away, and only these.
            disk.remove_tree(copy)
            segments = segments[1:]
    else:
        return None
    for file in disk.names(log.directory):
        offset = file_names.base_offset_of(file, file_names.SNAPSHOT)
        if (
            (offset is not None and offset <= end.end)
            or file in (file_names.EPOCHS, file_names.PARTITION_METADATA)
            or file.endswith(file_names.PLUGIN)
        ):
            try:
                data = disk.read(f"{log.directory}/{file}")
            except FileNotFoundError:
                continue  # It was replaced by a newer one.
            disk.replace(f"{copy}/{file}", data, False)
            files[file] = len(data)
    told = {
        "directory": log.directory,
        "topic": log.partition.topic,
        "partition": log.partition.partition,
        "start_offset": max(start, segments[0].base_offset),
        "end_offset": end.end,
        "high_watermark": min(end.high_watermark, end.end),
        "recovery_point": max(end.recovery_point, segments[0].base_offset),
        "cleaned_end_offset": min(end.cleaned, end.end),
        "files": files,
    }
    return json.dumps(told).encode() + b"\n"


def _link_segments(disk: IDisk, copy: str, segments: Sequence[Segment], end: LogEnd) -> dict[str, int]:
    """:raise FileNotFoundError: a segment is gone."""
    files: dict[str, int] = {}
    for segment, following in zip(segments, (*segments[1:], None), strict=True):
        file = file_names.segment_file(segment.base_offset, file_names.LOG)
        if following is None:
            data = disk.read(segment.log.path)[: end.size]
            disk.replace(f"{copy}/{file}", data, False)
            files[file] = len(data)
            break
        disk.link(segment.log.path, f"{copy}/{file}")
        files[file] = segment.size
        for kind in _INDEXES if following.base_offset <= end.recovery_point else ():
            path, file = segment.path(kind), file_names.segment_file(segment.base_offset, kind)
            if disk.exists(path):
                disk.link(path, f"{copy}/{file}")
                files[file] = disk.size(path)
    return files
