"""
Truncates logs durably (Kafka: LogManager.truncateTo, truncateFullyAndStartAt).

Checkpoints are lowered before the log is cut, and the cut is synced before anything is written in its place: at no
moment would recovery after a crash trust what is not there, or mix old and new records.

The producers as of the new end are known before anything is appended. They are read from a snapshot, in a thread, and
from the batches behind it, a few milliseconds at a time: of a large segment that takes a part of a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from attrs import field, frozen
from twisted.internet.defer import DeferredLock, FirstError, gatherResults
from twisted.internet.interfaces import IReactorTime

from logbus.coroutines import returns_deferred
from logbus.errors import StorageError
from logbus.model import TopicPartition
from logbus.storage.auxiliary_state import AuxiliaryState, begin_with, write_files
from logbus.storage.cleaner.log_cleaner import LogCleaner
from logbus.storage.istorage import IOPool
from logbus.storage.log import Log
from logbus.storage.log_directory import LogDirectory
from logbus.storage.producers.producer_replay import producers_as_of
from logbus.storage.producers.producer_snapshot import snapshot_offsets
from logbus.storage.repair.log_repairer import LogRepairer
from logbus.storage.segments.segment import segment_with
from logbus.storage.truncation import clear, cut, truncate_fully, unshare


@frozen
class LogTruncator:
    """
    Truncates the logs of a broker.

    :ivar _clock: ends slices of work.
    :ivar _cleaner: paused meanwhile, as ``_repairer`` is: the segments that they put in place later would bring back
        what is truncated now.
    :ivar turn: held meanwhile; who holds it has logs that are not truncated.
    """

    _directories: Sequence[LogDirectory]
    _cleaner: LogCleaner
    _repairer: LogRepairer
    _clock: IReactorTime
    turn: DeferredLock = field(factory=DeferredLock, init=False)

    @returns_deferred
    async def truncate(self, offsets: Mapping[TopicPartition, int]) -> None:
        """
        Truncate logs durably. If one is cut below its recovery point, the lower recovery point is checkpointed first:
        otherwise recovery after a crash would trust bytes that replaced synced ones. Nothing may be appended to the
        logs until this fires; then the truncation is on stable storage, too.

        :param offsets: for each partition, the first offset to remove.
        :raise StorageError: (as a failure) the disk failed.
        """
        logs = [log for directory in self._directories for tp in offsets if (log := directory.logs.get(tp)) is not None]
        async with self._repairer.paused(logs), self._cleaner.paused(logs), self.turn:
            await self._truncate_durably(offsets)

    async def _truncate_durably(self, offsets: Mapping[TopicPartition, int]) -> None:
        for directory in self._directories:
            logs = [(directory.logs[tp], offset) for tp, offset in offsets.items() if tp in directory.logs]
            lower = [(log, offset) for log, offset in logs if offset < log.checkpointed_recovery_point]
            for log, _ in lower:
                if log.is_active:
                    # A write-back in progress could raise the recovery point again, or write a snapshot above it.
                    await log.flusher.write_back_and_wait()
                    log.flusher.truncated()
            for log, offset in lower:
                log.flushed_end_offset = min(log.flushed_end_offset, offset)
            if lower:
                await directory.checkpoint_recovery_points()
            given_up = [(log, offset) for log, offset in logs if offset < log.high_watermark]
            for log, offset in given_up:
                log.high_watermark = offset
            if given_up:
                # Otherwise it would be applied after a restart to the records that replace these.
                await directory.checkpoint_high_watermarks()
            shorter = [(log, offset) for log, offset in logs if offset < log.log_end_offset]
            before = [(log, log.log_start_offset, log.cleaned_end_offset) for log, _ in shorter]
            for log, offset in shorter:
                if offset > log.segments[0].base_offset:
                    await unshare(log.segments[segment_with(log.segments, offset)])
                # If that cannot be done, the log stays as it is. Some 10 ms with a thousand segments, which is rare.
                snapshots = snapshot_offsets(log.disk, log.directory)
                await self._clear(log, cut(log, offset), snapshots)
            # Before anything is written in their place: a crash must not mix old and new records.
            try:
                await gatherResults([log.flusher.flush() for log, _ in shorter], consumeErrors=True)
            except FirstError as e:
                e.subFailure.raiseException()
            # Otherwise what is written now would be taken for deleted, or for compacted, after a crash.
            if any(log.log_start_offset < start for log, start, _ in before):
                await directory.checkpoint_start_offsets()
            if any(log.cleaned_end_offset < cleaned for log, _, cleaned in before):
                await directory.checkpoint_cleaned_offsets()
            for log, _ in shorter:
                await self._load_producers(log)

    async def _load_producers(self, log: Log) -> None:
        """Load a log's producers in slices, unless somebody uses them meanwhile: then they are loaded at once."""
        end = log.log_end_offset
        try:
            producers = await producers_as_of(
                log.disk,
                log.directory,
                lambda: log.segments,
                end,
                self._clock,
                is_wanted=lambda: log.producers_in_memory is None,
            )
        except StorageError:
            # A damaged batch: the log is truncated, and who uses its producers gets the error.
            return
        if log.producers_in_memory is None and log.log_end_offset == end:
            log.producers = producers

    @staticmethod
    async def _clear(log: Log, gone: Sequence[str], snapshots: Sequence[int]) -> None:
        """Rename the files of segments in a thread: those of a thousand would hold the reactor for 50 ms."""
        renamed: list[str] = await log.disk.submit(
            IOPool.BACKGROUND, clear, log.disk, log.directory, gone, log.log_end_offset, snapshots
        )
        log.owner.remove_later(log, renamed)

    @returns_deferred
    async def restart(self, partition: TopicPartition, offset: int) -> None:
        """
        Drop all records of a log, and continue at ``offset``, which may be anywhere, even behind its end. Nothing may
        be appended to it until this fires; then that is on stable storage.
        """
        directory = next((each for each in self._directories if each.is_online and partition in each.logs), None)
        if directory is None:
            return
        log = directory.logs[partition]
        async with self._repairer.paused([log]), self._cleaner.paused([log]), self.turn:
            # Remove the records first, as in any truncation; then move the empty log.
            await self._truncate_durably({partition: min(offset, log.segments[0].base_offset)})
            if offset != log.log_end_offset:
                truncate_fully(log, offset)
                await log.flusher.flush()

    @returns_deferred
    async def restart_behind(self, partition: TopicPartition, state: AuxiliaryState) -> None:
        """
        Drop all local records of a log, and continue behind what only remote storage has (KIP-405). Nothing may be
        appended to it until this fires; then that is on stable storage. After a crash meanwhile, the log is empty, and
        begins where it did, or with the state.

        :raise StorageError: (as a failure) the disk failed.
        :raise SnapshotCorrupt: (as a failure) the state of the producers is damaged.
        """
        directory = next((each for each in self._directories if each.is_online and partition in each.logs), None)
        if directory is None:
            return
        log = directory.logs[partition]
        async with self._repairer.paused([log]), self._cleaner.paused([log]), self.turn:
            # Otherwise recovery would take its first segment's offset for its start.
            await directory.checkpoint_start_offsets()
            await self._truncate_durably({partition: log.segments[0].base_offset})
            # Before the segment: a log that begins there has the state.
            await log.disk.submit(
                IOPool.BACKGROUND, partial(write_files, log.disk, log.directory, state, is_synced=True)
            )
            begin_with(log, state)
            await log.flusher.flush()
        await directory.checkpoint_start_offsets()
