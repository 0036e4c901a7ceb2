"""
Logs that the cluster does not know: they are set aside, and kept for a while (Kafka: stray logs).

Most are of topics that were deleted, or of replicas that were moved, while the broker was down. But all logs look like
that where the metadata are those of an older backup. So none is deleted at once, and a log is used again as soon as the
cluster knows its topic, by its id.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence

from attrs import define, field
from twisted.logger import Logger

from logbus.errors import ApiError, StorageError
from logbus.metrics import Registry
from logbus.model import TopicPartition
from logbus.storage import file_names
from logbus.storage.checkpoints import StrayLog
from logbus.storage.istorage import IDisk, IOPool
from logbus.storage.log import Log
from logbus.storage.log_directory import LogDirectory, LogOffsets
from logbus.storage.log_recovery import Progress
from logbus.wording import counted

_DAY_MS = 86_400_000


@define(eq=False)
class StrayLogs:
    """
    The logs in all log directories that were set aside.

    :ivar retention_ms: how long they are kept; negative: for good.
    """

    _directories: Sequence[LogDirectory]
    retention_ms: int
    _now_ms: Callable[[], int]
    _seconds: Callable[[], float]
    _unique: Callable[[], uuid.UUID]
    _remove_trees: Callable[[IDisk, list[str]], None]
    _places: dict[tuple[TopicPartition, uuid.UUID], tuple[LogDirectory, str]] = field(factory=dict, init=False)
    _log = Logger()

    def __len__(self) -> int:
        return sum(len(directory.strays) for directory in self._directories)

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metric of stray logs."""
        registry.gauge(
            "logbus_stray_logs",
            "Logs that the cluster did not know, which were set aside, and are kept for log.stray.retention.ms.",
            read=lambda: len(self),
        )

    def opened(self) -> None:
        """Take in the logs that were set aside before the directories were opened."""
        for directory in self._directories:
            # The latest one last, if there are several.
            for name, stray in sorted(directory.strays.items(), key=lambda item: item[1].since_ms if item[1] else 0):
                self._note(directory, name, stray)

    def _note(self, directory: LogDirectory, name: str, stray: StrayLog | None) -> None:
        directory.strays[name] = stray
        if stray is not None and stray.topic_id is not None:
            self._places[stray.partition, stray.topic_id] = directory, name

    async def set_aside(self, directory: LogDirectory, log: Log) -> None:
        """
        Close a log that is not one of its directory's any more, and rename its directory.

        :raises StorageError: the disk failed, and is offline.
        """
        partition, disk = log.partition, log.disk
        try:
            await log.flush()
        except ApiError as error:
            # What is not synced is scanned before the log is used again.
            self._log.warn("{partition}: not synced: {error}", partition=partition, error=str(error))
        stray = StrayLog(
            partition, log.topic_id, self._now_ms(), log.log_start_offset, log.recovery_point, log.high_watermark
        )
        await log.close()
        name = file_names.stray_directory(partition, self._unique())
        noted = await disk.submit(IOPool.BACKGROUND, _set_aside, disk, log.directory, name, stray.encode())
        self._note(directory, name, stray if noted else None)
        self._log.warn(
            "{partition} is not this broker's any more; its log was set aside as {root}/{name}",
            partition=partition, root=disk.root, name=name,
        )  # fmt: skip

    def explain(self, count: int) -> None:
        """Log what it means that so many logs were set aside."""
        logs, why = counted(count, "log"), "as the metadata do not give them to this broker"
        if not self.retention_ms:
            self._log.warn("{logs} deleted, {why}", logs=logs, why=why)
            return
        days = self.retention_ms / _DAY_MS
        self._log.warn(
            "{logs} set aside and kept {kept} (log.stray.retention.ms), {why}. If their topics were deleted or moved "
            "meanwhile, all is well; if the metadata are an older copy, import a newer one: logs are used again when "
            "their topic ids are known",
            logs=logs, why=why, kept="for good" if days < 0 else f"for {days:g} days",
        )  # fmt: skip

    async def take_back(self, partition: TopicPartition, topic_id: uuid.UUID | None) -> Log | None:
        """
        Make a log that was set aside the partition's log again; None if there is none of this topic id.

        :raises ApiError: there is no space; it can be tried again.
        :raises StorageError: the disk failed, and is offline.
        """
        if topic_id is None or (place := self._places.get((partition, topic_id))) is None:
            return None
        directory, name = place
        stray = directory.strays.get(name)
        # One that is expired may be half removed.
        if stray is None or not directory.is_online or self._is_expired(stray, self._now_ms()):
            return None
        disk, own = directory.disk, file_names.partition_directory(partition)
        # Another log of the topic's name may have been here meanwhile.
        await directory.forget(partition)
        if not await disk.submit(IOPool.BACKGROUND, _rename, disk, name, own):
            self._forget(directory, name)
            return None
        offsets = LogOffsets(stray.log_start_offset, stray.recovery_point, stray.high_watermark, 0)
        try:
            await directory.open_log(partition, own, offsets, Progress(self._seconds))
        except ApiError:
            # An attempt that fails for want of space, or files, must not be followed by an empty log.
            await self._put_back(disk, own, name)
            raise
        self._forget(directory, name)
        # The note says how to open the log, until it is open.
        disk.unlink(f"{own}/{file_names.STRAY}")
        log = directory.logs[partition]
        if log.log_start_offset > log.segments[0].base_offset:
            await directory.save_start_offsets()
        self._log.warn("{partition} is this broker's again: {name} is its log", partition=partition, name=name)
        return log

    async def _put_back(self, disk: IDisk, own: str, name: str) -> None:
        try:
            await disk.submit(IOPool.BACKGROUND, _rename, disk, own, name)
        except ApiError as error:
            # What has the partition's name is the partition's log for whoever comes next.
            raise disk.fail(StorageError(f"{disk.root}/{own} cannot be renamed: {error}")) from error

    async def set_remains_aside(self, directory: LogDirectory, own: str, partition: TopicPartition) -> None:
        """
        Keep records that are where a new log is to be made, though no log is open there: what could not be renamed
        when it was given up. A new log would begin in their files, and a start would take the rest for its own.

        :param own: the name of the partition's directory.
        :raises ApiError: there is no space; it can be tried again.
        :raises StorageError: the disk failed, and is offline.
        """
        disk, name = directory.disk, file_names.stray_directory(partition, self._unique())
        if await disk.submit(IOPool.BACKGROUND, _set_remains_aside, disk, own, name):
            self._note(directory, name, None)
            self._log.warn(
                "{root}/{own} has records of an earlier log, which were set aside as {name}",
                root=disk.root, own=own, name=name,
            )  # fmt: skip

    def _is_expired(self, stray: StrayLog, now_ms: int) -> bool:
        return 0 <= self.retention_ms <= now_ms - stray.since_ms

    def _forget(self, directory: LogDirectory, name: str) -> None:
        stray = directory.strays.pop(name, None)
        if stray is not None and stray.topic_id is not None:
            key = stray.partition, stray.topic_id
            if self._places.get(key) == (directory, name):
                del self._places[key]

    def remove_expired(self) -> None:
        """Remove those that were kept for long enough, and forget those that somebody else removed."""
        for directory in self._directories:
            if not directory.is_online or not directory.strays:
                continue
            try:
                # One listing: to ask for each by itself would hold the reactor where there are thousands.
                there = set(directory.disk.names(""))
            except (ApiError, StorageError):
                continue  # The next time; the disk has reported it.
            now_ms, expired = self._now_ms(), {}
            for name, stray in list(directory.strays.items()):
                if stray is not None and self._is_expired(stray, now_ms):
                    expired[name] = file_names.deleted_directory(stray.partition, self._unique())
                elif name in there:
                    continue
                self._forget(directory, name)
            if expired:
                logs = counted(len(expired), "log")
                self._log.info("{root}: {logs} removed that were set aside", root=directory.disk.root, logs=logs)
                self._remove(directory.disk, expired)

    def _remove(self, disk: IDisk, expired: Mapping[str, str]) -> None:
        # First of all they get names that are removed at any start: without its note, which may go before the rest, a
        # stray log is kept for good.
        disk.submit(IOPool.BACKGROUND, _rename_all, disk, expired).addCallbacks(
            lambda _: self._remove_trees(disk, list(expired.values())),
            lambda failure: failure.trap(ApiError, StorageError),
        )


def _rename_all(disk: IDisk, names: Mapping[str, str]) -> None:
    """Runs in an I/O thread."""
    for old, new in names.items():
        if disk.exists(old):
            disk.rename(old, new)
    disk.sync_directory("")


def _set_aside(disk: IDisk, directory: str, name: str, stray: bytes) -> bool:
    """Runs in an I/O thread; returns whether there was space for the file."""
    try:
        disk.replace(f"{directory}/{file_names.STRAY}", stray)
        noted = True
    except ApiError:
        noted = False
    disk.rename(directory, name)
    disk.sync_directory("")
    return noted


def _rename(disk: IDisk, name: str, new: str) -> bool:
    """Runs in an I/O thread; returns False if somebody removed it."""
    if not disk.exists(name):
        return False
    disk.rename(name, new)
    disk.sync_directory("")
    return True


def _set_remains_aside(disk: IDisk, own: str, name: str) -> bool:
    """Runs in an I/O thread; returns whether there was anything but what :meth:`.Log.create` makes."""
    first = file_names.segment_file(0, file_names.LOG)
    logs = [file for file in disk.names(own) if file_names.base_offset_of(file, file_names.LOG) is not None]
    return any(file != first or disk.size(f"{own}/{file}") for file in logs) and _rename(disk, own, name)
