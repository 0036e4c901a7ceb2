"""
A follower's append (Kafka: UnifiedLog.appendAsFollower): batches as the leader has them, with offsets and epochs.

Everything is checked. A batch's CRC does not cover its offset and leader epoch, so these are compared with the
neighbouring batches: offsets follow each other; epochs never decrease, nor exceed the leader's. Compaction leaves gaps
between offsets: the batch behind a gap must be confirmed by the one after it, or the topic be compacted.

Consecutive batches of one epoch without a gap are written together, with most bookkeeping done once.
"""

from __future__ import annotations

from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.records.batch import BatchHeader, Marker, batch_problem, iter_batches, read_marker
from logbus.records.checksum import Buffer
from logbus.records.header import CONTROL_BIT, HEADER_SIZE, LENGTH_OVERHEAD, read_header
from logbus.storage.log import Log
from logbus.storage.segments.indexes import MAX_RELATIVE_OFFSET

MAX_EPOCH = 2**31 - 1


def append_as_follower(log: Log, data: Buffer, leader_epoch: int = MAX_EPOCH, gaps: bool = True) -> int:
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
    now_ms = int(log.wall_clock() * 1000)
    if _append_only_batch(log, data, leader_epoch, gaps, now_ms):
        return log.log_end_offset
    view = memoryview(data)
    # Batches before an incomplete or invalid one are appended.
    batches, problem = _batches(data)
    end, epoch = log.log_end_offset, log.epochs.latest
    run: list[BatchHeader] = []
    markers: list[Marker | None] = []
    begun = at = 0
    for i, (at, header) in enumerate(batches):
        after = batches[i + 1][1] if i + 1 < len(batches) else None
        wrong = batch_problem(data, at, header) or _misplaced(header, after, end, epoch, leader_epoch, gaps)
        control = header.attributes & CONTROL_BIT
        marker: Marker | None = None
        if control and wrong is None:
            try:
                marker = read_marker(data, at, header)
            except DecodeError as error:
                wrong = str(error)
        if wrong is not None:
            problem = f"batch at offset {header.base_offset}: {wrong}"
            break
        if run and (header.base_offset != end or header.leader_epoch != epoch):
            _write(log, view[begun:at], run, markers, now_ms)
            run, markers = [], []
        if not run:
            begun = at
        run.append(header)
        if control:
            markers.append(marker)
        end, epoch = header.next_offset, header.leader_epoch
        at += header.size
    if run:
        _write(log, view[begun:at], run, markers, now_ms)
    if problem is not None:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{log.partition}: from the leader: {problem}")
    return log.log_end_offset


def _append_only_batch(log: Log, data: Buffer, leader_epoch: int, gaps: bool, now_ms: int) -> bool:
    """
    Append ``data`` if it is a single valid batch, as where many partitions get a little each; otherwise nothing is
    written, and what is wrong with it, if anything, is still to be found.
    """
    if len(data) < HEADER_SIZE:
        return False
    header = read_header(data)
    base, length, epoch, _, _, attributes, delta, _, _, _, _, _, _ = header
    if length + LENGTH_OVERHEAD != len(data) or attributes & CONTROL_BIT:
        return False
    end = log.log_end_offset
    # The usual one follows the last one in its epoch.
    if (base != end or epoch != leader_epoch or log.epochs.latest > epoch) and (
        _misplaced(header, None, end, log.epochs.latest, leader_epoch, gaps) is not None
    ):
        return False
    if batch_problem(data, 0, header) is not None:
        return False
    flusher = log.flusher
    segment = log.segment_for(header, base + delta, now_ms)
    segment.write((data,))
    log.wrote(segment, flusher, (header,), base, epoch)
    return True


def _batches(data: Buffer) -> tuple[list[tuple[int, BatchHeader]], str | None]:
    """The whole batches in ``data``, and the problem with what follows them."""
    batches: list[tuple[int, BatchHeader]] = []
    try:
        batches.extend(iter_batches(data))
    except DecodeError as error:
        return batches, str(error)
    return batches, None


def _misplaced(
    header: BatchHeader, after: BatchHeader | None, end: int, epoch: int, leader_epoch: int, gaps: bool
) -> str | None:
    """Why a batch cannot stand behind what ends at ``end`` with ``epoch``."""
    base = header.base_offset
    if base < end:
        return f"base offset {base} lies before the log's end {end}"
    if not epoch <= header.leader_epoch <= leader_epoch:
        return f"leader epoch {header.leader_epoch} is not within {epoch} to {leader_epoch}"
    if base > end and not gaps and (after is None or after.base_offset <= header.last_offset):
        return f"nothing says that offsets {end} to {base - 1} were removed"
    return None


def _write(log: Log, data: memoryview, run: list[BatchHeader], markers: list[Marker | None], now_ms: int) -> None:
    flusher, segment = log.flusher, log.segments[-1]
    first, last_offset = run[0], run[-1].last_offset
    if len(run) == 1:
        segment = log.segment_for(first, last_offset, now_ms)
    elif (
        not segment.size
        or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        or log.is_roll_due(segment, len(data), max(header.max_timestamp for header in run), now_ms, len(run))
    ):
        # Somewhere in between a new segment begins.
        at, left = 0, iter(markers)
        for header in run:
            own = [next(left)] if header.control else []
            _write(log, data[at : at + header.size], [header], own, now_ms)
            at += header.size
        return
    segment.write((data,))
    log.wrote(segment, flusher, run, first.base_offset, first.leader_epoch, markers)
