"""
A partition's log: append at the end, read anywhere (Kafka: UnifiedLog).

Both are plain calls that end in the page cache. :mod:`logbus.storage.log_flusher` syncs, and
:mod:`logbus.storage.log_recovery` opens a log after an unclean shutdown.

Invariants: ``log_start_offset <= log_end_offset``; ``flushed_end_offset <= log_end_offset``; the tuple of segments is
replaced, never changed, so that rolls and deletions do not disturb an iteration over it.
"""

from __future__ import annotations

import random
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode
from logbus.model import NO_EPOCH, OffsetAndEpoch, TimestampOffset, TopicPartition
from logbus.records.batch import (
    PREFIX_SIZE,
    BatchHeader,
    Marker,
    patched_prefix,
    rewrite_log_append_time,
)
from logbus.records.checksum import Buffer
from logbus.records.file_slice import FileSlice
from logbus.storage import offset_lookup, truncation
from logbus.storage.appends import append_marker
from logbus.storage.appends.append_as_follower import append_as_follower
from logbus.storage.appends.log_validator import LOG_APPEND_TIME, validate_for_topic
from logbus.storage.appends.recompression import PRODUCER, recompressed
from logbus.storage.filesystem.file_cache import FileCache
from logbus.storage.istorage import IDeletePolicy, IDisk
from logbus.storage.leader_epoch_cache import LeaderEpochCache
from logbus.storage.log_flusher import LogFlusher
from logbus.storage.log_owner import LogOwner, NoOwner
from logbus.storage.producers import aborted_transactions
from logbus.storage.producers.producer_state_manager import ProducerStateManager
from logbus.storage.segments.indexes import MAX_RELATIVE_OFFSET
from logbus.storage.segments.roll_policy import RollPolicy
from logbus.storage.segments.segment import Segment
from logbus.storage.segments.transaction_index import AbortedTransaction
from logbus.storage.settings import StorageSettings
from logbus.storage.state_loader import load_leader_epochs, load_producer_state, rebuild_epochs

_BASE_OFFSET = attrgetter("base_offset")
MAX_EPOCH = 2**31 - 1


class LogAppendInfo(NamedTuple):
    """
    The result of an append (Kafka: LogAppendInfo).

    :ivar log_append_time: the broker's timestamp set on the records, ms since 1970; −1 if the topic keeps the
        producer's.
    :ivar size: bytes written.
    :ivar duplicate: the batch was in the log already, at these offsets; nothing was written.
    """

    base_offset: int
    last_offset: int
    log_append_time: int
    log_start_offset: int
    size: int
    duplicate: bool = False


class ReadResult(NamedTuple):
    """
    The result of a read (Kafka: FetchDataInfo).

    :ivar data: whole batches, the first of which has the offset asked for or the next existing one; None: none yet.
    :ivar end_offset: an offset above all of them: that of the next record, or, where finding that would mean reading
        each header, one within the batch that follows.
    """

    data: FileSlice | None
    log_start_offset: int
    log_end_offset: int
    end_offset: int


@define(eq=False, repr=False)
class Log:
    """
    One partition's log on one disk.

    :ivar topic_id: None if unknown.
    :ivar topic_id_saved: whether it is on stable storage, which must come before anything in the log.
    :ivar directory: relative to the disk's; has no segments until :meth:`create` or recovery.
    :ivar config: may be replaced at any time.
    :ivar segments: oldest first, at least one; the last is the active one.
    :ivar unsynced_directories: directories with entries that are not on stable storage.
    :ivar log_start_offset: records before it are deleted, or about to be.
    :ivar log_end_offset: the offset of the next record.
    :ivar flushed_end_offset: everything below is on stable storage.
    :ivar high_watermark: everything below is committed; set by the partition. Retention stays below it.
    :ivar leader_epoch: in which this replica leads or led, −1 if it never did.
    :ivar is_closed: takes no more appends.
    :ivar is_touched: written to since the owner reset it.
    :ivar has_producers: False if certainly no idempotent producer ever wrote.
    :ivar aborting: the segments in which transactions were aborted.
    :ivar checkpointed_recovery_point: the recovery point that is on disk.
    :ivar cleaned_end_offset: everything below was compacted; see :mod:`logbus.storage.cleaner.log_cleaner`.
    """

    partition: TopicPartition
    disk: IDisk
    directory: str
    config: TopicConfig = field(factory=TopicConfig, kw_only=True)
    settings: StorageSettings = field(factory=StorageSettings, kw_only=True)
    files: FileCache = field(factory=lambda: FileCache(1000), kw_only=True)
    wall_clock: Callable[[], float] = field(kw_only=True)
    jitter: random.Random = field(kw_only=True)
    owner: LogOwner = field(factory=NoOwner, kw_only=True)
    topic_id: uuid.UUID | None = field(default=None, kw_only=True)
    topic_id_saved: bool = field(default=False, init=False)
    segments: tuple[Segment, ...] = field(default=(), init=False)
    unsynced_directories: set[str] = field(factory=set, init=False)
    log_start_offset: int = field(default=0, init=False)
    log_end_offset: int = field(default=0, init=False)
    flushed_end_offset: int = field(default=0, init=False)
    high_watermark: int = field(default=0, init=False)
    checkpointed_recovery_point: int = field(default=0, init=False)
    cleaned_end_offset: int = field(default=0, init=False)
    leader_epoch: int = field(default=NO_EPOCH, init=False)
    is_closed: bool = field(default=False, init=False)
    is_touched: bool = field(default=False, init=False)
    has_producers: bool = field(default=True, init=False)
    aborting: aborted_transactions.SegmentsWithAborts = field(
        factory=aborted_transactions.SegmentsWithAborts, init=False
    )
    _epochs: LeaderEpochCache | None = field(default=None, init=False)
    _producers: ProducerStateManager | None = field(default=None, init=False)
    _flusher: LogFlusher | None = field(default=None, init=False)
    _rolling: RollPolicy = field(init=False)
    _log = Logger()

    @_rolling.default
    def _when_to_roll(self) -> RollPolicy:
        return RollPolicy(self.jitter)

    def __repr__(self) -> str:
        return f"<Log {self.partition} [{self.log_start_offset}, {self.log_end_offset})>"

    # -- Becoming usable

    def create(self, start_offset: int = 0) -> None:
        """
        Create an empty log; its directory exists.

        :raises ApiError: there is no space.
        """
        segment = self.new_segment(start_offset)
        segment.create()
        self.restored((segment,), start_offset, start_offset, start_offset)
        self.unsynced_directories |= {self.directory, ""}
        self._epochs, self._producers = LeaderEpochCache(), ProducerStateManager(start_offset)

    def restored(self, segments: tuple[Segment, ...], start_offset: int, end_offset: int, flushed: int) -> None:
        """Take over the state found by recovery, or recorded in a clean shutdown's marker."""
        self.segments = segments
        for segment in segments:
            segment.on_damage = self.suspected
        self.log_start_offset = max(start_offset, segments[0].base_offset)
        self.log_end_offset = end_offset
        self.flushed_end_offset = flushed
        self.high_watermark = self.log_start_offset

    def new_segment(self, base_offset: int) -> Segment:
        """A segment that is neither on disk nor in the log yet."""
        segment = Segment(self.disk, self.files, self.directory, base_offset, int(self.wall_clock() * 1000))
        segment.on_damage = self.suspected
        return segment

    def suspected(self, segment: Segment) -> None:
        """Report that a segment may be damaged: something in it is not a batch."""
        self.owner.suspected(self, segment)

    @property
    def flusher(self) -> LogFlusher:
        """The log's flusher. Using it makes the log one that can be written to."""
        flusher = self._flusher
        if flusher is None:
            if self.is_closed:
                # It was deleted, or is moving to another log directory: a retry gets the right error.
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.partition}: the log was closed")
            aborted_transactions.aborted_index(self, self.segments[-1])
            self.segments[-1].activate()
            flusher = self._flusher = LogFlusher(self)
            flusher.resume()
        return flusher

    @property
    def is_active(self) -> bool:
        """Whether the log was written to since it was opened."""
        return self._flusher is not None

    @property
    def epochs(self) -> LeaderEpochCache:
        """The leader epochs; read from disk on first use."""
        if self._epochs is None:
            epochs = load_leader_epochs(self.disk, self.directory, self.log_start_offset, self.log_end_offset)
            if epochs.latest == NO_EPOCH and self.log_end_offset > self.log_start_offset:
                # Without leader epochs the point where this log and another replica's diverge could not be found.
                epochs = rebuild_epochs(self.segments)
                epochs.truncate_start(self.log_start_offset)
            self._epochs = epochs
        return self._epochs

    @epochs.setter
    def epochs(self, epochs: LeaderEpochCache) -> None:
        self._epochs = epochs

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

    @property
    def producers_in_memory(self) -> ProducerStateManager | None:
        """The producer state, if it was used since the log was opened."""
        return self._producers

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

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
        """
        return aborted_transactions.aborted_transactions(self, first_offset, end_offset)

    def configure(self, config: TopicConfig) -> None:
        """Replace the topic's settings, effective from the next check on."""
        self.config = config

    def become_leader(self, leader_epoch: int) -> None:
        """Lead in ``leader_epoch`` from the log's end on. The epoch is recorded with its first batch."""
        self.leader_epoch = leader_epoch

    @property
    def recovery_point(self) -> int:
        """The offset below which recovery may trust the log: batches are synced, and their indexes are, too."""
        flusher, point = self._flusher, self.flushed_end_offset
        if flusher is not None:
            if flusher.unindexed:
                point = min(point, flusher.unindexed[0].base_offset)
            aborted_from = self.segments[-1].aborted_unsynced_from
            if aborted_from is not None and aborted_from < point:
                # Recovery finds aborted transactions only by reading from there on.
                point = aborted_from
        return point

    # -- Appending

    def append_as_leader(
        self,
        data: Buffer,
        leader_epoch: int,
        now_ms: int | None = None,
        zstd_allowed: bool = True,
        from_coordinator: bool = False,
    ) -> LogAppendInfo:
        """
        Validate a producer's batch, assign its offsets, and write it (Kafka: UnifiedLog.appendAsLeader).

        :param data: the bytes of one partition in a Produce request; neither kept nor changed.
        :param leader_epoch: goes into the batch.
        :param now_ms: the broker's time, ms since 1970; by default that of the wall clock.
        :param zstd_allowed: whether the producer's request version knows zstd.
        :param from_coordinator: see :func:`.validate_for_topic`.
        :raises ApiError: the batch is refused, or there is no space; nothing was written.
        :raises StorageError: the disk failed, and is offline.
        """
        if now_ms is None:
            now_ms = int(self.wall_clock() * 1000)
        config = self.config
        header = validate_for_topic(data, config, now_ms, zstd_allowed, from_coordinator)
        flusher = self._flusher or self.flusher
        append_time = -1
        if header.producer_id >= 0:
            written = self.producers.check(header)
            if written is not None:
                stamped = written.timestamp if config.message_timestamp_type == LOG_APPEND_TIME else -1
                return LogAppendInfo(
                    written.first_offset, written.last_offset, stamped, self.log_start_offset, 0, duplicate=True
                )
        if config.compression_type != PRODUCER:
            data, header = recompressed(data, header, config)
        if config.message_timestamp_type == LOG_APPEND_TIME:
            append_time = now_ms
            data = bytearray(data)
            rewrite_log_append_time(data, 0, now_ms)
            header = header._replace(max_timestamp=now_ms)

        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        segment = self.segment_for(header, last_offset, now_ms)
        prefix = patched_prefix(header, base_offset, leader_epoch)
        segment.log.get().write(segment.size, (prefix, memoryview(data)[PREFIX_SIZE:]))
        self.wrote(segment, flusher, (header,), base_offset, leader_epoch)
        return LogAppendInfo(base_offset, last_offset, append_time, self.log_start_offset, header.length + 12)

    def append_as_follower(self, data: Buffer, leader_epoch: int = MAX_EPOCH, gaps: bool = True) -> int:
        """
        Append batches fetched from the leader, with their offsets and epochs as they are.

        :param data: whole batches; a partial one at the end is ignored.
        :param leader_epoch: the leader's epoch: no batch has a later one.
        :param gaps: whether offsets may be missing anywhere, as after compaction; otherwise only where another batch
            follows behind the gap.
        :returns: the log's new end.
        :raises ApiError: CORRUPT_MESSAGE: a batch is damaged, or does not lie behind the log's end. Batches before it
            were appended.
        :raises StorageError: the disk failed, and is offline.
        """
        return append_as_follower(self, data, leader_epoch, gaps)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: Marker,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> LogAppendInfo:
        """
        End a producer's transaction, as its coordinator decided. A repeated marker is written again.

        :param leader_epoch: goes into the batch.
        :param now_ms: the broker's time, ms since 1970.
        :param transaction_version: from 2 on ``producer_epoch`` is the one after that of the transaction (KIP-890).
        :raises ApiError: INVALID_PRODUCER_EPOCH: the producer has a newer epoch, or with version 2 its transaction of
            that epoch is open; TRANSACTION_COORDINATOR_FENCED: a newer coordinator has written since;
            KAFKA_STORAGE_ERROR: there is no space. Nothing was written.
        :raises StorageError: the disk failed, and is offline.
        """
        header = append_marker.append_marker(
            self, producer_id, producer_epoch, marker, leader_epoch, now_ms, transaction_version
        )
        return LogAppendInfo(header.base_offset, header.last_offset, -1, self.log_start_offset, header.size)

    def wrote(
        self,
        segment: Segment,
        flusher: LogFlusher,
        headers: Sequence[BatchHeader],
        base_offset: int,
        leader_epoch: int,
        markers: Iterable[Marker | None] = (),
        in_row: bool = False,
    ) -> None:
        """
        Update the log's state after batches of one epoch were written: no step of it may fail.

        :param base_offset: of the first batch; the others follow without a gap.
        :param markers: of the control batches among them, in order.
        :param in_row: they have no producer id, or are consecutive batches of one producer: see
            :meth:`.ProducerStateManager.append_consecutive`.
        """
        config = self.config
        producers = self.producers
        left = iter(markers)
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, base_offset)
        size, end = segment.size, base_offset
        for header in headers:
            segment.appended(header, end, config.index_interval_bytes)
            if header.producer_id >= 0 and not in_row:
                if header.control:
                    aborted = producers.appended(header, end, next(left, None))
                    if aborted is not None:
                        segment.aborted.append(aborted)
                    producers.transactions.committed(self.high_watermark)
                else:
                    producers.appended(header, end)
            end += header.last_offset_delta + 1
        if in_row and headers[0].producer_id >= 0:
            producers.append_consecutive(headers, end)
        self.log_end_offset = producers.end_offset = end
        if not self.is_touched:
            self.is_touched = True
            self.owner.touched(self)
        flusher.wrote(segment, segment.size - size)
        if end - self.flushed_end_offset >= config.flush_messages:
            flusher.request()

    def segment_for(self, header: BatchHeader, last_offset: int, now_ms: int) -> Segment:
        """
        The segment for a batch: the active one, or a new one if the batch does not fit or the active one is too old.
        """
        segment = self.segments[-1]
        if last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
            # A leader's log can have a gap this wide: the segment begins behind it.
            return self.roll(header.base_offset if last_offset - self.log_end_offset > MAX_RELATIVE_OFFSET else None)
        if segment.size and self.is_roll_due(segment, header.length + 12, header.max_timestamp, now_ms):
            return self.roll()
        return segment

    def is_roll_due(self, segment: Segment, size: int, max_timestamp: int, now_ms: int, batches: int = 1) -> bool:
        """Whether an append needs a new segment; see :meth:`.RollPolicy.is_due`."""
        return self._rolling.is_due(segment, size, max_timestamp, self.config, now_ms, batches)

    def roll(self, base_offset: int | None = None) -> Segment:
        """
        Begin a new segment at the log's end, or further on; the old one is synced in the background.

        :raises ApiError: there is no space for a new file; the log is as it was.
        """
        flusher = self.flusher
        old = self.segments[-1]
        segment = self.new_segment(
            self.log_end_offset if base_offset is None else max(base_offset, self.log_end_offset)
        )
        if segment.base_offset == old.base_offset:
            return old
        segment.create()
        old.seal()
        self.segments = (*self.segments, segment)
        self._rolling.rolled()
        flusher.rolled(old)
        return segment

    def close_active_segment(self) -> None:
        """
        Begin a new segment at the log's end without reading the active one, which may be damaged.

        :raises ApiError: there is no space for a new file; the log is as it was.
        """
        if self._flusher is not None:
            self.roll()
        elif self.log_end_offset > self.segments[-1].base_offset:
            # It was not written to since the log was opened: its indexes are complete, or rebuilt when needed.
            old, segment = self.segments[-1], self.new_segment(self.log_end_offset)
            segment.create()
            if old.is_active:
                old.seal()
            self.segments = (*self.segments, segment)
            self.unsynced_directories.add(self.directory)

    # -- Reading

    def read(self, offset: int, max_bytes: int, bound: int | None = None, min_one_batch: bool = True) -> ReadResult:
        """
        Read whole batches, beginning with the one that has ``offset`` or the next existing offset.

        :param max_bytes: at most that many bytes, unless the first batch alone is larger.
        :param bound: no record at or above this offset; the log's end by default.
        :param min_one_batch: return the first batch however large it is (KIP-74).
        :raises ApiError: OFFSET_OUT_OF_RANGE.
        """
        end = self.log_end_offset
        if offset < self.log_start_offset or offset > end:
            raise self.out_of_range(offset)
        if bound is None or bound > end:
            bound = end
        found = None
        if max_bytes < 0:
            max_bytes = 0
        if offset < bound and (max_bytes or min_one_batch):
            segments = self.segments
            segment = segments[-1]
            if offset >= segment.base_offset:
                start = segment.find(offset)
                if start < segment.size:
                    found = segment.slice(start, max_bytes, bound, end, min_one_batch)
            else:
                found = self._read_older(segments, offset, max_bytes, bound, min_one_batch)
        data, below = found or (None, offset)
        return ReadResult(data, self.log_start_offset, end, below)

    def _read_older(
        self, segments: tuple[Segment, ...], offset: int, max_bytes: int, bound: int, min_one_batch: bool
    ) -> tuple[FileSlice, int] | None:
        for i in range(max(0, bisect_right(segments, offset, key=_BASE_OFFSET) - 1), len(segments)):
            segment = segments[i]
            if segment.base_offset >= bound:
                break
            start = segment.find(offset)
            # The segment's last offsets were compacted away: continue in the next segment.
            if start < segment.size:
                after = segments[i + 1].base_offset if i + 1 < len(segments) else self.log_end_offset
                return segment.slice(start, max_bytes, bound, after, min_one_batch)
        return None

    def out_of_range(self, offset: int) -> ApiError:
        """The error for an offset that is not in the log."""
        return ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.partition}: offset {offset} is not within {self.log_start_offset} to {self.log_end_offset}",
        )

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record whose timestamp is at least ``timestamp``; None if there is none."""
        return offset_lookup.finish(self.search_timestamp(timestamp))

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record with the largest timestamp; None in an empty log (KIP-734)."""
        return offset_lookup.finish(self.search_max_timestamp())

    def search_timestamp(self, timestamp: int) -> offset_lookup.Search:
        """Like :meth:`offset_for_timestamp`, as a generator that searches in small steps."""
        return offset_lookup.offset_for_timestamp(self, timestamp)

    def search_max_timestamp(self) -> offset_lookup.Search:
        """Like :meth:`max_timestamp_offset`, as a generator that searches in small steps."""
        return offset_lookup.max_timestamp_offset(self)

    def offsets_before(self, timestamp: int, max_offsets: int, bound: int | None = None) -> list[int]:
        """
        Base offsets of segments last modified at or before ``timestamp``, latest first (ListOffsets version 0).

        :param bound: replaces every offset above it: readers see nothing beyond.
        """
        return offset_lookup.offsets_before(self, timestamp, max_offsets, bound)

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

    # -- Truncation

    def advance_start(self, offset: int) -> bool:
        """
        Delete the records before ``offset``; retention removes their segments. The start never goes back.

        :returns: whether the start moved.
        :raises ApiError: OFFSET_OUT_OF_RANGE: the log ends before it.
        """
        if offset > self.log_end_offset:
            raise self.out_of_range(offset)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_start(offset)
        return True

    def delete_expired(self, policy: IDeletePolicy, now_ms: int) -> int:
        """
        Remove the oldest segments that a policy selects, but none that reaches the high watermark.

        :returns: the number of segments removed.
        :raises ApiError: the active segment must be rolled first, and there is no space for a new one.
        """
        return truncation.delete_expired(self, policy, now_ms)

    def truncate_to(self, offset: int) -> None:
        """
        Remove the batches at ``offset`` and behind it, and one that contains it.

        The checkpointed recovery point must not be above ``offset``: :meth:`LogManager.truncate` lowers it first.
        """
        truncation.truncate_to(self, offset)

    def truncate_fully(self, offset: int) -> None:
        """Drop everything and continue at ``offset``: the leader's log begins behind our end."""
        truncation.truncate_fully(self, offset)

    # -- Durability

    def flush(self) -> Deferred[None]:
        """
        Fires when everything that is in the log now is on stable storage. Concurrent callers share a sync.

        :raises StorageError: (as a failure) the sync failed; the directory is offline, and confirms nothing more.
        """
        if self.flushed_end_offset >= self.log_end_offset and self.disk.failure is None:
            return succeed(None)
        return self.flusher.flush()

    def close(self) -> Deferred[None]:
        """
        Refuse further appends and flushes; fires when no flush runs. Files are closed; unsynced data stays unsynced.

        A clean shutdown writes back first: see :meth:`LogFlusher.write_back_and_wait`.
        """

        def close_files(_: object) -> None:
            for segment in self.segments:
                segment.close()

        self.is_closed = True
        # Index entries that are not in the files are given up.
        if any(segment.aborted_unsynced_from is not None for segment in self.segments):
            self.flushed_end_offset = self.recovery_point
        flusher, self._flusher = self._flusher, None
        return (flusher.close() if flusher is not None else succeed(None)).addCallback(close_files)

    def reopen(self) -> None:
        """Take appends again after :meth:`close`."""
        self.is_closed = False
