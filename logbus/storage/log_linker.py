"""
Hands logs to other workers of this machine without copying records.

A worker that is to follow a partition whose log a worker beside it has asks for a *linked copy*: a directory in which
the files of records are other names of those of the log (hard links). The log begins a new segment and is synced first,
so that the copy lacks only what is appended afterwards; the small files, a two-hundredth of the data, are copied. The
follower takes the directory by a rename, as its own log, and fetches the rest from the leader like any follower.

So a log is never in two hands: each worker has its own directory, in which it alone changes names. Files of records
with several names are changed by nobody: they are no active segments, :attr:`.Log.flusher` begins a new segment where
one would be, and a truncation copies such a file first (:func:`.unshare`).

A crash loses nothing, at any moment: until the follower has all records and is in sync, the log is where it was. Copies
that nobody took, or that were taken and not used yet, are removed at the next start.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from attrs import define, field, frozen
from twisted.logger import Logger

from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.model import TopicPartition
from logbus.storage import file_names
from logbus.storage.checkpoints import encode_partition_metadata
from logbus.storage.cleaner.log_cleaner import LogCleaner
from logbus.storage.istorage import IDisk, IOPool
from logbus.storage.log import Log
from logbus.storage.log_directory import LogDirectory, plugin_files, rename_for_good
from logbus.storage.log_recovery import Progress, recover_log
from logbus.storage.log_truncator import LogTruncator
from logbus.storage.producers.producer_snapshot import snapshot_path
from logbus.storage.producers.snapshot_encoder import SnapshotEncoder
from logbus.storage.repair.log_repairer import LogRepairer
from logbus.storage.segments.segment import Segment
from logbus.timers import Timers

KEPT_SECONDS = 600
"""Seconds after which a copy that nobody took is removed."""

_ATTEMPTS = 5
_SMALL = (file_names.OFFSET_INDEX, file_names.TIME_INDEX, file_names.TRANSACTION_INDEX)


@frozen
class LinkedCopy:
    """
    A linked copy of a log.

    :ivar path: its directory.
    :ivar directory: the position of the log directory that it is in, among those of the worker.
    :ivar segments: how many it has.
    :ivar start_offset: the log start offset; ``end_offset``: where the copy ends, and all before is on stable storage.
    """

    path: str
    directory: int
    segments: int
    start_offset: int
    end_offset: int
    high_watermark: int
    cleaned_end_offset: int


@define(eq=False, repr=False)
class LogLinker:
    """
    Makes linked copies of logs, and takes over those of other workers.

    :param free_name: see :meth:`.LogMover.free_name`.
    :param lost: called with a partition whose log was replaced by a copy that cannot be used, and why.
    """

    _directories: Sequence[LogDirectory]
    _timers: Timers
    _cleaner: LogCleaner
    _repairer: LogRepairer
    _truncator: LogTruncator
    _new_log: Callable[[TopicPartition, IDisk, str], Log]
    _remove_later: Callable[[IDisk, list[str], int], None]
    _unique: Callable[[], uuid.UUID]
    _free_name: Callable[[IDisk, str, TopicPartition], Awaitable[None]]
    _lost: Callable[[TopicPartition, str], object]
    _stopped: bool = field(default=False, init=False)
    _log = Logger()

    async def stop(self) -> None:
        """Begin nothing more; returns when nothing runs."""
        self._stopped = True
        async with self._truncator.turn:
            pass

    # -- For another worker

    async def copy(self, partition: TopicPartition, topic_id: uuid.UUID | None) -> LinkedCopy:
        """
        Make a linked copy of a log.

        :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION: there is no such log; INCONSISTENT_TOPIC_ID; KAFKA_STORAGE_ERROR:
            the file system has no hard links, or no space; OFFSET_NOT_AVAILABLE: there is nothing to link.
        """
        directory, log = self._find(partition)
        if log.topic_id != topic_id:
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID, f"the log of {partition} has the topic id {log.topic_id}")
        async with self._repairer.paused([log]), self._cleaner.paused([log]):
            for attempt in range(_ATTEMPTS):
                async with self._truncator.turn:
                    if self._find(partition)[1] is not log:
                        break
                    try:
                        return await self._copy(directory, log)
                    except FileNotFoundError:
                        # Retention was faster. Only that removes segments now.
                        self._log.debug("{partition} lost segments while it was linked", partition=partition, n=attempt)
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} changed while it was linked")

    def _find(self, partition: TopicPartition) -> tuple[LogDirectory, Log]:
        if self._stopped:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "this broker stops")
        for directory in self._directories:
            log = directory.logs.get(partition)
            if log is not None and directory.is_online:
                return directory, log
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} is not on this broker")

    async def _copy(self, directory: LogDirectory, log: Log) -> LinkedCopy:
        """
        Make a copy, while nothing but appends and retention changes the log.

        :raise FileNotFoundError: retention has removed segments meanwhile.
        """
        disk, partition = log.disk, log.partition
        if log.config.remote_storage_enable:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition} has segments in remote storage")
        if not any(segment.size for segment in log.segments):
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition} is empty")
        log.roll()
        end = log.log_end_offset
        producers = SnapshotEncoder(log.producers)
        small = {file_names.EPOCHS: log.epochs.encode()} | plugin_files(log)
        small[snapshot_path("", end)[1:]] = await producers.finish(
            lambda: disk.submit(IOPool.READ, disk.exists, log.directory)
        )
        if log.topic_id is not None:
            small[file_names.PARTITION_METADATA] = encode_partition_metadata(log.topic_id)
        await log.flusher.write_back_and_wait()
        await log.flush()
        linked = [segment for segment in log.segments if segment.base_offset < end]
        if not linked:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition} is empty")
        name = file_names.linked_directory(partition, self._unique())
        try:
            await disk.submit(IOPool.BACKGROUND, _link, disk, linked, name, small)
        except (FileNotFoundError, ApiError):
            self._expire(disk, name)
            raise
        self._timers.call_later(KEPT_SECONDS, lambda: self._expire(disk, name))
        return LinkedCopy(
            f"{disk.root}/{name}",
            self._directories.index(directory),
            len(linked),
            log.log_start_offset,
            end,
            min(log.high_watermark, end),
            min(log.cleaned_end_offset, end),
        )

    def _expire(self, disk: IDisk, name: str) -> None:
        """Remove a copy that nobody took; at once it has a name under which nobody looks for it."""
        if disk.failure is None:
            gone = name.removesuffix(file_names.LINKED_SUFFIX) + file_names.DELETE_SUFFIX
            taking = disk.submit(IOPool.BACKGROUND, disk.take, f"{disk.root}/{name}", gone)
            taking.addCallbacks(
                lambda _: self._remove_later(disk, [gone], 0), lambda failure: failure.trap(ApiError, StorageError)
            )

    # -- From another worker

    async def adopt(self, partition: TopicPartition, copy: LinkedCopy) -> Log:
        """
        Replace an empty log by another worker's linked copy of it. Nothing else may change the log meanwhile.

        :raise ApiError: the log is not empty, or gone, or the copy is: all is as it was.
        :raise StorageError: a disk failed.
        """
        async with self._truncator.turn:
            return await self._adopt(partition, copy)

    async def _adopt(self, partition: TopicPartition, copy: LinkedCopy) -> Log:
        origin, blank = self._find(partition)
        directory = self._directories[copy.directory] if copy.directory < len(self._directories) else origin
        if not is_blank(blank):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"the log of {partition} is not empty any more")
        name, disk = file_names.linked_directory(partition, self._unique()), directory.disk
        await disk.submit(IOPool.BACKGROUND, _take, disk, copy, name)
        await blank.close()
        gone = file_names.deleted_directory(partition, self._unique())
        await blank.disk.submit(IOPool.BACKGROUND, rename_for_good, blank.disk, blank.directory, gone)
        self._remove_later(blank.disk, [gone], 0)
        del origin.logs[partition]
        log = self._new_log(partition, disk, file_names.partition_directory(partition))
        log.config, log.topic_id = blank.config, blank.topic_id
        place = name
        try:
            await self._free_name(disk, log.directory, partition)
            await directory.forget(partition)
            await disk.submit(IOPool.BACKGROUND, rename_for_good, disk, name, log.directory)
            place = log.directory
            await recover_log(log, copy.end_offset, copy.start_offset, Progress(self._timers.clock.seconds))
        except (ApiError, StorageError) as error:
            await self._put_away(disk, place, partition)
            self._lost(partition, str(error))
            raise
        log.high_watermark = max(log.log_start_offset, min(copy.high_watermark, log.log_end_offset))
        log.cleaned_end_offset = min(copy.cleaned_end_offset, log.log_end_offset)
        directory.logs[partition] = log
        try:
            # So that a crash soon afterwards does not make the next start read all of it.
            await directory.checkpoint_recovery_points()
            await directory.checkpoint_start_offsets()
            await directory.checkpoint_cleaned_offsets()
        except ApiError as error:
            self._log.warn("{root}: checkpoints cannot be written: {error}", root=disk.root, error=error)
        self._log.info(
            "{partition} is a linked copy of {path}: {size} bytes up to offset {end}",
            partition=partition, path=copy.path, size=log.size, end=log.log_end_offset,
        )  # fmt: skip
        return log

    async def _put_away(self, disk: IDisk, place: str, partition: TopicPartition) -> None:
        """
        Remove a copy that cannot be used: a new log in its place would be written into the files of the other worker.
        """
        gone = file_names.deleted_directory(partition, self._unique())
        with suppress(ApiError, StorageError):  # Whoever makes a log there sets aside what is left.
            await disk.submit(IOPool.BACKGROUND, rename_for_good, disk, place, gone)
            self._remove_later(disk, [gone], 0)


def is_blank(log: Log) -> bool:
    """Whether nothing was ever in a log."""
    return log.log_end_offset == 0


def _link(disk: IDisk, segments: Sequence[Segment], name: str, small: dict[str, bytes]) -> None:
    """Runs in an I/O thread."""
    disk.make_directory(name)
    for segment in segments:
        path = segment.path(file_names.LOG)
        disk.link(path, f"{name}/{file_names.segment_file(segment.base_offset, file_names.LOG)}")
        for kind in _SMALL:
            if disk.exists(path := segment.path(kind)):
                data = disk.read(path)
                disk.replace(f"{name}/{file_names.segment_file(segment.base_offset, kind)}", data, True, False)
    for file, data in small.items():
        disk.replace(f"{name}/{file}", data, True, False)
    disk.sync_directory(name)
    disk.sync_directory("")


def _take(disk: IDisk, copy: LinkedCopy, name: str) -> None:
    """
    Runs in an I/O thread.

    :raise ApiError: the copy is gone, or not what it was.
    """
    disk.take(copy.path, name)
    found = sum(1 for each in disk.names(name) if each.endswith(file_names.LOG))
    if found != copy.segments:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{copy.path} has {found} segments of {copy.segments}")
