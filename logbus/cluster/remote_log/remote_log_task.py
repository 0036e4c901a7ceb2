"""
The work on one partition with remote storage (Kafka: RLMCopyTask, RLMExpirationTask, RLMFollowerTask).

Every step is announced in the metadata topic before it is taken, and is repeated or undone by whoever leads next:

1. the copy has begun (durable), then the objects are written, then the copy is complete (durable);
2. the log start offset moves (durable), then the deletion has begun (durable), then the objects are deleted, then the
   deletion is complete (durable).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

from attrs import define, field, frozen
from twisted.logger import Logger

from logbus.cluster.remote_log.copy_throttle import CopyThrottle
from logbus.cluster.remote_log.metadata_topic import RemoteLogMetadataTopic
from logbus.cluster.replication.replica_manager import Replica
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.metrics import metric
from logbus.storage import file_names
from logbus.storage.istorage import IDisk, IOPool
from logbus.storage.leader_epoch_cache import LeaderEpochCache
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.storage.producers.aborted_transactions import aborted_index
from logbus.storage.producers.producer_replay import producers_as_of
from logbus.storage.producers.producer_snapshot import SnapshotCorrupt, decode_snapshot, snapshot_path
from logbus.storage.producers.snapshot_encoder import SnapshotEncoder
from logbus.storage.remote import object_names, segment_upload
from logbus.storage.remote.iremote_storage import RemoteStorage, RemoteStorageError
from logbus.storage.remote.load_queue import Run
from logbus.storage.remote.remote_log import RemoteLog
from logbus.storage.remote.remote_log_index import RemoteLogIndex
from logbus.storage.remote.remote_log_plan import RemoteRetention, SegmentToCopy, next_to_copy, to_delete
from logbus.storage.remote.remote_log_segment import (
    COPY_FINISHED,
    DELETE_FINISHED,
    DELETE_STARTED,
    EpochStarts,
    RemoteLogSegment,
    epochs_between,
)
from logbus.storage.remote.remote_reader import RemoteReader
from logbus.storage.segments.segment import Segment
from logbus.storage.segments.transaction_index import encode as encode_aborted

LONGEST_PAUSE_MS = 3_600_000
"""Between two copies of a partition that fail, while deletions fail, too."""


@define(eq=False)
class RemoteCounters:
    """Counters of copies and deletions."""

    copies: int = metric("logbus_remote_copy_requests_total", "Segments whose copy to remote storage was begun.")
    copied_bytes: int = metric("logbus_remote_copy_bytes_total", "Bytes copied to remote storage.")
    copy_errors: int = metric("logbus_remote_copy_errors_total", "Copies to remote storage that failed.")
    deletes: int = metric("logbus_remote_delete_requests_total", "Segments whose deletion in remote storage was begun.")
    delete_errors: int = metric("logbus_remote_delete_errors_total", "Deletions in remote storage that failed.")


@frozen(eq=False)
class RemoteTools:
    """
    The tools that all tasks share.

    :ivar run: runs a function in a thread.
    :ivar new_id: makes segment ids.
    :ivar at: called with the name of each step before it is taken: a test may end it there.
    """

    broker_id: int
    logs: LogManager
    topic: RemoteLogMetadataTopic
    storage: RemoteStorage
    reader: RemoteReader
    run: Run
    throttle: CopyThrottle
    wall_ms: Callable[[], int]
    new_id: Callable[[], UUID]
    counters: RemoteCounters = field(factory=RemoteCounters)
    at: Callable[[str], None] = lambda step: None


@define(eq=False)
class RemoteLogTask:
    """
    The work on one partition, by its replica on this broker.

    :ivar swept_epoch: the leader epoch in which this broker looked for objects without metadata.
    """

    replica: Replica
    tools: RemoteTools
    swept_epoch: int = field(default=-1, init=False)
    _copying: set[UUID] = field(factory=set, init=False)
    # While deletions fail, each copy that fails leaves something that is to be deleted.
    _failed_copies: int = field(default=0, init=False)
    _paused_until_ms: int = field(default=0, init=False)
    _log = Logger()

    async def run(self) -> None:
        """
        Do what is to be done now.

        :raise RemoteStorageError: the store failed.
        :raise ApiError: the metadata topic, or a disk, failed.
        """
        log, remote = self.replica.log, self.replica.log.remote
        if remote is None:
            await self._delete_all(log)
            return
        await self.tools.topic.loaded(self.replica.topic_id, log.partition.partition)
        remote.is_loaded = True
        self._note_copied(log, remote)
        epoch = self.replica.partition.leader_epoch
        if not self._leads(epoch, log):
            return
        # A store that refuses deletions must not keep segments from being copied: the disk would become full.
        problems: list[LogbusError] = []
        if self.swept_epoch != epoch and await _succeeds(self._sweep(log, remote.index), problems):
            self.swept_epoch = epoch
        await self._close_gap(log, remote)
        if not problems:
            await _succeeds(self._delete(log, remote.index, epoch), problems)
        may_copy = not problems or self.tools.wall_ms() >= self._paused_until_ms
        while self._leads(epoch, log) and may_copy and not log.config.remote_log_copy_disable:
            found = next_to_copy(
                log.segments, max(remote.copied_end, log.log_start_offset), self.replica.last_stable_offset
            )
            if found is None:
                break
            try:
                await self._copy(log, remote, found)
            except RemoteStorageError:
                self._failed_copies += 1
                pause_ms = min(LONGEST_PAUSE_MS, 1000 << min(self._failed_copies, 20))
                self._paused_until_ms = self.tools.wall_ms() + pause_ms
                raise
            self._failed_copies = 0
        if self._leads(epoch, log):
            await self._retain(log, remote)
            if not problems:
                await self._delete(log, remote.index, epoch)
        if problems:
            raise problems[0]

    def _leads(self, epoch: int, log: Log) -> bool:
        partition = self.replica.partition
        # One that is cut off may have been replaced.
        leads = partition.is_leader and not partition.in_doubt
        return leads and partition.leader_epoch == epoch and self.replica.log is log

    def _note_copied(self, log: Log, remote: RemoteLog) -> None:
        # Nothing fills a gap before the local part: what is behind it is copied all the same, and once.
        starts, epochs = {log.log_start_offset, log.local_start_offset}, tuple(log.epochs)
        copied_end = max(remote.index.copied_end(start, epochs) for start in starts)
        # A former leader may have copied more than this log has, before an unclean election.
        remote.copied_end = min(copied_end, log.log_end_offset)

    # Copying.

    async def _copy(self, log: Log, remote: RemoteLog, found: SegmentToCopy) -> None:
        tools, local = self.tools, log.segments[found.position]
        if tools.logs.damage.is_known(log, local):
            raise self._damaged(local, "it is copied once it is repaired")
        epochs = epochs_between(log.epochs, local.base_offset, found.end_offset)
        aborted = aborted_index(local, log.segments, log.log_end_offset)
        has_aborted = aborted.count > 0
        small: dict[str, bytes] = {
            object_names.LEADER_EPOCHS: LeaderEpochCache(epochs_between(log.epochs, 0, found.end_offset)).encode()
        }
        if has_aborted:
            small[object_names.TRANSACTION_INDEX] = encode_aborted(list(aborted.entries()))
        small[object_names.SNAPSHOT] = await self._snapshot(log, found.end_offset)
        segment = RemoteLogSegment(
            self.replica.topic_id,
            log.partition,
            tools.new_id(),
            local.base_offset,
            found.end_offset,
            local.max_timestamp if local.max_timestamp >= 0 else local.modified_ms(),
            local.size,
            epochs,
            tools.broker_id,
            tools.wall_ms(),
            has_aborted,
        )
        self._copying.add(segment.segment_id)
        tools.counters.copies += 1
        try:
            tools.at("copy-started")
            await tools.topic.publish(segment, None)
            tools.at("upload")
            # The open file stays readable, whatever happens to its name meanwhile.
            try:
                file = local.log.get()
            except FileNotFoundError:
                raise ApiError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the segment {local.log.path} was deleted meanwhile"
                ) from None
            written = await tools.run(_upload, tools, segment, log.disk, local, file, local.size, small)
            tools.counters.copied_bytes += written
            tools.at("copy-finished")
            await self._finish(segment)
            tools.at("copied")
        except segment_upload.SegmentDamaged as problem:
            # It will be checked, and repaired from other replicas.
            log.suspected(local)
            tools.counters.copy_errors += 1
            raise self._damaged(local, str(problem)) from None
        except BaseException:
            tools.counters.copy_errors += 1
            raise
        finally:
            self._copying.discard(segment.segment_id)
        self._note_copied(log, remote)
        self._log.info(
            "{partition}: offsets {start} to {end} copied to remote storage, {size} bytes",
            partition=log.partition, start=segment.start_offset, end=segment.end_offset - 1, size=written,
        )  # fmt: skip

    async def _snapshot(self, log: Log, end_offset: int) -> bytes:
        """
        The producers behind a segment, without which a follower that begins there would take repeated batches for new
        ones. The snapshot on the disk may be damaged by a crash, or missing where the log was rolled while many were.
        """
        try:
            path = snapshot_path(log.directory, end_offset)
            data: bytes = await log.disk.submit(IOPool.BACKGROUND, log.disk.read, path)
            decode_snapshot(data, end_offset)
        except (FileNotFoundError, SnapshotCorrupt):
            clock = self.tools.logs.clock
            found = producers_as_of(log.disk, log.directory, lambda: log.segments, end_offset, clock, keeps=True)
            producers, disk = SnapshotEncoder(await found), log.disk
            data = await producers.finish(lambda: disk.submit(IOPool.READ, disk.exists, path))
        return data

    @staticmethod
    def _damaged(segment: Segment, problem: str) -> ApiError:
        return ApiError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"{segment.log.path} is damaged, and not copied to remote storage: {problem}"
        )

    async def _finish(self, segment: RemoteLogSegment) -> None:
        """Write the end of a copy. If another leader deletes the segment meanwhile, its objects go again."""
        finished = segment.with_state(COPY_FINISHED, self.tools.broker_id, self.tools.wall_ms())
        try:
            await self.tools.topic.publish(finished, segment.state)
        except ApiError as error:
            if error.code is ErrorCode.INVALID_UPDATE_VERSION:
                await self.tools.run(segment_upload.delete, self.tools.storage, segment)
            raise

    # Deleting.

    async def _delete(self, log: Log, index: RemoteLogIndex, epoch: int) -> None:
        """Delete what is not needed any more, and what others left unfinished."""
        for segment in to_delete(index, log.log_start_offset, tuple(log.epochs), epoch, self._copying):
            if not self._leads(epoch, log):
                return
            await delete_segment(self.tools, segment)

    async def _delete_all(self, log: Log) -> None:
        """The topic has remote storage no more: delete what is there, if that was asked for (KIP-950)."""
        epoch = self.replica.partition.leader_epoch
        if not self._leads(epoch, log) or not log.config.remote_log_delete_on_disable:
            return
        number = log.partition.partition
        if not self.tools.topic.partition_count:
            return
        await self.tools.topic.loaded(self.replica.topic_id, number)
        for segment in self.tools.topic.index(self.replica.topic_id, number):
            if not self._leads(epoch, log) or log.remote is not None:
                return
            await delete_segment(self.tools, segment)

    async def _sweep(self, log: Log, index: RemoteLogIndex) -> None:
        """
        Delete objects without metadata, which a former leader wrote after its copy had been given up. A copy's metadata
        are written before its objects; so, of what was listed before, nothing can still become known afterwards.
        """
        tools, where = self.tools, object_names.directory(log.partition, self.replica.topic_id)
        names = await tools.run(lambda: list(tools.storage.names(where)))
        await tools.topic.loaded(self.replica.topic_id, log.partition.partition)
        stray = [
            f"{where}/{name}"
            for name in names
            if (segment_id := object_names.segment_id_of(name)) is not None
            and index.get(segment_id) is None
            and segment_id not in self._copying
        ]
        if stray:
            self._log.warn(
                "{partition}: {count} objects without metadata are deleted from remote storage",
                partition=log.partition,
                count=len(stray),
            )
            await tools.run(tools.storage.delete, stray)

    # The log start offset.

    async def _close_gap(self, log: Log, remote: RemoteLog) -> None:
        """If the log's first records are neither local nor in remote storage, begin behind them."""
        start, epochs = log.log_start_offset, tuple(log.epochs)
        local = log.segments[0].base_offset
        if local <= start or remote.index.copied_end(start, epochs) > start:
            return
        first = remote.index.first_start(start, epochs)
        await self._start_at(log, local if first is None else min(first, local), "what was there is gone")
        self._note_copied(log, remote)

    async def _retain(self, log: Log, remote: RemoteLog) -> None:
        epochs: EpochStarts = tuple(log.epochs)
        local = sum(
            segment.size
            for i, segment in enumerate(log.segments)
            if (log.segments[i + 1].base_offset if i + 1 < len(log.segments) else log.log_end_offset)
            > remote.copied_end
        )
        retention = RemoteRetention(log.config.retention_ms, log.config.retention_bytes)
        start = retention.log_start_offset(
            remote.index, epochs, log.log_start_offset, local, self.tools.logs.housekeeping.steady_now_ms()
        )
        if start > log.log_start_offset:
            await self._start_at(log, start, "retention")

    async def _start_at(self, log: Log, offset: int, why: str) -> None:
        self._log.info(
            "{partition} begins at offset {offset} instead of {old}: {why}",
            partition=log.partition, offset=offset, old=log.log_start_offset, why=why,
        )  # fmt: skip
        await self.tools.logs.delete_records(log.partition, offset)


async def _succeeds(work: Awaitable[None], problems: list[LogbusError]) -> bool:
    """Whether some work is done; if not, the error is added."""
    try:
        await work
    except (RemoteStorageError, ApiError) as error:
        problems.append(error)
        return False
    return True


async def delete_segment(tools: RemoteTools, segment: RemoteLogSegment) -> None:
    """
    Delete one segment in remote storage.

    :raise RemoteStorageError: the store failed; the deletion is to be repeated.
    :raise ApiError: the metadata topic is not available, or the segment has another state by now.
    """
    tools.counters.deletes += 1
    try:
        if segment.state is not DELETE_STARTED:
            tools.at("delete-started")
            begun = segment.with_state(DELETE_STARTED, tools.broker_id, tools.wall_ms())
            await tools.topic.publish(begun, segment.state)
            segment = begun
        tools.at("delete")
        await tools.run(segment_upload.delete, tools.storage, segment)
        tools.at("delete-finished")
        await tools.topic.publish(segment.with_state(DELETE_FINISHED, tools.broker_id, tools.wall_ms()), DELETE_STARTED)
    except BaseException:
        tools.counters.delete_errors += 1
        raise
    tools.reader.drop(segment.segment_id)


def _upload(
    tools: RemoteTools,
    segment: RemoteLogSegment,
    disk: IDisk,
    local: Segment,
    file: object,
    size: int,
    small: dict[str, bytes],
) -> int:
    """Runs in a thread."""
    files = dict(small)
    for suffix, path in (
        (object_names.OFFSET_INDEX, local.path(file_names.OFFSET_INDEX)),
        (object_names.TIME_INDEX, local.path(file_names.TIME_INDEX)),
    ):
        try:
            files[suffix] = disk.read(path)
        except FileNotFoundError:
            # It can be rebuilt from the batches.
            continue
    return segment_upload.upload(
        tools.storage,
        segment,
        segment_upload.SegmentFiles(file, size, files),  # type: ignore[arg-type]
        tools.throttle.spend,
    )
