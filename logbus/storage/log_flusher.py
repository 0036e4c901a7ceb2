"""
Syncs logs to stable storage: for waiting callers, and in the background.

*Flush*: a caller waits for what is in the log now. One fdatasync serves all waiting callers (:class:`.GroupCommit`).

*Write-back*: nobody waits. Every 64 MB, but at most once a second, and after each roll the log is synced in the
background, together with its indexes and a snapshot of its producer state, so that recovery has little to scan after a
crash. Appends wait in the kernel while their file is synced: more often would make one in a hundred slow, in a log that
takes a gigabyte a second.

A failed sync is never retried: the kernel drops the pages it could not write, and a second fdatasync would succeed
without them ("fsyncgate"). The directory goes offline, and all waiting callers get the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, fail, gatherResults, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.errors import ApiError, StorageError
from logbus.storage import file_names
from logbus.storage.checkpoints import encode_partition_metadata
from logbus.storage.filesystem.bounded_work import SyncQueues
from logbus.storage.group_commit import GroupCommit
from logbus.storage.istorage import IDisk, IFile, IOPool
from logbus.storage.log_state import LogState
from logbus.storage.producers.producer_snapshot import snapshot_offsets, snapshot_path
from logbus.storage.producers.snapshot_encoder import SnapshotEncoder
from logbus.storage.segments.segment import Segment

_KEPT_SNAPSHOTS = 2


def sync_all(
    disk: IDisk, replaced: Sequence[tuple[str, bytes]], files: Sequence[IFile], directories: Sequence[str]
) -> None:
    """
    Runs in an I/O thread. Syncs small files first, since trust in the data behind the recovery point may depend on
    them.

    :param directories: synced last; those of the small files among them.
    """
    for path, data in replaced:
        disk.replace(path, data, True, False)
    for file in files:
        file.sync()
    for path in directories:
        disk.sync_directory(path)


def take_snapshot(disk: IDisk, path: str, data: bytes, superseded: Sequence[str]) -> None:
    """Runs in an I/O thread: writes a snapshot, then removes those that it replaces."""
    # Not synced: the CRC shows one that a crash tore, and an older one is used.
    disk.replace(path, data, False)
    for old in superseded:
        disk.unlink(old)


@frozen(eq=False)
class _Snapshot:
    """A snapshot to be taken, of the producers as they were when it was begun."""

    disk: IDisk
    producers: SnapshotEncoder
    path: str
    superseded: Sequence[str]

    def write(self) -> Deferred[None]:
        """Write it, in slices."""
        return Deferred.fromCoroutine(self._write())

    async def _write(self) -> None:
        disk = self.disk
        data = await self.producers.finish(lambda: disk.submit(IOPool.READ, disk.exists, self.path))
        await disk.submit(IOPool.BACKGROUND, take_snapshot, disk, self.path, data, self.superseded)

    def close(self) -> None:
        """Give it up."""
        self.producers.close()


@define(eq=False)
class LogFlusher:
    """
    Syncs a log: tracks its unsynced segments, and flushes them or writes them back. Exists for logs that are written
    to.

    :ivar _write_back_bytes: after that many new bytes the log is written back, if the last time was
        ``_write_back_interval`` seconds ago.
    :ivar _dirtied: called when the log has unsynced data, after everything was synced.
    :ivar _written_back: called when the recovery point moved far enough to be checkpointed.
    :ivar _queues: of all logs in the directory.
    :ivar unindexed: sealed segments whose indexes are not synced; recovery must begin before them.
    :ivar dirty: segments with unsynced data.
    :ivar _is_exclusive: a commit of small files or directory entries runs; others wait in ``_behind``.
    """

    log: LogState
    _write_back_bytes: int
    _write_back_interval: float
    _dirtied: Callable[[], object]
    _written_back: Callable[[], object]
    _queues: SyncQueues = field(factory=SyncQueues)
    _seconds: Callable[[], float] = monotonic
    unindexed: list[Segment] = field(factory=list, init=False)
    dirty: list[Segment] = field(factory=list, init=False)
    _group: GroupCommit = field(init=False)
    _background: GroupCommit = field(init=False)
    _bytes: int = field(default=0, init=False)
    _next_write_back: float = field(default=0.0, init=False)
    _generation: int = field(default=0, init=False)
    _snapshots: list[int] | None = field(default=None, init=False)
    _is_exclusive: bool = field(default=False, init=False)
    _is_closing: bool = field(default=False, init=False)
    _behind: list[Deferred[None]] = field(factory=list, init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        self._group = GroupCommit(self._flush_in_turn)
        self._background = GroupCommit(self._write_back_in_turn)

    def resume(self) -> None:
        """Record what the log has behind its synced end when it is opened."""
        log = self.log
        ends = [*(segment.base_offset for segment in log.segments[1:]), log.log_end_offset]
        self.dirty = [s for s, end in zip(log.segments, ends, strict=True) if end > log.flushed_end_offset]
        self.unindexed = [segment for segment in self.dirty if segment is not log.segments[-1]]
        for segment in self.dirty:
            segment.log.pinned = True

    def wrote(self, segment: Segment, size: int) -> None:
        """Count ``size`` bytes written at the end of ``segment``."""
        dirty = self.dirty
        if not dirty or dirty[-1] is not segment:
            self._first_write(segment)
        self._bytes += size
        if self._bytes >= self._write_back_bytes and self._seconds() >= self._next_write_back:
            self.write_back()

    def _first_write(self, segment: Segment) -> None:
        clean = not self.dirty
        self.dirty.append(segment)
        segment.log.pinned = True
        if clean:
            self._dirtied()
        if len(segment.files) > segment.files.capacity:
            # Files with unsynced data cannot be closed. There are too many of them: sync, so that they can be.
            self.write_back()

    def rolled(self, segment: Segment) -> None:
        """``segment`` was sealed, and a new one created."""
        self.log.unsynced_directories.add(self.log.directory)
        self.unindexed.append(segment)
        if self._background.is_running and self.log.remote is not None:
            # The next write-back takes it too late: who begins behind this segment needs the producers as of now.
            snapshot = self._begin_snapshot(self.log.log_end_offset)
            if snapshot is not None:
                snapshot.write().addErrback(lambda failure: failure.trap(ApiError, StorageError))
        self.write_back()

    def truncated(self) -> None:
        """The log was truncated: a sync in progress no longer covers what is there."""
        self._generation += 1
        self._snapshots = None
        self.log.unsynced_directories.add(self.log.directory)
        kept = set(self.log.segments)
        self.dirty = [segment for segment in self.dirty if segment in kept]
        self.unindexed = [segment for segment in self.unindexed if segment in kept]
        active = self.log.segments[-1]
        if active in self.unindexed:
            self.unindexed.remove(active)
        # The new length must be synced before batches behind it are trusted.
        if active not in self.dirty:
            self.dirty.append(active)
            active.log.pinned = True

    def discarded(self, segments: Sequence[Segment]) -> None:
        """Segments left the log: their unsynced data need not be synced."""
        for segment in segments:
            segment.log.pinned = False
        self.dirty = [segment for segment in self.dirty if segment not in segments]
        self.unindexed = [segment for segment in self.unindexed if segment not in segments]

    def flush(self) -> Deferred[None]:
        """Fires when everything in the log now is on stable storage."""
        return self._group.wait()

    def request(self) -> None:
        """Flush, without waiting."""
        self._group.request()

    def write_back(self) -> None:
        """Sync in the background, including indexes and producer state."""
        self._bytes = 0
        self._next_write_back = self._seconds() + self._write_back_interval
        self._background.request()

    def _commit(self, pool: IOPool, before: Sequence[IFile] = ()) -> Deferred[None]:
        """Sync the log's files, after the small files that recovery needs to trust them."""
        if self._is_exclusive:
            # The two pools work concurrently. This commit may cover records that rely on small files and directory
            # entries of the running one, and an older small file must not replace a newer one.
            turn: Deferred[None] = Deferred()
            self._behind.append(turn)
            return turn.addCallback(lambda _: self._commit(pool, before))
        log = self.log
        epochs = log.epochs
        saved, topic_id_saved = epochs.saved, log.topic_id_saved
        replaced = self._unsaved_files()
        if replaced:
            log.unsynced_directories.add(log.directory)
        # The directory entry of a new log is synced last: it must not be durable before its small files.
        directories = sorted(log.unsynced_directories, reverse=True)
        is_exclusive = bool(replaced or directories)
        # A flush may wait for these: they do not queue behind the one background thread's other work.
        is_split = is_exclusive and pool is IOPool.BACKGROUND
        generation, target = self._generation, log.log_end_offset
        covered = [] if is_split else [(segment, segment.size) for segment in self.dirty]
        try:
            files = [] if is_split else [*before, *(segment.log.get() for segment, _ in covered)]
        except (ApiError, StorageError) as error:
            return fail(error)
        log.unsynced_directories.clear()
        epochs.saved = True
        log.topic_id_saved = topic_id_saved or log.topic_id is not None

        times = log.disk.flush_times
        begun = times.begin()

        def done(_: object) -> None:
            times.end(begun, succeeded=True)
            if generation == self._generation and not is_split:
                self._settled(covered)
                log.flushed_end_offset = max(log.flushed_end_offset, target)

        def failed(failure: Failure) -> Failure:
            times.end(begun, succeeded=False)
            # An ApiError (no space for a small file) leaves the directory in use: the next commit tries them again.
            epochs.saved = epochs.saved and saved
            log.topic_id_saved = log.topic_id_saved and topic_id_saved
            log.unsynced_directories.update(directories)
            return failure

        def over(result: Failure | None) -> Failure | None:
            self._is_exclusive = False
            behind, self._behind = self._behind, []
            for turn in behind:
                turn.callback(None)
            return result

        self._is_exclusive = is_exclusive
        synced: Deferred[None]
        if pool is IOPool.SYNC and files and not is_exclusive:
            synced = log.disk.sync(files)
        else:
            order = IOPool.SYNC if is_split else pool
            synced = log.disk.submit(order, sync_all, log.disk, replaced, files, directories)
        synced.addCallbacks(done, failed)
        if is_exclusive:
            synced.addBoth(over)
        return synced.addCallback(lambda _: self._commit(pool, before)) if is_split else synced

    def _unsaved_files(self) -> list[tuple[str, bytes]]:
        """Paths and contents of the small files that are not up to date on disk."""
        log = self.log
        files = []
        if not log.epochs.saved:
            files.append((f"{log.directory}/{file_names.EPOCHS}", log.epochs.encode()))
        if not log.topic_id_saved and log.topic_id is not None:
            # Without it the log would be taken for that of a deleted topic.
            metadata = encode_partition_metadata(log.topic_id)
            files.append((f"{log.directory}/{file_names.PARTITION_METADATA}", metadata))
        return files

    def _settled(self, covered: list[tuple[Segment, int]]) -> None:
        for segment, size in covered:
            if segment.size == size and segment in self.dirty:
                self.dirty.remove(segment)
                segment.log.pinned = False

    def _flush_in_turn(self) -> Deferred[None]:
        """Flush: at once, unless there are many others with their files, which cannot be closed meanwhile."""
        if not self.log.segments[-1].files.is_crowded:
            return self._commit(IOPool.SYNC)
        return self._queues.flushes.run(partial(self._commit, IOPool.SYNC))

    def _write_back_in_turn(self) -> Deferred[None]:
        """Write back, when not too many others are."""
        return self._queues.write_backs.run(lambda: succeed(None) if self._is_closing else self._write_back())

    def _write_back(self) -> Deferred[None]:
        log = self.log
        generation = self._generation
        sealed = list(self.unindexed)
        aborted = [
            (index, index.count)
            for segment in (*sealed, log.segments[-1])
            if (index := segment.aborted_in_memory) is not None and index.unsynced_from is not None
        ]
        try:
            # The active segment's need no sync: recovery checks each of their entries.
            log.segments[-1].save_indexes()
            indexes = [file.get() for segment in sealed for file in segment.save_indexes()]
            if aborted:
                # The active segment's transaction index, too: recovery trusts it below the recovery point.
                saved = [index.save() for index, _ in aborted if index is log.segments[-1].aborted_in_memory]
                indexes += [file.get() for file in saved if file is not None]
                log.unsynced_directories.add(log.directory)
            for segment in sealed:
                segment.offsets.forget()
        except ApiError as problem:
            # Without space the indexes stay in memory; the log itself is synced all the same.
            self._log.warn("{partition}: indexes not written: {error}", partition=log.partition, error=str(problem))
            indexes, sealed, aborted = [], [], []
        except StorageError:
            # The disk has reported it, and is offline: no further append is confirmed.
            return succeed(None)
        snapshot = self._begin_snapshot(log.log_end_offset)

        def done(_: object) -> None:
            if generation == self._generation:
                self.unindexed = [segment for segment in self.unindexed if segment not in sealed]
                for index, count in aborted:
                    index.synced(count)
                self._written_back()

        def failed(failure: Failure) -> None:
            if snapshot is not None:
                snapshot.close()
            self._log.warn("{partition}: write-back failed: {error}", partition=log.partition, error=str(failure.value))

        synced = self._commit(IOPool.BACKGROUND, indexes)
        if snapshot is not None:
            synced.addCallback(lambda _: snapshot.write())
        return synced.addCallbacks(done, failed)

    def _begin_snapshot(self, offset: int) -> _Snapshot | None:
        """
        A snapshot of the producers as they are now; None: none can be taken, so that recovery begins at an older one.
        A write-back goes on without: it may have begun within an append, no step of which may fail.
        """
        producers: SnapshotEncoder | None = None
        try:
            producers = SnapshotEncoder(self.log.producers)
            return _Snapshot(self.log.disk, producers, *self._next_snapshot(offset))
        except (ApiError, StorageError) as problem:
            # There is no descriptor left, or what the producers are read from is damaged.
            if producers is not None:
                producers.close()
            self._log.warn(
                "{partition}: no snapshot of the producers: {error}", partition=self.log.partition, error=str(problem)
            )
            return None

    def _next_snapshot(self, offset: int) -> tuple[str, list[str]]:
        """The path of a snapshot at ``offset``, and the paths of those it makes obsolete."""
        log = self.log
        if self._snapshots is None:
            self._snapshots = snapshot_offsets(log.disk, log.directory)
        if offset not in self._snapshots:
            self._snapshots.append(offset)
        # Snapshots at the start of a segment stay as long as it does: truncation goes back to them.
        needed = {segment.base_offset for segment in log.segments}
        # Recovery begins at the checkpointed recovery point, which may be several write-backs behind.
        needed.add(max((old for old in self._snapshots if old <= log.checkpointed_recovery_point), default=-1))
        superseded = [old for old in self._snapshots[:-_KEPT_SNAPSHOTS] if old not in needed]
        self._snapshots = [kept for kept in self._snapshots if kept not in superseded]
        return snapshot_path(log.directory, offset), [snapshot_path(log.directory, old) for old in superseded]

    def write_back_and_wait(self) -> Deferred[None]:
        """Write back what is there now; fires when that is over, also after an error, which the disk reports."""
        return self._background.wait()

    def close(self) -> Deferred[None]:
        """Begin no more syncs; fires when none runs."""
        self._is_closing = True
        return gatherResults([self._group.close(), self._background.close()]).addCallback(lambda _: None)
