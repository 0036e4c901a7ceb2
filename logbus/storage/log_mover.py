"""
Moves logs between the log directories of a broker (KIP-113; Kafka: ``ReplicaAlterLogDirsManager``).

A copy, the *future log*, is filled in the other directory while the *current log* remains in use. Once it has caught
up, the current log takes no more appends for some milliseconds; the future log gets the rest and replaces it.

A crash loses nothing, because both logs are equal and on stable storage during the swap:

1. ``arriving`` is written into the future log's directory, durably.
2. ``moved`` is written into the current log's directory, durably.
3. The future log's directory gets the partition's name, durably.
4. The broker uses the future log, and ``arriving`` is removed, durably.
5. The old log's directory gets the name of a deleted one, durably, after ``file.delete.delay.ms``. Then its files go: a
   half removed log has no mark, perhaps, but neither has it the partition's name.

If that fails, the current log takes no appends before ``moved`` is gone, durably: the other directory may be there by
now, though its disk has failed. ``arriving`` tells then which of the two was given up.

A start after a crash between these steps is the subject of :mod:`logbus.storage.move_recovery`. A start that finds
a future log removes it and begins the move again.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.errors import ApiError, ErrorCode, LogbusError, StorageError
from logbus.model import TopicPartition
from logbus.storage import file_names
from logbus.storage.appends.append_as_follower import append_as_follower
from logbus.storage.cleaner.log_cleaner import LogCleaner
from logbus.storage.future_log import align, copy_small_files, future_of, take_over
from logbus.storage.istorage import IDisk, IOPool
from logbus.storage.log import Log
from logbus.storage.log_directory import LogDirectory, rename_for_good
from logbus.storage.repair.log_repairer import LogRepairer
from logbus.storage.throttler import Throttler
from logbus.timers import Timers

CHUNK = 1 << 20
"""Bytes copied at a time; a larger batch is copied whole."""

MAX_PREFERRED = 10_000
"""Upper bound of partitions without a log here for which a preferred directory is kept."""

Swap = Callable[[], Awaitable[Log]]
"""Replaces the current log by the future log, and returns that."""


class MoveCancelled(LogbusError):
    """The move was cancelled, or the log was deleted."""


@define(eq=False)
class LogMove:
    """
    The move of one log to another directory.

    :ivar current: the log that is copied.
    :ivar directory: of the copy; it is there from the request on, so that a start after a crash finds it.
    :ivar future: the copy, once begun.
    """

    partition: TopicPartition
    current: Log
    origin: LogDirectory
    destination: LogDirectory
    directory: str
    future: Log | None = None
    has_begun: bool = False
    cancelled: bool = False
    is_over: bool = False

    @property
    def offset_lag(self) -> int:
        """The number of offsets that the copy lacks."""
        copied = self.current.local_start_offset if self.future is None else self.future.log_end_offset
        return max(0, self.current.log_end_offset - copied)


@define(eq=False, repr=False)
class LogMover:
    """
    Moves logs, one at a time, in the order of the requests.

    :param bytes_per_second: called before each move (``replica.alter.log.dirs.io.max.bytes.per.second``).
    :param exclusively: runs a swap while the partition can get no other log or role.
    :ivar moves: requested moves by partition; the first one is being copied.
    :ivar preferred: directories for partitions that have no log on this broker yet.
    """

    _directories: Sequence[LogDirectory]
    _timers: Timers
    _cleaner: LogCleaner
    _restorer: LogRepairer
    _new_log: Callable[[TopicPartition, IDisk, str], Log]
    _remove_later: Callable[[IDisk, list[str], int], None]
    _unique: Callable[[], uuid.UUID]
    _bytes_per_second: Callable[[], float]
    _exclusively: Callable[[TopicPartition, Swap], Awaitable[None]]
    moves: dict[TopicPartition, LogMove] = field(factory=dict, init=False)
    preferred: dict[TopicPartition, LogDirectory] = field(factory=dict, init=False)
    _throttler: Throttler = field(init=False)
    _stopped: bool = field(default=False, init=False)
    _idle: Deferred[None] | None = field(default=None, init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        self._throttler = Throttler(self._timers)

    # -- Requests of operators

    def directory_at(self, path: str) -> LogDirectory:
        """
        The log directory at a path.

        :raise ApiError: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR: it is offline.
        """
        for directory in self._directories:
            if directory.disk.root == path:
                if not directory.is_online:
                    raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory {path} is offline")
                return directory
        known = ", ".join(directory.disk.root for directory in self._directories)
        raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path!r} is not a log directory of this broker; it has: {known}")

    def prefer(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """Choose the directory for a log that does not exist yet."""
        if partition in self.preferred or len(self.preferred) < MAX_PREFERRED:
            self.preferred[partition] = directory

    def move(self, partition: TopicPartition, destination: LogDirectory) -> None:
        """
        Move a log, in the background, replacing a requested move of it. A move to its current directory only cancels.

        :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION: there is no such log; INVALID_TOPIC_EXCEPTION: its name is too long
            for a future log.
        :raise StorageError: the other directory failed.
        """
        origin = next((one for one in self._directories if partition in one.logs and one.is_online), None)
        if origin is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} is not on this broker")
        under_way = self.moves.get(partition)
        if under_way is not None and under_way.destination is destination:
            return
        try:
            name = file_names.future_directory(partition, self._unique())
        except ValueError as problem:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, str(problem)) from None
        self.cancel(partition)
        if origin is not destination:
            destination.disk.make_directory(name)
            self.moves[partition] = LogMove(partition, origin.logs[partition], origin, destination, name)
            self._begin()

    def cancel(self, partition: TopicPartition) -> None:
        """Cancel a log's move, unless the swap is in progress."""
        move = self.moves.pop(partition, None)
        if move is not None:
            move.cancelled = True
            self._throttler.hurry()
            if not move.has_begun:
                self._discard(move)

    def resume(self) -> None:
        """Restart the moves that the last stop interrupted."""
        for directory in self._directories:
            interrupted, directory.interrupted_moves = directory.interrupted_moves, []
            for partition in interrupted if directory.is_online else ():
                try:
                    self.move(partition, directory)
                except (ApiError, StorageError) as error:
                    self._log.info("{partition} is not moved: {error}", partition=partition, error=error)

    def remove_given_up(self, directory: LogDirectory) -> None:
        """Remove what recovery has left of moves."""
        given_up, directory.given_up = directory.given_up, []
        for partition, name in given_up:
            self._remove_former(directory.disk, name, partition)

    def stop(self) -> Deferred[None]:
        """Stop copying; fires when none runs. A swap that has begun is finished first."""
        self._stopped = True
        self._throttler.hurry()
        return succeed(None) if self._idle is None else self._idle

    async def free_name(self, disk: IDisk, name: str, partition: TopicPartition) -> None:
        """
        Rename the directory ``name``, durably, if it is that of a log that was moved away, or of a copy that was given
        up, and have it removed: the partition may get another log there, which must neither find the old files nor go
        with them.

        :raise StorageError: the disk failed.
        """
        if _is_marked(disk, name):
            gone = file_names.deleted_directory(partition, self._unique())
            if await disk.submit(IOPool.BACKGROUND, _rename_marked, disk, name, gone):
                self._remove_later(disk, [gone], 0)

    # -- Work

    def _begin(self) -> None:
        if self._idle is not None or self._stopped:
            return
        self._idle = Deferred()

        def failed(failure: Failure) -> None:
            self._log.failure("moving logs failed", failure)

        def ended(_: object) -> None:
            idle, self._idle = self._idle, None
            if idle is not None:
                idle.callback(None)

        Deferred.fromCoroutine(self._move_all()).addErrback(failed).addCallback(ended)

    async def _move_all(self) -> None:
        while self.moves and not self._stopped:
            move = next(iter(self.moves.values()))
            move.has_begun = True
            try:
                await self._move(move)
            except MoveCancelled:
                self._log.info("{partition} is not moved", partition=move.partition)
            except (ApiError, StorageError) as error:
                self._log.error(
                    "{partition} cannot be moved to {root}, and stays where it is: {error}",
                    partition=move.partition,
                    root=move.destination.disk.root,
                    error=error,
                )
            except Exception:
                self._log.failure("{partition} cannot be moved", partition=move.partition)
            # Not in a "finally": a coroutine that is garbage-collected must not wait.
            await self._give_up(move)

    async def _give_up(self, move: LogMove) -> None:
        """Drop a move that is over, and remove its future log if that is not in use."""
        if self.moves.get(move.partition) is move:
            del self.moves[move.partition]
        if move.is_over:
            return
        future, move.future = move.future, None
        if future is not None:
            move.destination.futures.pop(move.partition, None)
            await future.close()
        self._discard(move)

    def _discard(self, move: LogMove) -> None:
        """Remove what there is of a copy; a stop leaves it, so that the move begins again."""
        if move.destination.is_online and not self._stopped:
            self._remove_later(move.destination.disk, [move.directory], 0)

    async def _move(self, move: LogMove) -> None:
        disk, partition = move.destination.disk, move.partition
        self._check(move)
        move.future = move.destination.futures[partition] = future = future_of(move.current, disk, move.directory)
        self._log.info("{partition} is being copied to {root}", partition=partition, root=disk.root)
        self._throttler.bytes_per_second = self._bytes_per_second()
        await self._copy(move, future)
        await self._exclusively(partition, partial(self._swap, move, future))

    def _check(self, move: LogMove) -> None:
        """:raise MoveCancelled: the move was cancelled, or the log was deleted or replaced by another of its name."""
        if move.cancelled or self._stopped or move.origin.logs.get(move.partition) is not move.current:
            raise MoveCancelled

    async def _copy(self, move: LogMove, future: Log, *, held: bool = False) -> None:
        """
        Copy until nothing is missing.

        :param held: appends are blocked meanwhile: be quick.
        """
        current, throttler = move.current, self._throttler
        throttler.begin()
        while True:
            self._check(move)
            align(current, future)
            found = current.read(future.log_end_offset, CHUNK)
            if found.data is None:
                if future.log_end_offset < current.log_end_offset:
                    raise ApiError(
                        ErrorCode.KAFKA_STORAGE_ERROR,
                        f"the log has no batch at offset {future.log_end_offset} or behind it, but ends at "
                        f"{current.log_end_offset}",
                    )
                return
            try:
                data = await current.disk.submit(IOPool.READ, found.data.read)
            except EOFError:
                continue  # It was truncated meanwhile.
            self._check(move)
            if align(current, future):
                continue
            future.configure(current.config)
            append_as_follower(future, data)
            throttler.moved(len(data))
            if throttler.is_due and not held:
                await throttler.rest()

    async def _swap(self, move: LogMove, future: Log) -> Log:
        """
        Replace the current log by the future log.

        :raise MoveCancelled: as :meth:`_copy`.
        :raise StorageError: a disk failed.
        """
        current, origin, destination, partition = move.current, move.origin, move.destination, move.partition
        self._check(move)
        async with self._restorer.paused([current]), self._cleaner.paused([current]):
            try:
                # Appends and waiting flushes fail with a retriable error.
                await current.close()
                await self._copy(move, future, held=True)
                future.high_watermark = current.high_watermark
                await future.flusher.write_back_and_wait()
                future.segments[-1].seal()
                await future.close()
                await destination.disk.submit(IOPool.BACKGROUND, copy_small_files, current, future)
                if future.flushed_end_offset < future.log_end_offset:
                    raise destination.disk.failure or StorageError(f"{future.directory} was not synced")
                await destination.forget(partition)
                await destination.checkpoint_start_offsets()
                await destination.checkpoint_high_watermarks()
                name = file_names.partition_directory(partition)
                # Of two logs that say that they were moved, none would be used.
                await self.free_name(destination.disk, name, partition)
                await destination.disk.submit(IOPool.BACKGROUND, _mark_arriving, future)
                await origin.disk.submit(IOPool.BACKGROUND, _mark_moved, current, future.directory)
                await destination.disk.submit(
                    IOPool.BACKGROUND, rename_for_good, destination.disk, future.directory, name
                )
            except Exception:
                # What is appended before that is durable could be lost: a crash could leave the copy as the only log.
                await self._take_back(origin, current)
                current.reopen()
                raise
            log = self._new_log(partition, destination.disk, name)
            with suppress(ApiError, StorageError):  # If the disk failed, it has said so.
                await destination.disk.submit(IOPool.BACKGROUND, _unmark, log, file_names.ARRIVING)
            take_over(log, current, future)
        del origin.logs[partition], destination.futures[partition]
        destination.logs[partition] = log
        move.future, move.is_over = None, True
        # Not at once: readers may have it open.
        self._timers.call_later(
            current.config.file_delete_delay_ms / 1000,
            lambda: self._remove_former(origin.disk, current.directory, partition),
        )
        self._log.info(
            "{partition} was moved from {old} to {new}: {size} bytes",
            partition=partition,
            old=origin.disk.root,
            new=destination.disk.root,
            size=log.size,
        )
        return log

    def _remove_former(self, disk: IDisk, name: str, partition: TopicPartition) -> None:
        """Remove the files of a moved log, unless they are gone and another log has their name."""
        if disk.failure is None:
            removing = Deferred.fromCoroutine(self.free_name(disk, name, partition))
            removing.addErrback(lambda failure: failure.trap(ApiError, StorageError))

    async def _take_back(self, origin: LogDirectory, current: Log) -> None:
        if origin.is_online:
            with suppress(ApiError, StorageError):  # The directory is offline then, as it has said.
                await origin.disk.submit(IOPool.BACKGROUND, _unmark, current, file_names.MOVED)


def _is_marked(disk: IDisk, name: str) -> bool:
    return any(disk.exists(f"{name}/{mark}") for mark in (file_names.MOVED, file_names.ARRIVING))


# These run in an I/O thread, one after the other.


def _rename_marked(disk: IDisk, name: str, gone: str) -> bool:
    """Returns False if another one was faster."""
    if not _is_marked(disk, name):
        return False
    rename_for_good(disk, name, gone)
    return True


def _mark_arriving(future: Log) -> None:
    future.disk.replace(f"{future.directory}/{file_names.ARRIVING}", future.directory.encode())


def _mark_moved(log: Log, copy: str) -> None:
    # It may have arrived here itself, and a crash kept the mark of that.
    log.disk.unlink(f"{log.directory}/{file_names.ARRIVING}")
    log.disk.replace(f"{log.directory}/{file_names.MOVED}", copy.encode())


def _unmark(log: Log, mark: str) -> None:
    log.disk.unlink(f"{log.directory}/{mark}")
    log.disk.sync_directory(log.directory)
