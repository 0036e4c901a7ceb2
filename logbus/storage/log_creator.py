"""Creates the logs of partitions, each in the log directory that is meant for it."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.model import TopicPartition
from logbus.storage import checkpoints, file_names
from logbus.storage.istorage import IDisk, IOPool
from logbus.storage.log import Log
from logbus.storage.log_directory import LogDirectory


@define(eq=False)
class LogCreator:
    """
    Creates logs. Calls for the same partition share one creation.

    :ivar _find: the log of a partition that is online, if there is one.
    :ivar _new_log: makes the object of a log that is not on disk yet.
    :ivar _preferred: directories for partitions that have no log yet; an entry goes when it is used.
    :ivar _take_back: the log of a partition that was set aside, in use again, if there is one.
    :ivar _free_name: see :meth:`.LogMover.free_name`.
    :ivar _set_remains_aside: see :meth:`.StrayLogs.set_remains_aside`.
    """

    _directories: Sequence[LogDirectory]
    _find: Callable[[TopicPartition], Log | None]
    _new_log: Callable[[TopicPartition, IDisk, str], Log]
    _preferred: MutableMapping[TopicPartition, LogDirectory]
    _take_back: Callable[[TopicPartition, uuid.UUID | None], Awaitable[Log | None]]
    _free_name: Callable[[IDisk, str, TopicPartition], Awaitable[None]]
    _set_remains_aside: Callable[[LogDirectory, str, TopicPartition], Awaitable[None]]
    _creating: dict[TopicPartition, list[Deferred[Log]]] = field(factory=dict, init=False)

    def create(
        self, partition: TopicPartition, topic_id: uuid.UUID | None, config: TopicConfig | None
    ) -> Deferred[Log]:
        """See :meth:`.LogManager.create`."""
        mine: Deferred[Log] = Deferred()
        waiting = self._creating.setdefault(partition, [])
        waiting.append(mine)
        if len(waiting) == 1:
            creating = Deferred.fromCoroutine(self._create(partition, topic_id, config))
            creating.addBoth(self._created, partition)
        return mine

    def _created(self, result: Log | Failure, partition: TopicPartition) -> None:
        for waiter in self._creating.pop(partition):
            waiter.callback(result)

    async def _create(self, partition: TopicPartition, topic_id: uuid.UUID | None, config: TopicConfig | None) -> Log:
        log = self._find(partition)
        if log is not None:
            if topic_id is not None and log.topic_id != topic_id:
                if log.topic_id is not None:
                    raise ApiError(
                        ErrorCode.INCONSISTENT_TOPIC_ID,
                        f"the log of {partition} belongs to topic id {log.topic_id}, not to {topic_id}",
                    )
                log.topic_id, log.topic_id_saved = topic_id, False
                await log.disk.submit(IOPool.BACKGROUND, _prepare, log.disk, log.directory, topic_id)
            return log
        log = await self._take_back(partition, topic_id)
        if log is not None:
            if config is not None:
                log.config = config
            return log
        try:
            name = file_names.partition_directory(partition)
        except ValueError as problem:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, str(problem)) from problem
        online = [directory for directory in self._directories if directory.is_online]
        if not online:
            raise StorageError("no log directory is online")
        directory = self._preferred.pop(partition, None)
        if directory is None or not directory.is_online:
            directory = min(online, key=lambda candidate: len(candidate.logs))
        for each in online:
            # A start refuses a partition that is in two directories.
            if each.disk.exists(name):
                await self._free_name(each.disk, name, partition)
                await self._set_remains_aside(each, name, partition)
        await directory.forget(partition)
        log = self._new_log(partition, directory.disk, name)
        if config is not None:
            log.config = config
        log.topic_id = topic_id
        try:
            await directory.disk.submit(IOPool.BACKGROUND, _prepare, directory.disk, name, topic_id)
            log.create()
        except ApiError:
            # The next attempt may be made in another directory.
            with suppress(ApiError, StorageError):
                await directory.disk.submit(IOPool.BACKGROUND, directory.disk.remove_tree, name)
            raise
        directory.logs[partition] = log
        return log


def _prepare(disk: IDisk, directory: str, topic_id: uuid.UUID | None) -> None:
    """Runs in an I/O thread: makes a log's directory, and writes the topic id into it."""
    disk.make_directory(directory)
    if topic_id is not None:
        # Not synced before the log's first flush: there may be many new logs at a time.
        content = checkpoints.encode_partition_metadata(topic_id)
        disk.replace(f"{directory}/{file_names.PARTITION_METADATA}", content, False)
