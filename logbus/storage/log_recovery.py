"""
Recovers a log after an unclean shutdown (Kafka: LogLoader, UnifiedLog.recoverLog).

Batches below the recovery point are synced and trusted. From there on every batch is checked, including its CRC. The
log is truncated at the first batch that is torn, invalid, or does not fit its neighbours; later segments are removed.
The scan also rebuilds indexes, leader epochs and producer state; for these it may begin below the recovery point: at
the last producer snapshot, and at an index entry.

Files are read in a thread, a chunk at a time; between chunks the reactor does other work.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from attrs import define, field
from twisted.logger import Logger

from logbus.errors import DecodeError, StorageError
from logbus.model import NO_EPOCH
from logbus.records.batch import HEADER_SIZE, MAGIC, Marker, batch_problem, read_header, read_marker
from logbus.records.header import CONTROL_BIT, check_crc
from logbus.storage import file_names
from logbus.storage.istorage import IDisk, IOPool
from logbus.storage.leader_epoch_loader import load_leader_epochs, rebuild_epochs
from logbus.storage.log import Log
from logbus.storage.log_flusher import sync_all
from logbus.storage.producers.producer_state_loader import latest_snapshot, load_producer_state
from logbus.storage.segment_replacement import complete_replacements
from logbus.storage.segments.index_check import check_times
from logbus.storage.segments.index_rebuild import IndexRebuild
from logbus.storage.segments.indexes import MAX_RELATIVE_OFFSET, IndexCorrupt
from logbus.storage.segments.segment import Segment
from logbus.storage.truncation import ALL_KINDS, SEGMENT_KINDS, unshare

CHUNK = 1024 * 1024
"""Bytes read and checked in one turn."""
_SMALL = 64 * 1024
"""A tail of this size is read on the reactor: a thread would cost more."""

_log = Logger()


@define(eq=False)
class Progress:
    """
    Logs the progress of a long recovery.

    :ivar seconds: a clock.
    :ivar every: seconds between log messages.
    """

    seconds: Callable[[], float]
    every: float = 5.0
    scanned: int = 0
    _started: float = field(init=False)
    _said: float = field(init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        self._started = self._said = self.seconds()

    def add(self, log: Log, size: int, position: int, segment: Segment) -> None:
        """Count ``size`` more bytes, scanned up to ``position`` in ``segment``."""
        self.scanned += size
        now = self.seconds()
        if now - self._said >= self.every:
            self._said = now
            self._log.info(
                "recovering {partition}: at {position} of {total} bytes in {path}; {scanned} in {elapsed:.0f} s so far",
                partition=log.partition, position=position, total=segment.size, path=segment.log.path,
                scanned=self.scanned, elapsed=now - self._started,
            )  # fmt: skip


def segment_bases(disk: IDisk, directory: str) -> list[int]:
    """
    The base offsets of a log's segments, oldest first. Removes leftovers of deletions and unfinished replacements, and
    indexes without a log file.
    """
    found = disk.names(directory)
    bases = sorted(base for name in found if (base := file_names.base_offset_of(name, file_names.LOG)) is not None)
    known = set(bases)
    for name in found:
        leftover = name.endswith((file_names.DELETED, file_names.TEMPORARY))
        for suffix in SEGMENT_KINDS:
            base = file_names.base_offset_of(name, suffix)
            leftover = leftover or (base is not None and base not in known)
        if leftover:
            disk.unlink(f"{directory}/{name}")
    return bases


async def recover_log(
    log: Log, recovery_point: int, start_offset: int, progress: Progress, is_start_saved: bool = False
) -> None:
    """
    Open a log that was not closed cleanly.

    :param recovery_point: everything below is on stable storage.
    :param start_offset: records before it are deleted.
    :param is_start_saved: it was checkpointed: records between it and the first segment may be in remote storage.
    :raises StorageError: the disk cannot be read; it is offline.
    """
    disk = log.disk
    await complete_replacements(disk, log.files, log.directory)
    bases = segment_bases(disk, log.directory)
    if not bases:
        log.create(start_offset)
        return
    segments = [Segment(disk, log.files, log.directory, base, int(log.wall_clock() * 1000)) for base in bases]
    for segment in segments:
        segment.size = disk.size(segment.log.path)
    if is_start_saved and start_offset < bases[0]:
        # What is below left the disk for remote storage when it had been synced, as its leader epochs had.
        recovery_point = max(recovery_point, bases[0])

    damaged = _damaged_transaction_indexes(segments, recovery_point)
    # Finding a segment's aborted transactions takes the producer state as of its start.
    known = min([recovery_point, *(segment.base_offset for segment in damaged)])
    log.producers = latest_snapshot(disk, log.directory, bases[0], max(known, bases[0]))
    snapshot = log.producers.end_offset
    scan_from = min(recovery_point, snapshot)
    # The checkpoint is complete up to the recovery point, while compaction may have removed an epoch's first batch.
    epochs_start = start_offset if is_start_saved else max(start_offset, bases[0])
    log.epochs = load_leader_epochs(disk, log.directory, epochs_start, recovery_point)
    has_history = log.epochs.latest != NO_EPOCH
    epochs_from = recovery_point if has_history else scan_from
    first = max(0, bisect_right(bases, scan_from) - 1)
    suspected = [segment for segment in segments[:first] if not await _check_older(log, segment, progress)]

    kept = segments[:first]
    end = bases[first]
    scan = _Scan(log, segments[first], recovery_point, epochs_from, recovery_point, end, None)
    for i in range(first, len(segments)):
        segment = segments[i]
        if segment.base_offset > recovery_point and segment.base_offset - end in range(1, MAX_RELATIVE_OFFSET):
            # A segment begins where the log ended then. A power cut brought this one back after a truncation.
            await _cut(log, scan, segments[i:], f"segment {segment.base_offset} does not follow offset {end}")
            break
        limit = bases[i + 1] if i + 1 < len(bases) else None
        aborted_from = segment.base_offset if segment in damaged else recovery_point
        scan = _Scan(log, segment, recovery_point, epochs_from, aborted_from, end, limit)
        await scan.run(scan_from, progress)
        if scan.is_damaged:
            suspected.append(segment)
        kept.append(segment)
        end = scan.end
        if scan.problem is not None:
            await _cut(log, scan, segments[i + 1 :], scan.problem)
            break
        if i + 1 < len(segments):
            segment.seal()
    # The log lost synced batches, so the producer state may contain producers and markers that are gone.
    if end < recovery_point:
        kept[-1].aborted.cut(end)
    if end < snapshot:
        log.producers = load_producer_state(disk, log.directory, kept, end)
    log.producers.end_offset = end
    await _save_transaction_indexes(log, [segment for segment in kept if segment in damaged])
    if not has_history and scan_from > bases[0]:
        # Nor is there of what was not scanned.
        log.epochs = await rebuild_epochs(disk, kept)
    log.epochs.truncate_end(end)
    log.restored(tuple(kept), min(start_offset, end), end, min(recovery_point, end))
    for segment in suspected:
        log.suspected(segment)
    # It is unknown which directory entries were synced.
    log.unsynced_directories |= {log.directory, ""}


def _damaged_transaction_indexes(segments: list[Segment], recovery_point: int) -> list[Segment]:
    """
    The segments whose transaction index is damaged; it is removed. In the others, entries from the recovery point on
    are dropped.
    """
    damaged = []
    ends = [*(segment.base_offset for segment in segments[1:]), None]
    for segment, end in zip(segments, ends, strict=True):
        try:
            segment.aborted.check(end)
            segment.aborted.cut(recovery_point)
        except IndexCorrupt as problem:
            _log.warn(
                "{path}: index of aborted transactions rebuilt: {problem}", path=segment.log.path, problem=str(problem)
            )
            damaged.append(segment)
            segment.drop_transaction_index()
    return damaged


async def _save_transaction_indexes(log: Log, rebuilt: list[Segment]) -> None:
    """Sync rebuilt transaction indexes: below the recovery point nothing would rebuild them again."""
    if rebuilt:
        saved = [segment.aborted.save(always=True) for segment in rebuilt]
        files = [file.get() for file in saved if file is not None]
        await log.disk.submit(IOPool.BACKGROUND, sync_all, log.disk, (), files, [log.directory])


async def _check_older(log: Log, segment: Segment, progress: Progress) -> bool:
    """
    Check the indexes of a segment wholly below the recovery point: they can be missing or stale.

    :returns: False if the segment is damaged. That does not stop the start: the other records are served, and the
        segment may be repaired.
    """
    whole = True
    index_rebuild: IndexRebuild | None = None
    try:
        segment.open_indexes()
        check_times(segment)
    except IndexCorrupt as problem:
        index_rebuild = segment.rebuild_indexes(
            str(problem), lambda size, position: progress.add(log, size, position, segment)
        )
    except StorageError:
        if log.disk.failure is not None:
            raise
        whole = False
    if index_rebuild is not None:
        await index_rebuild.finished()
        if index_rebuild.problem is not None:
            if log.disk.failure is not None:
                raise index_rebuild.problem
            # The indexes reach up to the damage.
            whole = False
        indexes = [file.get() for file in segment.save_indexes()]
        await log.disk.submit(IOPool.BACKGROUND, sync_all, log.disk, (), indexes, ())
    if whole and segment.times.last is not None:
        segment.max_timestamp, relative = segment.times.last
        segment.max_timestamp_offset = segment.base_offset + relative
    return whole


async def _cut(log: Log, scan: _Scan, behind: list[Segment], problem: str) -> None:
    """
    Truncate the log where a scan ended, and log that. The truncation is synced before anything is written in place of
    the removed batches: a second crash must not bring them back.
    """
    segment = scan.segment
    torn = segment.size - scan.position
    await unshare(segment)
    file = segment.log.get()
    file.truncate(scan.position)
    segment.size = scan.position
    for later in behind:
        torn += later.size
        for suffix in ALL_KINDS:
            log.disk.unlink(later.path(suffix))
    say = _log.warn if scan.end >= scan.recovery_point else _log.error
    say(
        "{partition}: cut at offset {offset}: {torn} bytes removed from byte {position} of {path} on"
        "{behind}: {problem}",
        partition=log.partition, offset=scan.end, torn=torn, position=scan.position, path=segment.log.path,
        behind=f", with {len(behind)} later segments" if behind else "", problem=problem,
    )  # fmt: skip
    await log.disk.submit(IOPool.BACKGROUND, sync_all, log.disk, (), [file], [log.directory])


@define(eq=False)
class _Scan:
    """
    A scan of one segment up to the first invalid batch.

    :ivar recovery_point: from this offset on a batch whose CRC is wrong ends the log.
    :ivar epochs_from: from this offset on leader epochs are recorded.
    :ivar aborted_from: from this offset on markers go into the transaction index.
    :ivar end: the offset after the last good batch.
    :ivar limit: the next segment's base offset, None in the last.
    :ivar position: where the last good batch ends, in bytes.
    :ivar problem: what is wrong with what follows; None: nothing follows.
    :ivar is_damaged: below the recovery point a checksum was wrong, which is no reason to cut the log.
    """

    log: Log
    segment: Segment
    recovery_point: int
    epochs_from: int
    aborted_from: int
    end: int
    limit: int | None
    position: int = 0
    problem: str | None = None
    is_damaged: bool = False
    _damaged_at: int = -1

    async def run(self, scan_from: int, progress: Progress) -> None:
        """Scan from the batch that has offset ``scan_from``, or from a bit before it."""
        segment, log = self.segment, self.log
        self.position, self.end = segment.begin_scan(scan_from)
        file = segment.log.get()
        want = CHUNK
        while self.position < segment.size and self.problem is None:
            begun = self.position
            if segment.size - begun <= _SMALL:
                data = file.pread(want, begun)
            else:
                data = await log.disk.submit(IOPool.READ, file.pread, want, begun)
            want = max(CHUNK, self._walk(data))
            progress.add(log, self.position - begun, self.position, segment)
        if self._damaged_at >= 0:
            # What was synced reaches to the recovery point, or to where the next segment begins.
            synced = self.recovery_point if self.limit is None else min(self.limit, self.recovery_point)
            self._pass_damaged(max(self.end, synced))

    def _pass_damaged(self, end: int) -> None:
        """The batch before ``end`` was damaged, if :attr:`_damaged_at` says so: have look-ups find it."""
        if self._damaged_at >= 0:
            self.is_damaged = True
            self.segment.remember(end - 1, self._damaged_at)
            self._damaged_at, self.end = -1, end

    def _walk(self, data: bytes) -> int:
        """
        Scan the batches in ``data``, which begins at :attr:`position`.

        :returns: bytes needed for the next batch, 0 if unknown.
        """
        log, segment, begun, recovery_point = self.log, self.segment, self.position, self.recovery_point
        epochs, producers, interval = log.epochs, log.producers, log.config.index_interval_bytes
        at, size, left = 0, len(data), segment.size - self.position
        last_possible = segment.base_offset + MAX_RELATIVE_OFFSET
        if self.limit is not None:
            last_possible = min(last_possible, self.limit - 1)
        while at < size:
            if size - at < HEADER_SIZE:
                if left - at < HEADER_SIZE:
                    self.problem = f"{left - at} bytes are too few for a batch header"
                break
            header = read_header(data, at)
            batch_size = header.length + 12
            if batch_size > size - at and HEADER_SIZE <= batch_size <= left - at and header.magic == MAGIC:
                self.position += at
                return batch_size
            base, last = header.base_offset, header.base_offset + header.last_offset_delta
            if base < self.end:
                self.problem = f"base offset {base} lies before {self.end}, where the batch before it ends"
            elif base >= recovery_point:
                self.problem = batch_problem(data, at, header)
            elif header.magic != MAGIC or not HEADER_SIZE <= batch_size <= size - at:
                self.problem = f"there is no record batch (magic {header.magic}, length {header.length})"
            elif not check_crc(data, at, header):
                # The batches behind it are served, and what its header says is not to be believed.
                self._pass_damaged(base)
                self._damaged_at = begun + at
                self.end = base + 1
                at += batch_size
                continue
            if self.problem is None and last > last_possible:
                self.problem = f"offsets {base} to {last} do not belong into segment {segment.base_offset}"
            marker: Marker | None = None
            if header.attributes & CONTROL_BIT and self.problem is None:
                try:
                    marker = read_marker(data, at, header)
                except DecodeError as error:
                    self.problem = str(error)
            if self.problem is not None:
                break
            self._pass_damaged(base)
            segment.index(header, begun + at, interval)
            # The scan may begin before ``epochs_from``, where the epochs on disk are complete.
            if base >= self.epochs_from and header.leader_epoch != epochs.latest:
                epochs.assign(header.leader_epoch, base)
            if header.producer_id >= 0 and base >= producers.end_offset:
                aborted = producers.appended(header, base, marker)
                if aborted is not None and base >= self.aborted_from:
                    segment.aborted.append(aborted)
            self.end = last + 1
            at += batch_size
        self.position += at
        return 0
