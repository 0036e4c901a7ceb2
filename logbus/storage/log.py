"""
A partition's log: append at the end, read anywhere (Kafka: UnifiedLog).

Both are plain calls that end in the page cache. :mod:`logbus.storage.log_flusher` syncs, and
:mod:`logbus.storage.log_recovery` opens a log after an unclean shutdown.

Invariants: ``log_start_offset <= log_end_offset``; ``flushed_end_offset <= log_end_offset``; the tuple of segments is
replaced, never changed, so that rolls and deletions do not disturb an iteration over it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.records.batch import BatchHeader, Marker
from logbus.records.file_slice import BatchRange, FileSlice
from logbus.storage.filesystem.bounded_work import SyncQueues
from logbus.storage.filesystem.file_cache import FileCache
from logbus.storage.istorage import NotCached
from logbus.storage.leader_epoch_cache import LeaderEpochCache
from logbus.storage.log_flusher import LogFlusher
from logbus.storage.log_owner import LogOwner, NoOwner
from logbus.storage.log_state import LogState
from logbus.storage.producers.aborted_transactions import aborted_index
from logbus.storage.producers.producer_state_manager import ProducerStateManager
from logbus.storage.segments.batch_ahead import RecompressedAhead
from logbus.storage.segments.indexes import MAX_RELATIVE_OFFSET
from logbus.storage.segments.roll_policy import RollPolicy
from logbus.storage.segments.segment import AppendedBatch, Segment, segment_with
from logbus.storage.settings import StorageSettings


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
class Log(LogState):
    """
    One partition's log on one disk; has no segments until :meth:`create` or recovery.

    :ivar config: may be replaced at any time.
    :ivar is_closed: takes no more appends.
    :ivar is_touched: written to since the owner reset it.
    :ivar recompressed: a batch with the topic's codec, while it is appended; see :class:`.LargeAppends`.
    """

    config: TopicConfig = field(factory=TopicConfig, kw_only=True)
    settings: StorageSettings = field(factory=StorageSettings, kw_only=True)
    files: FileCache = field(factory=lambda: FileCache(1000), kw_only=True)
    queues: SyncQueues = field(factory=SyncQueues, kw_only=True)
    wall_clock: Callable[[], float] = field(kw_only=True)
    jitter: random.Random = field(kw_only=True)
    owner: LogOwner[Log] = field(factory=NoOwner, kw_only=True)
    is_closed: bool = field(default=False, init=False)
    is_touched: bool = field(default=False, init=False)
    recompressed: RecompressedAhead | None = field(default=None, init=False)
    _flusher: LogFlusher | None = field(default=None, init=False)
    _rolling: RollPolicy = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._rolling = RollPolicy(self.jitter)

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
        self.epochs, self.producers = LeaderEpochCache(), ProducerStateManager(start_offset)

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
        """
        The log's flusher. Using it makes the log one that can be written to, which may take a new segment: ask for the
        active one afterwards.
        """
        flusher = self._flusher
        if flusher is None:
            if self.is_closed:
                # It was deleted, or is moving to another log directory: a retry gets the right error.
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.partition}: the log was closed")
            if self.disk.is_shared(self.segments[-1].log.path):
                # Another worker's log has this file, too: see LogLinker.
                self.close_active_segment()
            aborted_index(self.segments[-1], self.segments, self.log_end_offset)
            self.segments[-1].activate()
            flusher = self._flusher = LogFlusher(
                self,
                self.settings.write_back_bytes,
                self.settings.write_back_interval_ms / 1000,
                lambda: self.owner.dirtied(self),
                lambda: self.owner.written_back(self),
                self.queues,
            )
            flusher.resume()
        return flusher

    @property
    def is_active(self) -> bool:
        """Whether the log was written to since it was opened."""
        return self._flusher is not None

    def configure(self, config: TopicConfig) -> None:
        """Replace the topic's settings, effective from the next check on."""
        self.config = config
        if config.remote_storage_enable:
            if self.remote is None:
                self.remote = self.owner.remote_log(self)
            saved = self.saved_start_offset
            if saved is not None:
                self.is_start_saved = True
                self.log_start_offset = min(saved, self.log_start_offset)
        elif self.remote is not None:
            self._leave_remote()
        self.saved_start_offset = None

    def _leave_remote(self) -> None:
        """The topic has no remote storage any more: the log begins with what is local (Kafka: KIP-950)."""
        self.remote, self.is_start_saved = None, False
        self.advance_start(self.segments[0].base_offset)

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

    def wrote(
        self,
        segment: Segment,
        flusher: LogFlusher,
        headers: Sequence[BatchHeader],
        base_offset: int,
        leader_epoch: int,
        markers: Iterable[Marker | None] = (),
    ) -> None:
        """
        Update the log's state after batches of one epoch were written: no step of it may fail.

        :param base_offset: of the first batch; the others follow without a gap.
        :param markers: of the control batches among them, in order.
        """
        producers, interval = self.producers, self.config.index_interval_bytes
        left = iter(markers)
        size, end = segment.size, base_offset
        for header in headers:
            segment.appended(header, end, interval)
            if header.producer_id >= 0:
                if header.control:
                    aborted = producers.appended(header, end, next(left, None))
                    if aborted is not None:
                        segment.aborted.append(aborted)
                    producers.transactions.committed(self.high_watermark)
                else:
                    producers.appended(header, end)
            end += header.last_offset_delta + 1
        self._extended(segment, flusher, segment.size - size, base_offset, end, leader_epoch)

    def wrote_many(
        self,
        segment: Segment,
        flusher: LogFlusher,
        batches: Sequence[AppendedBatch],
        base_offset: int,
        leader_epoch: int,
        of_producers: Sequence[tuple[BatchHeader, int]],
        are_consecutive: bool,
    ) -> None:
        """
        As :meth:`wrote`, after batches of clients that begin and end no transaction, without a gap between them.

        :param of_producers: the headers of those with a producer id, and their offsets.
        :param are_consecutive: all are of one producer: see :meth:`.ProducerStateManager.append_consecutive`.
        """
        size, end = segment.size, batches[-1][0] + 1
        segment.appended_many(batches, self.config.index_interval_bytes)
        if are_consecutive:
            self.producers.append_consecutive([header for header, _ in of_producers], end)
        else:
            for header, offset in of_producers:
                self.producers.appended(header, offset)
        self._extended(segment, flusher, segment.size - size, base_offset, end, leader_epoch)

    def _extended(
        self, segment: Segment, flusher: LogFlusher, size: int, base_offset: int, end: int, leader_epoch: int
    ) -> None:
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, base_offset)
        self.log_end_offset = self.producers.end_offset = end
        if not self.is_touched:
            self.is_touched = True
            self.owner.touched(self)
        flusher.wrote(segment, size)
        if end - self.flushed_end_offset >= self.config.flush_messages:
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
        :raises ApiError: OFFSET_OUT_OF_RANGE; KAFKA_STORAGE_ERROR: remote storage cannot be read.
        :raises NotFetched: something must be loaded from remote storage first.
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

    def ranges(self, offset: int, bound: int, most: int, enough: int) -> Sequence[BatchRange]:
        """
        The batches that a consumer gets who reads on from ``offset`` to ``bound``, as far as they are in local
        segments: a range of each, at most ``most``. There are fewer where something is damaged, or must be loaded.

        :param enough: bytes; with so many there is no further segment, since each has two files open.
        """
        found: list[BatchRange] = []
        size = 0
        segments = self.segments
        if self.log_start_offset <= offset < bound and offset >= segments[0].base_offset:
            with suppress(ApiError, StorageError, NotCached):
                first = segment_with(segments, offset)
                start = segments[first].find(offset)
                for i in range(first, min(first + most, len(segments))):
                    after = segments[i + 1].base_offset if i + 1 < len(segments) else self.log_end_offset
                    one = segments[i].range(start, bound, after)
                    if one is not None:
                        found.append(one)
                        size += one.end - one.position
                    if bound <= after or size >= enough:
                        break
                    start = 0
        return found

    def _read_older(
        self, segments: tuple[Segment, ...], offset: int, max_bytes: int, bound: int, min_one_batch: bool
    ) -> tuple[FileSlice, int] | None:
        if offset < segments[0].base_offset:
            return self._read_remote(offset, max_bytes, bound, min_one_batch)
        for i in range(segment_with(segments, offset), len(segments)):
            segment = segments[i]
            if segment.base_offset >= bound:
                break
            start = segment.find(offset)
            # The segment's last offsets were compacted away: continue in the next segment.
            if start < segment.size:
                after = segments[i + 1].base_offset if i + 1 < len(segments) else self.log_end_offset
                return segment.slice(start, max_bytes, bound, after, min_one_batch)
        return None

    def _read_remote(
        self, offset: int, max_bytes: int, bound: int, min_one_batch: bool
    ) -> tuple[FileSlice, int] | None:
        remote = self.remote
        if remote is None:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{self.partition}: offset {offset} is in remote storage, which this broker does not have",
            )
        return remote.read(offset, max_bytes, bound, min_one_batch, tuple(self.epochs))

    def out_of_range(self, offset: int) -> ApiError:
        """The error for an offset that is not in the log."""
        return ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.partition}: offset {offset} is not within {self.log_start_offset} to {self.log_end_offset}",
        )

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

    # -- Durability

    def flush(self) -> Deferred[None]:
        """
        Fires when everything that is in the log now is on stable storage. Concurrent callers share a sync.

        :raises StorageError: (as a failure) the sync failed; the directory is offline, and confirms nothing more.
        :raises ApiError: (as a failure) the log was closed.
        """
        if self.flushed_end_offset >= self.log_end_offset and self.disk.failure is None:
            return succeed(None)
        try:
            return self.flusher.flush()
        except (ApiError, StorageError) as error:
            return fail(error)

    def close(self) -> Deferred[None]:
        """
        Refuse further appends and flushes; fires when no flush runs. Files are closed; unsynced data stays unsynced.

        A clean shutdown writes back first: see :meth:`LogFlusher.write_back_and_wait`.
        """

        def close_files(_: object) -> None:
            for segment in self.segments:
                segment.close()
                # A deleted log is no circle of references, so that the garbage collector need not find it.
                segment.on_damage = None

        self.is_closed = True
        # Index entries that are not in the files are given up.
        if any(segment.aborted_unsynced_from is not None for segment in self.segments):
            self.flushed_end_offset = self.recovery_point
        flusher, self._flusher = self._flusher, None
        return (flusher.close() if flusher is not None else succeed(None)).addCallback(close_files)

    def reopen(self) -> None:
        """Take appends again after :meth:`close`."""
        self.is_closed = False
        for segment in self.segments:
            segment.on_damage = self.suspected
