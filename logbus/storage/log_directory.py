"""
One log directory: its lock, its checkpoints, and opening and closing of its logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from attrs import Factory, define, evolve, field
from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger

from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, StorageError
from logbus.model import TopicPartition
from logbus.storage import checkpoints, file_names
from logbus.storage.checkpoints import MetaProperties, StrayLog
from logbus.storage.clean_shutdown import entry_of, restore, take_marker
from logbus.storage.filesystem.bounded_work import BoundedWork
from logbus.storage.group_commit import GroupCommit
from logbus.storage.istorage import IDisk, IOPool
from logbus.storage.log import Log
from logbus.storage.log_recovery import Progress, recover_log

_Note = TypeVar("_Note")

_LOGS_PER_TURN = 200
"""Logs opened by the marker, or described in it, in one turn of the reactor."""

_SYNCED_AT_A_TIME = 64
"""Logs that are flushed when the directory is closed: more would have more files open, and begin in one turn."""


class LogOffsets(NamedTuple):
    """
    What the checkpoints say of a log.

    :ivar start: None: nothing, it begins with its first segment.
    :ivar cleaned: the offset up to which it was compacted.
    """

    start: int | None
    recovery_point: int
    high_watermark: int
    cleaned: int


@define(eq=False, repr=False)
class LogDirectory:
    """
    One log directory.

    :ivar logs: by partition.
    :ivar futures: future logs (KIP-113) by partition: copies that will replace logs in other directories.
    :ivar strays: the logs that were set aside, by the names of their directories; None: nothing else is known of it.
    :ivar interrupted_moves: partitions whose copying to this directory was interrupted when the broker stopped.
    :ivar ignored: names of logs that must not be opened.
    :ivar given_up: those of them that are to be removed.
    :ivar meta: the content of ``meta.properties``.
    :ivar is_new: it was never in use; if it replaces another directory, the logs of that are lost.
    :ivar unclean_shutdown: it was not closed cleanly, so other replicas may have more records.
    :ivar shortened: number of logs that ended below their own checkpoints when they were opened: committed or synced
        records were lost.
    :ivar unsynced_lost: it was not closed cleanly, and the machine was restarted since: unsynced data is lost.
    """

    disk: IDisk
    _new_log: Callable[[TopicPartition, IDisk, str], Log]
    _seconds: Callable[[], float]
    logs: dict[TopicPartition, Log] = field(factory=dict, init=False)
    futures: dict[TopicPartition, Log] = field(factory=dict, init=False)
    strays: dict[str, StrayLog | None] = field(factory=dict, init=False)
    interrupted_moves: list[TopicPartition] = field(factory=list, init=False)
    ignored: set[str] = field(factory=set, init=False)
    leftovers: list[str] = field(factory=list, init=False)
    given_up: list[tuple[TopicPartition, str]] = field(factory=list, init=False)
    meta: MetaProperties | None = field(default=None, init=False)
    is_new: bool = field(default=False, init=False)
    unclean_shutdown: bool = field(default=False, init=False)
    shortened: int = field(default=0, init=False)
    unsynced_lost: bool = field(default=False, init=False)
    _loss_known: bool = field(default=False, init=False)
    # The offsets in each of the checkpoints, by its name.
    _written: dict[str, dict[TopicPartition, int]] = field(factory=dict, init=False)
    _saving_starts: GroupCommit = field(
        default=Factory(lambda self: GroupCommit(self.checkpoint_start_offsets), takes_self=True), init=False
    )
    _log = Logger()

    @property
    def is_online(self) -> bool:
        """Whether the directory works."""
        return self.disk.failure is None

    # -- Opening

    def lock(self) -> None:
        """
        Lock the directory after checking that it belongs to a broker. Changes nothing on disk if it does not.

        :raises ConfigError: another broker holds it, or it belongs to another program, or has a newer format.
        """
        found = self.disk.names("")
        if checkpoints.META_PROPERTIES in found:
            self.meta = MetaProperties.decode(self.disk.read(checkpoints.META_PROPERTIES), self.disk.root)
        self.disk.lock()

    async def open(self) -> None:
        """
        Open all logs: by the marker of a clean shutdown, or by recovery.

        :raises StorageError: the disk failed, and is offline.
        """
        found = await take_marker(self.disk)
        marker = found or {}
        recovery_points = self._read_offsets(checkpoints.RECOVERY_POINTS)
        start_offsets = self._read_offsets(checkpoints.LOG_START_OFFSETS)
        high_watermarks = self._read_offsets(checkpoints.HIGH_WATERMARKS)
        cleaned_offsets = self._read_offsets(checkpoints.CLEANED_OFFSETS)
        progress = Progress(self._seconds)
        count = recovered = 0
        for name in self.disk.names(""):
            if name.endswith(file_names.DELETE_SUFFIX) or file_names.is_snapshot_directory(name):
                self.leftovers.append(name)
                continue
            if name.endswith(file_names.LINKED_SUFFIX):
                # Another worker could be about to take it: it must not find half of it.
                self.leftovers.append(name.removesuffix(file_names.LINKED_SUFFIX) + file_names.DELETE_SUFFIX)
                self.disk.rename(name, self.leftovers[-1])
                continue
            if name.endswith(file_names.STRAY_SUFFIX):
                self.strays[name] = self._note(f"{name}/{file_names.STRAY}", StrayLog.decode)
                continue
            if name.endswith(file_names.FUTURE_SUFFIX):
                self.leftovers.append(name)
                copied = file_names.future_partition_of(name)
                if copied is not None:
                    self.interrupted_moves.append(copied)
                continue
            partition = file_names.partition_of(name)
            if partition is None or name in self.ignored:
                continue
            offsets = LogOffsets(
                start_offsets.get(partition),
                recovery_points.get(partition, 0),
                high_watermarks.get(partition, 0),
                cleaned_offsets.get(partition, 0),
            )
            recovered += await self.open_log(partition, name, offsets, progress, marker.get(name))
            count += 1
            if count % _LOGS_PER_TURN == 0:
                await self._next_turn()
        if self.shortened:
            # After another crash, records that replace the lost ones would be taken for committed and synced, or for
            # deleted.
            try:
                await self.checkpoint_recovery_points()
                await self.checkpoint_high_watermarks()
                await self.checkpoint_start_offsets()
            except ApiError as error:
                self._log.warn("{root}: checkpoints cannot be written: {error}", root=self.disk.root, error=error)
        self._detect_losses(was_closed=found is not None and not recovered)
        self._log.info(
            "{root}: {count} logs opened, {recovered} of them recovered by scanning {scanned} bytes",
            root=self.disk.root, count=count, recovered=recovered, scanned=progress.scanned,
        )  # fmt: skip

    async def open_log(
        self,
        partition: TopicPartition,
        name: str,
        offsets: LogOffsets,
        progress: Progress,
        entry: Mapping[str, Any] | None = None,
    ) -> bool:
        """
        Open the log in the directory ``name``.

        :param entry: what the marker of a clean shutdown says of it.
        :returns: whether it was recovered, as the marker says nothing, or something else.
        :raises StorageError: the disk failed, and is offline.
        """
        log = self._new_log(partition, self.disk, name)
        is_recovered = entry is None or not restore(log, entry, offsets.start)
        if is_recovered:
            metadata = f"{name}/{file_names.PARTITION_METADATA}"
            log.topic_id = self._note(metadata, checkpoints.decode_partition_metadata)
            await recover_log(
                log, offsets.recovery_point, offsets.start or 0, progress, is_start_saved=offsets.start is not None
            )
        log.saved_start_offset = offsets.start
        log.checkpointed_recovery_point = offsets.recovery_point
        if offsets.start is not None and offsets.start > log.log_end_offset:
            log.saved_start_offset = log.log_end_offset
        # What is deleted was committed.
        self._check_end(log, max(offsets.high_watermark, offsets.start or 0), offsets.recovery_point)
        log.high_watermark = max(log.log_start_offset, min(offsets.high_watermark, log.log_end_offset))
        # A high watermark beyond the log's end is another log's, or older than a truncation.
        log.cleaned_end_offset = offsets.cleaned if offsets.cleaned <= log.log_end_offset else 0
        self.logs[partition] = log
        return is_recovered

    def _check_end(self, log: Log, committed: int, synced: int) -> None:
        """Log a warning if a log ends below its own checkpoints: it lost records."""
        end = log.log_end_offset
        if end >= max(committed, synced):
            return
        self.shortened += 1
        self._log.error(
            "{partition}: the log in {root} ends at offset {end}, but was committed up to {committed} and synced up to "
            "{synced}, by its checkpoints: records were lost. Replicas that have them lead before this one.",
            partition=log.partition, root=self.disk.root, end=end, committed=committed, synced=synced,
        )  # fmt: skip

    def _detect_losses(self, *, was_closed: bool) -> None:
        try:
            seen = self.disk.read(checkpoints.BOOT_ID)
        except FileNotFoundError:
            self.is_new = True
            return
        boot_id = self.disk.boot_id
        self.unclean_shutdown = not was_closed
        self.unsynced_lost = not was_closed and (boot_id is None or seen != boot_id.encode())

    def remember_boot(self) -> Deferred[None]:
        """
        Write down the machine's boot id. Only once the losses since the last boot are recorded elsewhere: they cannot
        be detected afterwards.
        """

        def remembered(_: object) -> None:
            self._loss_known = True

        boot_id = (self.disk.boot_id or "").encode()
        return self.disk.submit(IOPool.BACKGROUND, self.disk.replace, checkpoints.BOOT_ID, boot_id).addCallback(
            remembered
        )

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            found = self._written[name] = checkpoints.decode_offsets(self.disk.read(name))
            return found
        except FileNotFoundError:
            return {}
        except ValueError as problem:
            self._log.error("{root}/{name} is damaged, and ignored: {problem}", root=self.disk.root, name=name,
                            problem=str(problem))  # fmt: skip
            return {}

    def _note(self, path: str, decode: Callable[[bytes], _Note]) -> _Note | None:
        """The content of a small file of a log; None without it, or if it is damaged."""
        try:
            return decode(self.disk.read(path))
        except FileNotFoundError:
            return None
        except ValueError as problem:
            self._log.warn("{root}/{path} is ignored: {problem}", root=self.disk.root, path=path, problem=str(problem))
            return None

    # -- Checkpoints

    def checkpoint_recovery_points(self) -> Deferred[None]:
        """Checkpoint the offset from which each log must be scanned after a crash."""
        points = {partition: log.recovery_point for partition, log in self.logs.items()}

        def done(_: None) -> None:
            for partition, point in points.items():
                log = self.logs.get(partition)
                if log is not None:
                    log.checkpointed_recovery_point = point

        # Until the new content is durable, a crash may leave the larger of both.
        for partition, point in points.items():
            log = self.logs[partition]
            log.checkpointed_recovery_point = max(log.checkpointed_recovery_point, point)
        return self._write_offsets(checkpoints.RECOVERY_POINTS, points).addCallback(done)

    def _start_offsets(self) -> dict[TopicPartition, int]:
        """
        The log start offsets that are not the base offset of the log's first segment, or need not stay that, since
        segments go to remote storage.
        """
        found = {}
        for partition, log in (*self.futures.items(), *self.logs.items()):
            start = log.log_start_offset if log.saved_start_offset is None else log.saved_start_offset
            if start != log.segments[0].base_offset or log.config.remote_storage_enable:
                found[partition] = start
        return found

    def starts_moved(self) -> bool:
        """Whether the checkpoint of log start offsets is out of date."""
        return self._start_offsets() != self._written.get(checkpoints.LOG_START_OFFSETS, {})

    def checkpoint_start_offsets(self) -> Deferred[None]:
        """Checkpoint the log start offsets."""
        tiered = [log for log in self.logs.values() if log.config.remote_storage_enable]

        def done(_: None) -> None:
            for log in tiered:
                log.is_start_saved = True

        return self._write_offsets(checkpoints.LOG_START_OFFSETS, self._start_offsets()).addCallback(done)

    def save_start_offsets(self) -> Deferred[None]:
        """
        Fires when the present log start offsets are on stable storage. Those who ask while some are being written share
        the next write: each has a line for every log whose records were deleted.
        """
        return self._saving_starts.wait()

    def checkpoint_high_watermarks(self) -> Deferred[None]:
        """Checkpoint the high watermarks."""
        marks = {partition: log.high_watermark for partition, log in (*self.futures.items(), *self.logs.items())}
        return self._write_offsets(checkpoints.HIGH_WATERMARKS, marks)

    def checkpoint_cleaned_offsets(self) -> Deferred[None]:
        """Checkpoint the offsets up to which logs were compacted."""
        cleaned = {tp: log.cleaned_end_offset for tp, log in self.logs.items() if log.cleaned_end_offset > 0}
        return self._write_offsets(checkpoints.CLEANED_OFFSETS, cleaned)

    async def forget(self, partition: TopicPartition) -> None:
        """
        Take what is left of a partition's former log out of the checkpoints, durably, before it gets another one here:
        after a crash the new log would begin where the old one did, and be trusted as far as that was synced.

        :raise ApiError: there is no space.
        :raise StorageError: the disk failed, and is offline.
        """
        for name, checkpoint in (
            (checkpoints.RECOVERY_POINTS, self.checkpoint_recovery_points),
            (checkpoints.LOG_START_OFFSETS, self.checkpoint_start_offsets),
            (checkpoints.HIGH_WATERMARKS, self.checkpoint_high_watermarks),
            (checkpoints.CLEANED_OFFSETS, self.checkpoint_cleaned_offsets),
        ):
            if partition in self._written.get(name, ()):
                await checkpoint()

    def _write_offsets(self, name: str, offsets: dict[TopicPartition, int]) -> Deferred[None]:
        def done(_: None) -> None:
            self._written[name] = offsets

        data = checkpoints.encode_offsets(offsets)
        return self.disk.submit(IOPool.BACKGROUND, self.disk.replace, name, data).addCallback(done)

    async def claim(self, meta: MetaProperties) -> None:
        """Write ``meta.properties``, unless it says the same."""
        if self.meta != meta:
            await self.disk.submit(IOPool.BACKGROUND, self.disk.replace, checkpoints.META_PROPERTIES, meta.encode())
            self.meta = meta

    async def note_directories(self, count: int) -> None:
        """Note how many log directories the broker has."""
        if self.meta is not None:
            await self.claim(evolve(self.meta, directories=count))

    # -- Closing

    async def close(self) -> None:
        """Sync everything, and write the marker, if the disk works; unlock the directory in any case."""
        bug: Exception | None = None
        try:
            if self.is_online:
                await self._close_logs()
        except (ApiError, StorageError) as error:
            self._log.error("{root} was not closed cleanly: {error}", root=self.disk.root, error=str(error))
        except Exception as error:
            bug = error
        for count, log in enumerate(list(self.logs.values()), 1):
            await log.close()
            if count % _LOGS_PER_TURN == 0:
                with suppress(ApiError, StorageError):
                    await self._next_turn()
        await self.disk.close()
        if bug is not None:
            raise bug

    async def _close_logs(self) -> None:
        # Several logs are synced at a time, each with files open; write-backs run one after the other. The disk reports
        # failures.
        syncing = BoundedWork(_SYNCED_AT_A_TIME)
        unsynced = [log for log in self.logs.values() if log.flushed_end_offset < log.log_end_offset]
        await DeferredList([syncing.run(partial(_flush, log)) for log in unsynced], consumeErrors=True)
        entries = []
        for count, log in enumerate(list(self.logs.values()), 1):
            if log.is_active or log.flushed_end_offset < log.log_end_offset:
                await log.flusher.write_back_and_wait()
                log.segments[-1].seal()
                await log.close()
            if log.flushed_end_offset == log.log_end_offset:
                entries.append(checkpoints.encode_marker_entry(log.directory, entry_of(log)))
            if count % _LOGS_PER_TURN == 0:
                await self._next_turn()
        await self.checkpoint_recovery_points()
        await self.checkpoint_start_offsets()
        await self.checkpoint_high_watermarks()
        if self.unclean_shutdown and not self._loss_known:
            # With a marker the next start would report no loss; without one it reports the loss again.
            return
        marker = checkpoints.encode_marker(entries)
        await self.disk.submit(IOPool.BACKGROUND, self.disk.replace, checkpoints.CLEAN_SHUTDOWN, marker)

    def _next_turn(self) -> Deferred[Any]:
        """Fires in a later turn of the reactor."""
        return self.disk.submit(IOPool.READ, self.disk.exists, checkpoints.META_PROPERTIES)


@returns_deferred
async def _flush(log: Log) -> None:
    await log.flush()


def rename_for_good(disk: IDisk, old: str, new: str) -> None:
    """Runs in an I/O thread."""
    disk.rename(old, new)
    disk.sync_directory("")


def plugin_files(log: Log) -> dict[str, bytes]:
    """Return the files that plugins have beside a log, by their names."""
    names = [name for name in log.disk.names(log.directory) if name.endswith(file_names.PLUGIN)]
    return {name: log.disk.read(f"{log.directory}/{name}") for name in names}
