"""
The state of a log: its segments, its offsets, and what is known of its epochs, producers and transactions.

The producer state is read from disk on first use: most logs of a broker are never asked for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from attrs import define, field

from logbus.model import NO_EPOCH, OffsetAndEpoch, TopicPartition
from logbus.storage.istorage import IDisk
from logbus.storage.leader_epoch_cache import LeaderEpochCache
from logbus.storage.producers.aborted_transactions import SegmentsWithAborts
from logbus.storage.producers.producer_state_loader import load_producer_state
from logbus.storage.producers.producer_state_manager import ProducerStateManager
from logbus.storage.remote.remote_log import RemoteLog, merged
from logbus.storage.segments.segment import Segment
from logbus.storage.segments.transaction_index import AbortedTransaction


@define(eq=False, repr=False)
class LogState:
    """
    The state of one partition's log on one disk.

    :ivar topic_id: None if unknown.
    :ivar topic_id_saved: whether it is on stable storage, which must come before anything in the log.
    :ivar directory: relative to the disk's.
    :ivar segments: oldest first, at least one; the last is the active one.
    :ivar unsynced_directories: directories with entries that are not on stable storage.
    :ivar log_start_offset: records before it are deleted, or about to be.
    :ivar saved_start_offset: the one that is checkpointed, until the log has its topic's settings: the records between
        it and the first segment may be in remote storage. None: none is checkpointed, or it has its settings.
    :ivar is_start_saved: whether the log start offset is certainly checkpointed, whatever the first segment is.
    :ivar remote: the log's part in remote storage, if its topic has one.
    :ivar log_end_offset: the offset of the next record.
    :ivar flushed_end_offset: everything below is on stable storage.
    :ivar high_watermark: everything below is committed; set by the partition. Retention stays below it.
    :ivar checkpointed_recovery_point: the recovery point that is on disk.
    :ivar cleaned_end_offset: everything below was compacted; see :mod:`logbus.storage.cleaner.log_cleaner`.
    :ivar epochs: the leader epochs of its batches.
    :ivar leader_epoch: in which this replica leads or led, −1 if it never did.
    :ivar has_producers: False if certainly no idempotent producer ever wrote.
    :ivar aborting: the segments in which transactions were aborted.
    """

    partition: TopicPartition
    disk: IDisk
    directory: str
    topic_id: uuid.UUID | None = field(default=None, kw_only=True)
    topic_id_saved: bool = field(default=False, init=False)
    segments: tuple[Segment, ...] = field(default=(), init=False)
    unsynced_directories: set[str] = field(factory=set, init=False)
    log_start_offset: int = field(default=0, init=False)
    saved_start_offset: int | None = field(default=None, init=False)
    is_start_saved: bool = field(default=False, init=False)
    remote: RemoteLog | None = field(default=None, init=False)
    log_end_offset: int = field(default=0, init=False)
    flushed_end_offset: int = field(default=0, init=False)
    high_watermark: int = field(default=0, init=False)
    checkpointed_recovery_point: int = field(default=0, init=False)
    cleaned_end_offset: int = field(default=0, init=False)
    epochs: LeaderEpochCache = field(factory=LeaderEpochCache, init=False)
    leader_epoch: int = field(default=NO_EPOCH, init=False)
    has_producers: bool = field(default=True, init=False)
    aborting: SegmentsWithAborts = field(factory=SegmentsWithAborts, init=False)
    _producers: ProducerStateManager | None = field(default=None, init=False)

    @property
    def local_start_offset(self) -> int:
        """The first offset that is on the disk (Kafka: localLogStartOffset)."""
        return max(self.log_start_offset, self.segments[0].base_offset)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    # -- Leader epochs

    def become_leader(self, leader_epoch: int) -> None:
        """Lead in ``leader_epoch`` from the log's end on. The epoch is recorded with its first batch."""
        self.leader_epoch = leader_epoch

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """
        The end offset of a leader epoch; see :meth:`LeaderEpochCache.end_offset_for`. The epoch this replica leads in
        is known even before its first batch, and begins at the log's end then.
        """
        latest = self.epochs.latest
        if latest < epoch <= self.leader_epoch:
            # For an unknown epoch, answer with the largest known one before it; without any, with the log's end.
            known = epoch if epoch == self.leader_epoch or latest == NO_EPOCH else latest
            return OffsetAndEpoch(self.log_end_offset, known)
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at ``offset``, −1 if unknown."""
        return self.epochs.epoch_at(offset)

    # -- Producers and transactions

    @property
    def producers(self) -> ProducerStateManager:
        """The producer state; read from disk on first use."""
        if self._producers is None:
            if self.has_producers:
                self._producers = load_producer_state(self.disk, self.directory, self.segments, self.log_end_offset)
            else:
                self._producers = ProducerStateManager(self.log_end_offset)
        return self._producers

    @producers.setter
    def producers(self, producers: ProducerStateManager) -> None:
        self._producers = producers

    def forget_producers(self) -> None:
        """Read the producer state from disk again on next use: the log was truncated."""
        self._producers, self.has_producers = None, True

    @property
    def producers_in_memory(self) -> ProducerStateManager | None:
        """The producer state, if it was used since the log was opened."""
        return self._producers

    def last_stable_offset(self, high_watermark: int) -> int:
        """
        The last stable offset (KIP-98): the first offset of the oldest transaction that is open, or whose marker is not
        below the high watermark; the high watermark without one. It changes only with the high watermark or the log
        start offset, below which it never lies.
        """
        if self._producers is None and not self.has_producers:
            return high_watermark
        stable = self.producers.transactions.last_stable_offset(high_watermark)
        return stable if stable >= self.log_start_offset else min(self.log_start_offset, high_watermark)

    def aborted_transactions(self, first_offset: int, end_offset: int) -> Sequence[AbortedTransaction]:
        """
        The aborted transactions with records from ``first_offset`` on and below ``end_offset``, by first offset.

        :raises StorageError: the disk failed, or the log is damaged.
        :raises NotFetched: an index must be loaded from remote storage first.
        """
        if first_offset < self.segments[0].base_offset and self.remote is not None:
            found, is_complete = self.remote.aborted_transactions(first_offset, end_offset, tuple(self.epochs))
            if is_complete:
                return found
            local = self.aborting.transactions(self.segments, self.log_end_offset, first_offset, end_offset)
            return merged(found, local)
        return self.aborting.transactions(self.segments, self.log_end_offset, first_offset, end_offset)
