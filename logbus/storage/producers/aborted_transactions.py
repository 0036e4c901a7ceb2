"""
A log's aborted transactions: found for its readers, and found again where an index is damaged.

Which transactions there were is in the batches. What a marker ended is not: that takes the producers as they were, from
a snapshot before the segment and the batches from there on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from twisted.logger import Logger

from logbus.storage import file_names
from logbus.storage.segments.indexes import IndexCorrupt
from logbus.storage.segments.segment import Segment
from logbus.storage.segments.transaction_index import AbortedTransaction, TransactionIndex, encode
from logbus.storage.state_loader import earlier_snapshot, replay_batches

if TYPE_CHECKING:
    from logbus.storage.log import Log

_BASE_OFFSET = attrgetter("base_offset")
_FIRST_OFFSET = attrgetter("first_offset")

_log = Logger()


def aborted_transactions(log: Log, first_offset: int, end_offset: int) -> Sequence[AbortedTransaction]:
    """
    The aborted transactions with offsets in a range; arguments and errors as of :meth:`.Log.aborted_transactions`.
    """
    segments = log.aborting.from_offset(log, first_offset)
    found: list[AbortedTransaction] = []
    # What has offsets in a segment may have its marker in any later one.
    for i in range(max(0, bisect_right(segments, first_offset, key=_BASE_OFFSET) - 1), len(segments)):
        if _search(log, segments[i], first_offset, end_offset, found):
            break
    if len(found) > 1:
        found.sort(key=_FIRST_OFFSET)
    return found


class SegmentsWithAborts:
    """
    The segments of a log in which transactions were aborted, so that reads skip the others.

    Only the active segment can change. The list is computed once for each change of the log's segments, and only as far
    back as readers ask.
    """

    __slots__ = ("_aborting", "_known_from", "_segments")

    def __init__(self) -> None:
        self._segments: tuple[Segment, ...] = ()
        self._known_from = 0
        self._aborting: list[Segment] = []

    def from_offset(self, log: Log, offset: int) -> list[Segment]:
        """
        The segments with aborts that contain an offset or later ones (and possibly earlier segments), oldest first; the
        active one is always included.

        :raises StorageError: the disk failed, or the log is damaged.
        """
        segments = log.segments
        if segments is not self._segments:
            self._segments, self._known_from, self._aborting = segments, len(segments) - 1, [segments[-1]]
        if offset < segments[self._known_from].base_offset:
            first = max(0, bisect_right(segments, offset, key=_BASE_OFFSET) - 1)
            more = [each for each in segments[first : self._known_from] if aborted_index(log, each).count]
            self._aborting, self._known_from = more + self._aborting, first
        return self._aborting


def _search(log: Log, segment: Segment, first_offset: int, end_offset: int, found: list[AbortedTransaction]) -> bool:
    before = len(found)
    try:
        return segment.aborted.overlapping(first_offset, end_offset, found)
    except IndexCorrupt as problem:
        del found[before:]
        return rebuild_transaction_index(log, segment, str(problem)).overlapping(first_offset, end_offset, found)


def aborted_index(log: Log, segment: Segment) -> TransactionIndex:
    """The transaction index of a segment, rebuilt if it is found to be damaged."""
    try:
        return segment.aborted
    except IndexCorrupt as problem:
        return rebuild_transaction_index(log, segment, str(problem))


def truncate_transaction_index(log: Log, segment: Segment, offset: int) -> None:
    """Truncate a segment's transaction index: remove entries whose marker is at an offset or behind it."""
    try:
        segment.aborted.cut(offset)
    except IndexCorrupt as problem:
        rebuild_transaction_index(log, segment, str(problem)).cut(offset)


def rebuild_transaction_index(log: Log, segment: Segment, problem: str) -> TransactionIndex:
    """
    Rebuild a segment's transaction index from batch headers: the segment's own, and those since the last producer
    snapshot before it. Takes about a second for a gigabyte of ordinary batches.

    :param problem: the reason, for the log.
    :raises StorageError: the log itself is damaged.
    """
    _log.warn("{path}: index of aborted transactions rebuilt: {problem}", path=segment.log.path, problem=problem)
    segments = log.segments
    i = segments.index(segment)
    end = segments[i + 1].base_offset if i + 1 < len(segments) else log.log_end_offset
    producers = earlier_snapshot(log.disk, log.directory, segments[0].base_offset, segment.base_offset)
    found = [entry for entry in replay_batches(segments, producers, end) if entry.last_offset >= segment.base_offset]
    segment.close_transaction_index()
    log.disk.replace(segment.path(file_names.TRANSACTION_INDEX), encode(found))
    return segment.aborted
