"""
Truncates logs: retention removes segments at the front, truncation removes batches at the end.

Files leave the log by a rename, and are removed later, since readers may have them open.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress

from twisted.logger import Logger

from logbus.errors import ApiError
from logbus.storage import file_names
from logbus.storage.istorage import IDeletePolicy, IDisk, IOPool
from logbus.storage.log import Log
from logbus.storage.log_flusher import LogFlusher
from logbus.storage.producers.aborted_transactions import truncate_transaction_index
from logbus.storage.producers.producer_snapshot import snapshot_offsets, snapshot_path
from logbus.storage.retention import deletable, local_view
from logbus.storage.segments.segment import Segment, segment_with

SEGMENT_KINDS = (file_names.LOG, file_names.OFFSET_INDEX, file_names.TIME_INDEX, file_names.TRANSACTION_INDEX)
"""Suffixes of a segment's own files."""
ALL_KINDS = (*SEGMENT_KINDS, file_names.SNAPSHOT)
"""The same, and the producer snapshot that goes with it."""


_log = Logger()


def delete_expired(log: Log, policy: IDeletePolicy, now_ms: int, most: int = sys.maxsize) -> int:
    """
    Remove the oldest segments that a policy selects, but none that reaches the high watermark.

    :param most: segments that are removed at once: renaming the files of a thousand blocks the reactor for 40 ms.
    :returns: the number of segments removed; if it is ``most``, there may be more.
    :raises ApiError: the active segment must be rolled first, and there is no space for a new one.
    """
    if log.config.has_local_retention:
        return _delete_local(log, policy, now_ms, most)
    count = min(deletable(log, policy, now_ms), most)
    if not count:
        return 0
    if count == len(log.segments):
        log.roll()
    gone, kept = log.segments[:count], log.segments[count:]
    log.segments = kept
    if kept[0].base_offset > log.log_start_offset:
        log.advance_start(kept[0].base_offset)
    _log.info(
        "{partition}: {count} segments deleted by {policy}: {size} bytes below offset {offset}",
        partition=log.partition, count=count, policy=policy.name, size=sum(old.size for old in gone),
        offset=kept[0].base_offset,
    )  # fmt: skip
    discard_files(log, gone)
    return count


def _delete_local(log: Log, policy: IDeletePolicy, now_ms: int, most: int) -> int:
    """
    Remove the oldest local segments of a log with remote storage that are there, or before the log start offset. The
    log start offset stays; without its checkpoint a crash would make the first segment the log's start.
    """
    if not log.is_start_saved:
        return 0
    count = deletable(local_view(log, 0 if log.remote is None else log.remote.copied_end), policy, now_ms)
    count = min(count, len(log.segments) - 1, most)
    while count and log.segments[count].base_offset > log.flushed_end_offset:
        # Their leader epochs may not be on the disk yet, and could not be rebuilt.
        count -= 1
    if count:
        gone, log.segments = log.segments[:count], log.segments[count:]
        _log.info(
            "{partition}: {count} local segments deleted by {policy}: {size} bytes below offset {offset}",
            partition=log.partition, count=count, policy=policy.name, size=sum(old.size for old in gone),
            offset=log.segments[0].base_offset,
        )  # fmt: skip
        discard_files(log, gone)
    return count


def truncate_to(log: Log, offset: int) -> None:
    """
    Remove the batches at ``offset`` and behind it, and one that contains it (Kafka: UnifiedLog.truncateTo).

    The checkpointed recovery point must not be above ``offset``: :meth:`.LogTruncator.truncate` lowers it first.
    """
    if offset >= log.log_end_offset:
        return
    snapshots = snapshot_offsets(log.disk, log.directory)
    gone = cut(log, offset)
    log.owner.remove_later(log, clear(log.disk, log.directory, gone, log.log_end_offset, snapshots))


def cut(log: Log, offset: int) -> list[str]:
    """
    As :func:`truncate_to`, but the files of whole segments and of producer snapshots stay: call :func:`clear` with the
    paths that are returned, and with the snapshots that there were before, before anything is appended. A crash before
    that is one before the truncation, or recovery finds that the first of those segments does not follow.
    """
    if offset >= log.log_end_offset:
        return []
    if offset < log.checkpointed_recovery_point:
        raise ValueError(
            f"{log.partition}: truncation to {offset} below the recovery point {log.checkpointed_recovery_point}"
        )
    first = log.segments[0]
    if offset < first.base_offset or (offset == first.base_offset and log.disk.is_shared(first.log.path)):
        # Nothing of a file is kept that another worker's log has, too: a new one takes its place.
        return _cut_all(log, offset)
    flusher = log.flusher
    keep = segment_with(log.segments, offset) + 1
    gone, log.segments = log.segments[keep:], log.segments[:keep]
    active = log.segments[-1]
    if gone:
        active.activate()
        _detach(log, gone)
    end = active.truncate(offset)
    truncate_transaction_index(active, log.segments, log.log_end_offset, end)
    _set_end(log, end, flusher)
    return _paths(gone)


async def unshare(segment: Segment) -> None:
    """Make a segment's file one that may be cut, if another worker's log has it, too."""
    disk, path = segment.disk, segment.log.path
    if disk.is_shared(path):
        await disk.submit(IOPool.BACKGROUND, disk.unshare, path)
        segment.log.close()


def truncate_fully(log: Log, offset: int) -> None:
    """
    Drop everything and go on at ``offset`` (Kafka: truncateFullyAndStartAt): the leader's log begins behind our end.
    """
    snapshots = snapshot_offsets(log.disk, log.directory)
    gone = _cut_all(log, offset)
    log.owner.remove_later(log, clear(log.disk, log.directory, gone, offset, snapshots))


def _cut_all(log: Log, offset: int) -> list[str]:
    flusher = log.flusher
    gone = log.segments
    # The new file takes the name of an old one, so the old one is renamed first.
    same = [old for old in gone if old.base_offset == offset]
    discard_files(log, same)
    segment = log.new_segment(offset)
    segment.create()
    _detach(log, gone)
    log.segments = (segment,)
    if log.remote is None or offset < log.log_start_offset or offset > log.log_end_offset:
        # Otherwise what is below is in remote storage.
        log.log_start_offset = offset
    _set_end(log, offset, flusher)
    return _paths([old for old in gone if old not in same])


def _set_end(log: Log, end_offset: int, flusher: LogFlusher) -> None:
    _log.info("{partition} truncated to {offset}", partition=log.partition, offset=end_offset)
    log.log_end_offset = end_offset
    log.log_start_offset = min(log.log_start_offset, end_offset)
    log.flushed_end_offset = min(log.flushed_end_offset, end_offset)
    log.high_watermark = min(log.high_watermark, end_offset)
    log.cleaned_end_offset = min(log.cleaned_end_offset, end_offset)
    if log.remote is not None:
        # Other records may take the offsets of those that are in remote storage.
        log.remote.copied_end = min(log.remote.copied_end, end_offset)
    log.epochs.truncate_end(end_offset)
    flusher.truncated()
    # Loaded again when they are needed.
    log.forget_producers()


def discard_files(log: Log, segments: Sequence[Segment], kinds: Sequence[str] = ALL_KINDS) -> None:
    """
    Rename files of the log at once, and have them removed later, since readers may have them open.

    :param kinds: suffixes of the files that go.
    """
    _detach(log, segments)
    log.owner.remove_later(log, _renamed(log.disk, _paths(segments, kinds)))


def clear(disk: IDisk, directory: str, gone: Sequence[str], end_offset: int, snapshots: Sequence[int]) -> list[str]:
    """
    Rename the files that a truncation gave up, and remove producer snapshots above the log's new end. Takes some
    milliseconds for a hundred segments: for I/O threads.

    :param gone: what :func:`cut` returned.
    :param snapshots: those before the cut, in case that the directory cannot be listed now: what is left here would be
        taken for the log's own, once that has grown again.
    :return: the paths of what is to be removed later, since readers may have it open.
    """
    with suppress(ApiError):
        snapshots = snapshot_offsets(disk, directory)
    for snapshot in snapshots:
        if snapshot > end_offset:
            disk.unlink(snapshot_path(directory, snapshot))
    return _renamed(disk, gone)


def _detach(log: Log, segments: Sequence[Segment]) -> None:
    for segment in segments:
        segment.close()
    if log.is_active:
        log.flusher.discarded(segments)


def _paths(segments: Sequence[Segment], kinds: Sequence[str] = ALL_KINDS) -> list[str]:
    return [segment.path(kind) for segment in segments for kind in kinds]


def _renamed(disk: IDisk, paths: Sequence[str]) -> list[str]:
    renamed = []
    for path in paths:
        if disk.exists(path):
            # A segment that was replaced twice may still be there. To rename a file over it would remove it now: that
            # takes 15 ms of 64 MB, and a reader may have it open.
            others = 0
            while disk.exists(new := file_names.deleted(path, others)):
                others += 1
            disk.rename(path, new)
            renamed.append(new)
    return renamed
