"""
Replaces several segments by one, atomically across crashes (Kafka: UnifiedLog.replaceSegments).

::

    00042.log.cleaned   is written. A crash: it is removed.
    00042.log.swap      it is synced, then renamed. A crash from here on: the next start completes the replacement.
    00042.log           the old segments have become .deleted, durably; the new one gets the first one's name.

The new segment's last batch ends where the old segments' last batch did, so the new file itself tells which ones it
replaces. Readers hold open files and are not disturbed by renames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from twisted.logger import Logger

from logbus.errors import ApiError, LogbusError, StorageError
from logbus.storage import file_names
from logbus.storage.filesystem.file_cache import FileCache
from logbus.storage.istorage import IDisk, IOPool
from logbus.storage.log import Log
from logbus.storage.log_flusher import sync_all
from logbus.storage.segments.segment import Segment, segment_with
from logbus.storage.truncation import SEGMENT_KINDS, discard_files

_log = Logger()


class ReplacementAbandoned(LogbusError):
    """The log changed meanwhile, or is being closed: nothing was replaced."""


class ReplacementUnfinished(LogbusError):
    """The segment replaced the others, but does not have its final name: the next start completes that."""


def check_unchanged(log: Log, old: Sequence[Segment]) -> None:
    """
    Check that segments are still sealed and in the log.

    :raises ReplacementAbandoned: they are not, or the log is closed or offline.
    """
    if log.is_closed or log.disk.failure is not None:
        raise ReplacementAbandoned(f"{log.partition} was closed")
    first = segment_with(log.segments, old[0].base_offset)
    # The last one is not sealed.
    if first + len(old) >= len(log.segments) or log.segments[first : first + len(old)] != tuple(old):
        raise ReplacementAbandoned(f"{log.partition} was truncated, or its segments were deleted")


def remove_segment_files(log: Log, new: Segment) -> None:
    """Remove the files of a new segment that is given up."""
    new.log.pinned = False
    new.close()
    if not log.is_closed and log.disk.failure is None:
        for kind in SEGMENT_KINDS:
            log.disk.unlink(new.path(kind))
            log.disk.unlink(f"{log.directory}/{file_names.segment_file(new.base_offset, kind)}{file_names.SWAP}")


@contextmanager
def new_segment(log: Log, first: Segment) -> Iterator[Segment]:
    """Begin a segment that is to replace ``first``, and others behind it; remove its files if writing it fails."""
    new = Segment(log.disk, log.files, log.directory, first.base_offset, first.created_ms, suffix=file_names.CLEANED)
    remove_segment_files(log, new)
    try:
        new.create()
        new.log.pinned = True
        yield new
        new.seal()
    except BaseException:
        remove_segment_files(log, new)
        raise


async def replace_segments(log: Log, old: Sequence[Segment], new: Segment) -> None:
    """
    Replace segments by another one, durably.

    :param new: written as ``.cleaned``, with indexes; it is removed again if nothing is replaced.
    :raises ReplacementAbandoned: the log changed; nothing was replaced.
    :raises ReplacementUnfinished: the log's content is right, but not its file names.
    :raises ApiError: there is no space; nothing was replaced.
    :raises StorageError: the disk failed, and is offline.
    """
    disk = log.disk
    try:
        if disk.exists(stale := old[0].path(file_names.TRANSACTION_INDEX)) and disk.size(stale):
            # An empty one, too: the old segment's index must not be taken for the new one's.
            new.aborted.save(always=True)
        files = [file.get() for file in (new.log, *new.save_indexes())]
        await disk.submit(IOPool.BACKGROUND, sync_all, disk, (), files, ())
        del files
        check_unchanged(log, old)
        new.log.pinned = False
        await _rename_transaction_index(log, new, file_names.SWAP)
        check_unchanged(log, old)
        new.rename(file_names.SWAP)
        await disk.submit(IOPool.BACKGROUND, disk.sync_directory, log.directory)
        check_unchanged(log, old)
    except (ApiError, ReplacementAbandoned):
        remove_segment_files(log, new)
        raise
    try:
        at = log.segments.index(old[0])
        new.on_damage = log.suspected
        log.segments = (*log.segments[:at], new, *log.segments[at + len(old) :])
        discard_files(log, old, SEGMENT_KINDS)
        await disk.submit(IOPool.BACKGROUND, disk.sync_directory, log.directory)
        if new in log.segments and not log.is_closed:
            await _rename_transaction_index(log, new, "")
        if new in log.segments and not log.is_closed:
            new.rename("")
            await disk.submit(IOPool.BACKGROUND, disk.sync_directory, log.directory)
    except ApiError as error:
        raise ReplacementUnfinished(f"{log.partition}: {error}") from error


async def _rename_transaction_index(log: Log, new: Segment, suffix: str) -> None:
    """
    Rename the transaction index durably before the log file is renamed: it cannot be rebuilt from the new segment
    alone.
    """
    if new.rename_transaction_index(suffix):
        await log.disk.submit(IOPool.BACKGROUND, log.disk.sync_directory, log.directory)


async def complete_replacements(disk: IDisk, files: FileCache, directory: str) -> None:
    """
    Complete or undo the replacements that a stop interrupted (Kafka: LogLoader.completeSwapOperations). The log is not
    open yet.

    :raises StorageError: the disk failed, and is offline.
    """
    found = disk.names(directory)
    swaps = sorted(
        base
        for name in found
        if (base := file_names.base_offset_of(name, file_names.LOG + file_names.SWAP)) is not None
    )
    if swaps:
        # The process may have been killed before the new name was synced. Nothing that the segment replaces is removed
        # until it is: a power cut could keep the removal and lose the name.
        await disk.submit(IOPool.BACKGROUND, disk.sync_directory, directory)
    for base in swaps:
        new = Segment(disk, files, directory, base, suffix=file_names.SWAP)
        new.size = disk.size(new.log.path)
        last = base
        try:
            for _, header in new.batches(0):
                last = max(last, header.last_offset)
        except StorageError as problem:
            if disk.failure is not None:
                raise
            _log.error("{problem}", problem=str(problem))
        new.close()
        for name in found:
            old = file_names.base_offset_of(name, file_names.LOG)
            if old is not None and base <= old <= last:
                for kind in SEGMENT_KINDS:
                    if kind != file_names.TRANSACTION_INDEX or old != base:
                        disk.unlink(f"{directory}/{file_names.segment_file(old, kind)}")
        if disk.exists(aborted := new.path(file_names.TRANSACTION_INDEX)):
            # Otherwise a transaction index under that name, if any, is already the new segment's.
            disk.rename(aborted, f"{directory}/{file_names.segment_file(base, file_names.TRANSACTION_INDEX)}")
        # Before the rename: the segments that it replaces must not come back beside it.
        await disk.submit(IOPool.BACKGROUND, disk.sync_directory, directory)
        disk.rename(new.path(file_names.LOG), f"{directory}/{file_names.segment_file(base, file_names.LOG)}")
        _log.info("{path}: replaced the segments up to offset {last}", path=new.log.path, last=last)
    for name in found:
        if name.endswith((file_names.CLEANED, file_names.SWAP)):
            disk.unlink(f"{directory}/{name}")
