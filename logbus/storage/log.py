"""
A partition's log: append at the end, read anywhere.

Both are plain calls that end in the page cache. What waits for the device is in :mod:`logbus.storage.flush`, how a log
comes back after a stop in :mod:`logbus.storage.recovery`.

Invariants: ``log_start_offset <= log_end_offset``; ``flushed_end_offset <= log_end_offset``; the tuple of segments is
replaced, never changed, so that whoever iterates over it is not disturbed by rolls and deletions.
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

from logbus.config.topic import TopicConfig
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
from logbus.records.slices import FileSlice
from logbus.storage import lookup, marking, shortening, transactions
from logbus.storage.aborted import AbortedTransaction
from logbus.storage.copying import append_from_leader
from logbus.storage.epochs import EpochHistory
from logbus.storage.files import FileCache
from logbus.storage.flush import Durability
from logbus.storage.index import MAX_RELATIVE_OFFSET
from logbus.storage.istorage import IDeletePolicy, IDisk
from logbus.storage.owner import Alone, LogOwner
from logbus.storage.producers import Producers
from logbus.storage.recompression import PRODUCER, as_the_topic_wants
from logbus.storage.restore import load_epochs, load_producers, relearn_epochs
from logbus.storage.rolling import Rolling
from logbus.storage.segment import Segment
from logbus.storage.settings import StorageSettings
from logbus.storage.validation import LOG_APPEND_TIME, validate_for_topic

_BASE_OFFSET = attrgetter("base_offset")
MAX_EPOCH = 2**31 - 1


class Appended(NamedTuple):
    """
    What became of a batch.

    :ivar log_append_time: the broker's time stamped on the records, ms since 1970; −1 if the topic keeps the
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
    An answer to a read.

    :ivar data: whole batches, the first of which has the offset asked for or the next one there is; None: nothing yet.
    :ivar end_offset: they lie below this offset; where it would take a look at each to know the one behind them, it is
        one in the batch that follows.
    """

    data: FileSlice | None
    log_start_offset: int
    log_end_offset: int
    end_offset: int


@define(eq=False, repr=False)
class Log:
    """
    One partition's log on one disk.

    :ivar topic_id: None if the log does not know.
    :ivar topic_id_saved: it is known to be on stable storage, as it must be before anything in the log counts.
    :ivar directory: relative to the disk's; empty of segments until :meth:`create` or recovery.
    :ivar config: may be replaced at any time.
    :ivar segments: oldest first, at least one; the last is the active one.
    :ivar unsynced_directories: those with names in them that are not on stable storage.
    :ivar log_start_offset: records before it are gone, or as good as gone.
    :ivar log_end_offset: the offset of the next record.
    :ivar flushed_end_offset: everything below is on stable storage.
    :ivar high_watermark: everything below is committed; set by the partition. Retention stays below it.
    :ivar leader_epoch: in which this replica leads or led, −1 if it never did.
    :ivar is_closed: no appends any more.
    :ivar is_touched: written to since the owner looked.
    :ivar has_producers: False if it is known that no idempotent producer ever wrote.
    :ivar aborting: the segments in which transactions were aborted.
    :ivar checkpointed_recovery_point: the recovery point that is on disk.
    :ivar cleaned_end_offset: compaction has seen everything below; see :mod:`logbus.storage.cleaner`.
    """

    partition: TopicPartition
    disk: IDisk
    directory: str
    config: TopicConfig = field(factory=TopicConfig, kw_only=True)
    settings: StorageSettings = field(factory=StorageSettings, kw_only=True)
    files: FileCache = field(factory=lambda: FileCache(1000), kw_only=True)
    wall_clock: Callable[[], float] = field(kw_only=True)
    jitter: random.Random = field(kw_only=True)
    owner: LogOwner = field(factory=Alone, kw_only=True)
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
    aborting: transactions.AbortingSegments = field(factory=transactions.AbortingSegments, init=False)
    _epochs: EpochHistory | None = field(default=None, init=False)
    _producers: Producers | None = field(default=None, init=False)
    _durability: Durability | None = field(default=None, init=False)
    _rolling: Rolling = field(init=False)
    _log = Logger()

    @_rolling.default
    def _when_to_roll(self) -> Rolling:
        return Rolling(self.jitter)

    def __repr__(self) -> str:
        return f"<Log {self.partition} [{self.log_start_offset}, {self.log_end_offset})>"

    # -- Becoming usable

    def create(self, start_offset: int = 0) -> None:
        """
        Begin an empty log; its directory exists.

        :raises ApiError: there is no space.
        """
        segment = self.new_segment(start_offset)
        segment.create()
        self.restored((segment,), start_offset, start_offset, start_offset)
        self.unsynced_directories |= {self.directory, ""}
        self._epochs, self._producers = EpochHistory(), Producers(start_offset)

    def restored(self, segments: tuple[Segment, ...], start_offset: int, end_offset: int, flushed: int) -> None:
        """Take over what recovery, or a clean shutdown's marker, says of the log."""
        self.segments = segments
        for segment in segments:
            segment.on_damage = self.suspected
        self.log_start_offset = max(start_offset, segments[0].base_offset)
        self.log_end_offset = end_offset
        self.flushed_end_offset = flushed
        self.high_watermark = self.log_start_offset

    def new_segment(self, base_offset: int) -> Segment:
        """A segment that is not on disk yet, nor in the log."""
        segment = Segment(self.disk, self.files, self.directory, base_offset, int(self.wall_clock() * 1000))
        segment.on_damage = self.suspected
        return segment

    def suspected(self, segment: Segment) -> None:
        """Something that is no batch was met in a segment: have it checked."""
        self.owner.suspected(self, segment)

    @property
    def durability(self) -> Durability:
        """What is not on stable storage yet. Asking for it makes the log one that can be written to."""
        durability = self._durability
        if durability is None:
            if self.is_closed:
                # It was deleted, or is moving to another log directory: whoever asks again learns which.
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.partition}: the log was closed")
            transactions.aborted_index(self, self.segments[-1])
            self.segments[-1].activate()
            durability = self._durability = Durability(self)
            durability.resume()
        return durability

    @property
    def is_active(self) -> bool:
        """Whether the log was written to since it was opened."""
        return self._durability is not None

    @property
    def epochs(self) -> EpochHistory:
        """The leader epochs; read from disk on first use."""
        if self._epochs is None:
            epochs = load_epochs(self.disk, self.directory, self.log_start_offset, self.log_end_offset)
            if epochs.latest == NO_EPOCH and self.log_end_offset > self.log_start_offset:
                # Without a history nobody could tell where this log and another replica's part.
                epochs = relearn_epochs(self.segments)
                epochs.truncate_start(self.log_start_offset)
            self._epochs = epochs
        return self._epochs

    @epochs.setter
    def epochs(self, epochs: EpochHistory) -> None:
        self._epochs = epochs

    @property
    def producers(self) -> Producers:
        """The idempotent producers; read from disk on first use."""
        if self._producers is None:
            if self.has_producers:
                self._producers = load_producers(self.disk, self.directory, self.segments, self.log_end_offset)
            else:
                self._producers = Producers(self.log_end_offset)
        return self._producers

    @producers.setter
    def producers(self, producers: Producers) -> None:
        self._producers = producers

    @property
    def producers_in_memory(self) -> Producers | None:
        """The idempotent producers, if anybody asked for them since the log was opened."""
        return self._producers

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def last_stable_offset(self, high_watermark: int) -> int:
        """
        Where readers of committed transactions stop: at the first offset of the oldest transaction that is open, or
        whose marker is not below the high watermark; at that without any. It moves with the high watermark only, or
        with the log's start, which it never lies before.
        """
        if self._producers is None and not self.has_producers:
            return high_watermark
        stable = self.producers.transactions.last_stable_offset(high_watermark)
        return stable if stable >= self.log_start_offset else min(self.log_start_offset, high_watermark)

    def aborted_transactions(self, first_offset: int, end_offset: int) -> Sequence[AbortedTransaction]:
        """
        The aborted transactions with records from ``first_offset`` on and below ``end_offset``, by their first offset.

        :raises StorageError: the disk failed, or the log is damaged.
        """
        return transactions.aborted_transactions(self, first_offset, end_offset)

    def configure(self, config: TopicConfig) -> None:
        """Swap the topic's settings; what is compared with them next sees the new ones."""
        self.config = config

    def become_leader(self, leader_epoch: int) -> None:
        """
        This replica leads in ``leader_epoch``, from the log's end on. Costs nothing: the epoch goes into the history
        with its first batch.
        """
        self.leader_epoch = leader_epoch

    @property
    def recovery_point(self) -> int:
        """Recovery may trust everything below this offset: batches are synced, and so are the indexes of theirs."""
        durability, point = self._durability, self.flushed_end_offset
        if durability is not None:
            if durability.unindexed:
                point = min(point, durability.unindexed[0].base_offset)
            aborted_from = self.segments[-1].aborted_unsynced_from
            if aborted_from is not None and aborted_from < point:
                # What was aborted is found again only by reading from there on.
                point = aborted_from
        return point

    # -- Appending

    def append_as_leader(
        self,
        data: Buffer,
        leader_epoch: int,
        now_ms: int | None = None,
        zstd_allowed: bool = True,
        ours: bool = False,
    ) -> Appended:
        """
        Validate a producer's batch, give it its offsets, and write it.

        :param data: the bytes of one partition in a Produce request; neither kept nor changed.
        :param leader_epoch: goes into the batch.
        :param now_ms: the broker's time, ms since 1970; by default that of the wall clock.
        :param zstd_allowed: whether the producer's request version knows zstd.
        :param ours: see :func:`.validate_for_topic`.
        :raises ApiError: the batch is refused, or there is no space; nothing was written.
        :raises StorageError: the disk failed, and is offline.
        """
        if now_ms is None:
            now_ms = int(self.wall_clock() * 1000)
        config = self.config
        header = validate_for_topic(data, config, now_ms, zstd_allowed, ours)
        durability = self._durability or self.durability
        append_time = -1
        if header.producer_id >= 0:
            written = self.producers.check(header)
            if written is not None:
                stamped = written.timestamp if config.message_timestamp_type == LOG_APPEND_TIME else -1
                return Appended(
                    written.first_offset, written.last_offset, stamped, self.log_start_offset, 0, duplicate=True
                )
        if config.compression_type != PRODUCER:
            data, header = as_the_topic_wants(data, header, config)
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
        self.wrote(segment, durability, (header,), base_offset, leader_epoch)
        return Appended(base_offset, last_offset, append_time, self.log_start_offset, header.length + 12)

    def append_as_follower(self, data: Buffer, leader_epoch: int = MAX_EPOCH, gaps: bool = True) -> int:
        """
        Append what the leader's log has behind ours: batches with their offsets and epochs as they are.

        :param data: whole batches; a partial one at the end is left out.
        :param leader_epoch: in which the leader leads: it has no batch of a later one.
        :param gaps: whether offsets may be missing anywhere, as compaction leaves it; otherwise only where another
            batch follows behind the gap.
        :returns: the log's new end.
        :raises ApiError: CORRUPT_MESSAGE: a batch is damaged, or does not lie behind the log's end. Batches before it
            were appended.
        :raises StorageError: the disk failed, and is offline.
        """
        return append_from_leader(self, data, leader_epoch, gaps)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: Marker,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> Appended:
        """
        End a producer's transaction, as its coordinator decided. A marker that comes again is written again.

        :param leader_epoch: goes into the batch.
        :param now_ms: the broker's time, ms since 1970.
        :param transaction_version: from 2 on ``producer_epoch`` is the one after that of the transaction (KIP-890).
        :raises ApiError: INVALID_PRODUCER_EPOCH: the producer has a newer epoch, or with version 2 its transaction of
            that epoch is open; TRANSACTION_COORDINATOR_FENCED: another coordinator was heard of since;
            KAFKA_STORAGE_ERROR: there is no space. Nothing was written.
        :raises StorageError: the disk failed, and is offline.
        """
        header = marking.append_marker(
            self, producer_id, producer_epoch, marker, leader_epoch, now_ms, transaction_version
        )
        return Appended(header.base_offset, header.last_offset, -1, self.log_start_offset, header.size)

    def wrote(
        self,
        segment: Segment,
        durability: Durability,
        headers: Sequence[BatchHeader],
        base_offset: int,
        leader_epoch: int,
        markers: Iterable[Marker | None] = (),
        in_row: bool = False,
    ) -> None:
        """
        The bookkeeping after batches of one epoch were written: no step of it may fail.

        :param base_offset: that of the first; the others follow without a gap.
        :param markers: of the control batches among them, in order.
        :param in_row: they are of nobody, or of one producer and continue its sequence: see
            :meth:`.Producers.appended_in_row`.
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
            producers.appended_in_row(headers, end)
        self.log_end_offset = producers.end_offset = end
        if not self.is_touched:
            self.is_touched = True
            self.owner.touched(self)
        durability.wrote(segment, segment.size - size)
        if end - self.flushed_end_offset >= config.flush_messages:
            durability.request()

    def segment_for(self, header: BatchHeader, last_offset: int, now_ms: int) -> Segment:
        """The active segment; a new one if the batch does not fit the current one, or that is too old."""
        segment = self.segments[-1]
        if last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
            # Where a leader's log has a gap this wide, the segment begins behind it.
            return self.roll(header.base_offset if last_offset - self.log_end_offset > MAX_RELATIVE_OFFSET else None)
        if segment.size and self.is_roll_due(segment, header.length + 12, header.max_timestamp, now_ms):
            return self.roll()
        return segment

    def is_roll_due(self, segment: Segment, size: int, max_timestamp: int, now_ms: int, batches: int = 1) -> bool:
        """Whether what is to be appended belongs into a new segment; see :meth:`.Rolling.is_due`."""
        return self._rolling.is_due(segment, size, max_timestamp, self.config, now_ms, batches)

    def roll(self, base_offset: int | None = None) -> Segment:
        """
        Begin a new segment at the log's end, or further on; the current one is synced in the background.

        :raises ApiError: there is no space for a new file; the log is as it was.
        """
        durability = self.durability
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
        durability.rolled(old)
        return segment

    def close_active_segment(self) -> None:
        """
        Begin a new segment at the log's end, without a look into the current one, which may be damaged.

        :raises ApiError: there is no space for a new file; the log is as it was.
        """
        if self._durability is not None:
            self.roll()
        elif self.log_end_offset > self.segments[-1].base_offset:
            # It was not written to since the log was opened: its indexes are whole, or made anew when needed.
            old, segment = self.segments[-1], self.new_segment(self.log_end_offset)
            segment.create()
            if old.is_active:
                old.seal()
            self.segments = (*self.segments, segment)
            self.unsynced_directories.add(self.directory)

    # -- Reading

    def read(self, offset: int, max_bytes: int, bound: int | None = None, min_one_batch: bool = True) -> ReadResult:
        """
        Whole batches from the one that has ``offset``, or the next offset there is.

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
            # At the segment's end: what is missing there was compacted away, the next segment goes on.
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
        return lookup.finish(self.search_timestamp(timestamp))

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record with the largest timestamp; None in an empty log (KIP-734)."""
        return lookup.finish(self.search_max_timestamp())

    def search_timestamp(self, timestamp: int) -> lookup.Search:
        """What :meth:`offset_for_timestamp` gives, searched in small steps."""
        return lookup.offset_for_timestamp(self, timestamp)

    def search_max_timestamp(self) -> lookup.Search:
        """What :meth:`max_timestamp_offset` gives, searched in small steps."""
        return lookup.max_timestamp_offset(self)

    def offsets_before(self, timestamp: int, max_offsets: int, bound: int | None = None) -> list[int]:
        """
        Where segments begin that were last modified at or before ``timestamp``, latest first (ListOffsets 0).

        :param bound: stands in for every offset above it: what readers may see ends there.
        """
        return lookup.offsets_before(self, timestamp, max_offsets, bound)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """
        Where the records of a leader epoch end; see :meth:`EpochHistory.end_offset_for`. The epoch this replica leads
        in is known even before its first batch, and begins at the log's end then.
        """
        latest = self.epochs.latest
        if latest < epoch <= self.leader_epoch:
            # Of an epoch that is not here, the largest one before it that is; of an empty history, that it ends here.
            known = epoch if epoch == self.leader_epoch or latest == NO_EPOCH else latest
            return OffsetAndEpoch(self.log_end_offset, known)
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at ``offset``, −1 if it is not known."""
        return self.epochs.epoch_at(offset)

    # -- Getting shorter

    def advance_start(self, offset: int) -> bool:
        """
        Give up the records before ``offset``; retention removes their segments. The start never goes back.

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
        Remove the oldest segments as far as a policy says, but none that reaches the high watermark.

        :returns: how many segments went.
        :raises ApiError: the active segment is to go, and there is no space for a new one.
        """
        return shortening.delete_expired(self, policy, now_ms)

    def truncate_to(self, offset: int) -> None:
        """
        Remove the batches that reach ``offset`` or lie behind it.

        The recovery point on disk must not lie above ``offset`` any more: :meth:`LogManager.truncate` sees to that.
        """
        shortening.truncate_to(self, offset)

    def restart_at(self, offset: int) -> None:
        """Drop everything and go on at ``offset``: the leader's log begins behind the end of ours."""
        shortening.restart_at(self, offset)

    # -- Durability

    def flush(self) -> Deferred[None]:
        """
        Fires when everything that is in the log now is on stable storage. Waits share syncs.

        :raises StorageError: (as a failure) the sync failed; the directory is offline, nothing more is confirmed.
        """
        if self.flushed_end_offset >= self.log_end_offset and self.disk.failure is None:
            return succeed(None)
        return self.durability.flush()

    def close(self) -> Deferred[None]:
        """
        Take no more appends and flushes; fires when none runs. Files are closed, what is not synced stays so.

        Closing for a clean stop writes back first: see :meth:`Durability.write_back_and_wait`.
        """

        def close_files(_: object) -> None:
            for segment in self.segments:
                segment.close()

        self.is_closed = True
        # What is not down of the indexes will not be any more.
        if any(segment.aborted_unsynced_from is not None for segment in self.segments):
            self.flushed_end_offset = self.recovery_point
        durability, self._durability = self._durability, None
        return (durability.close() if durability is not None else succeed(None)).addCallback(close_files)

    def reopen(self) -> None:
        """Take appends again after :meth:`close`."""
        self.is_closed = False
