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

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from twisted.logger import Logger

from logbus.errors import ApiError, LogbusError, StorageError
from logbus.storage import names
from logbus.storage.files import FileCache
from logbus.storage.flush import sync_all
from logbus.storage.istorage import IDisk, Lane
from logbus.storage.log import Log
from logbus.storage.segment import Segment
from logbus.storage.shortening import SEGMENT_KINDS, discard

_BASE_OFFSET = attrgetter("base_offset")

_log = Logger()


class Abandoned(LogbusError):
    """The log changed meanwhile, or is being closed: nothing was replaced."""


class HalfDone(LogbusError):
    """The segment replaced the others, but does not have its final name: the next start completes that."""


def check_unchanged(log: Log, old: Sequence[Segment]) -> None:
    """
    Check that segments are still sealed and in the log.

    :raises Abandoned: they are not, or the log is closed or offline.
    """
    if log.is_closed or log.disk.failure is not None:
        raise Abandoned(f"{log.partition} was closed")
    first = bisect_left(log.segments, old[0].base_offset, key=_BASE_OFFSET)
    # The last one is not sealed.
    if first + len(old) >= len(log.segments) or log.segments[first : first + len(old)] != tuple(old):
        raise Abandoned(f"{log.partition} was truncated, or its segments were deleted")


def remove(log: Log, new: Segment) -> None:
    """Remove the files of a new segment that is given up."""
    new.log.pinned = False
    new.close()
    if not log.is_closed and log.disk.failure is None:
        for kind in SEGMENT_KINDS:
            log.disk.unlink(new.path(kind))
            log.disk.unlink(f"{log.directory}/{names.segment_file(new.base_offset, kind)}{names.SWAP}")


async def swap(log: Log, old: Sequence[Segment], new: Segment) -> None:
    """
    Replace segments by another one, durably.

    :param new: written as ``.cleaned``, with indexes; it is removed again if nothing is replaced.
    :raises Abandoned: the log changed; nothing was replaced.
    :raises HalfDone: the log's content is right, but not its file names.
    :raises ApiError: there is no space; nothing was replaced.
    :raises StorageError: the disk failed, and is offline.
    """
    disk = log.disk
    try:
        if disk.exists(stale := old[0].path(names.TRANSACTION_INDEX)) and disk.size(stale):
            # An empty one, too: the old segment's index must not be taken for the new one's.
            new.aborted.save(always=True)
        files = [file.get() for file in (new.log, *new.save_indexes())]
        await disk.submit(Lane.BACKGROUND, sync_all, disk, (), files, ())
        del files
        check_unchanged(log, old)
        new.log.pinned = False
        await _rename_aborted(log, new, names.SWAP)
        check_unchanged(log, old)
        new.rename(names.SWAP)
        await disk.submit(Lane.BACKGROUND, disk.sync_directory, log.directory)
        check_unchanged(log, old)
    except (ApiError, Abandoned):
        remove(log, new)
        raise
    try:
        at = log.segments.index(old[0])
        new.on_damage = log.suspected
        log.segments = (*log.segments[:at], new, *log.segments[at + len(old) :])
        discard(log, old, SEGMENT_KINDS)
        await disk.submit(Lane.BACKGROUND, disk.sync_directory, log.directory)
        if new in log.segments and not log.is_closed:
            await _rename_aborted(log, new, "")
        if new in log.segments and not log.is_closed:
            new.rename("")
            await disk.submit(Lane.BACKGROUND, disk.sync_directory, log.directory)
    except ApiError as error:
        raise HalfDone(f"{log.partition}: {error}") from error


async def _rename_aborted(log: Log, new: Segment, suffix: str) -> None:
    """
    Rename the transaction index durably before the log file is renamed: it cannot be rebuilt from the new segment
    alone.
    """
    if new.rename_aborted(suffix):
        await log.disk.submit(Lane.BACKGROUND, log.disk.sync_directory, log.directory)


async def settle(disk: IDisk, files: FileCache, directory: str) -> None:
    """
    Complete or undo the replacements that a stop interrupted (Kafka: LogLoader.completeSwapOperations). The log is not
    open yet.

    :raises StorageError: the disk failed, and is offline.
    """
    found = disk.names(directory)
    swaps = sorted(base for name in found if (base := names.base_offset_of(name, names.LOG + names.SWAP)) is not None)
    if swaps:
        # The process may have been killed before the new name was synced. Nothing that the segment replaces is removed
        # until it is: a power cut could keep the removal and lose the name.
        await disk.submit(Lane.BACKGROUND, disk.sync_directory, directory)
    for base in swaps:
        new = Segment(disk, files, directory, base, suffix=names.SWAP)
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
            old = names.base_offset_of(name, names.LOG)
            if old is not None and base <= old <= last:
                for kind in SEGMENT_KINDS:
                    if kind != names.TRANSACTION_INDEX or old != base:
                        disk.unlink(f"{directory}/{names.segment_file(old, kind)}")
        if disk.exists(aborted := new.path(names.TRANSACTION_INDEX)):
            # Otherwise a transaction index under that name, if any, is already the new segment's.
            disk.rename(aborted, f"{directory}/{names.segment_file(base, names.TRANSACTION_INDEX)}")
        # Before the rename: the segments that it replaces must not come back beside it.
        await disk.submit(Lane.BACKGROUND, disk.sync_directory, directory)
        disk.rename(new.path(names.LOG), f"{directory}/{names.segment_file(base, names.LOG)}")
        _log.info("{path}: replaced the segments up to offset {last}", path=new.log.path, last=last)
    for name in found:
        if name.endswith((names.CLEANED, names.SWAP)):
            disk.unlink(f"{directory}/{name}")
