"""
A log's aborted transactions: found for its readers, and found again where an index is damaged.

Which transactions there were is in the batches. What a marker ended is not: that takes the producers as they were, from
a snapshot before the segment and the batches from there on.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from twisted.logger import Logger

from logbus.storage import file_names
from logbus.storage.filesystem.cached_only import CachedOnly
from logbus.storage.producers.producer_state_loader import latest_snapshot, replay_batches
from logbus.storage.segments.indexes import IndexCorrupt
from logbus.storage.segments.segment import Segment, segment_with
from logbus.storage.segments.transaction_index import AbortedTransaction, TransactionIndex, encode

_FIRST_OFFSET = attrgetter("first_offset")

_log = Logger()


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

    def transactions(
        self, segments: tuple[Segment, ...], log_end_offset: int, first_offset: int, end_offset: int
    ) -> Sequence[AbortedTransaction]:
        """
        The aborted transactions with records from ``first_offset`` on and below ``end_offset``, by first offset.

        :param segments: all of the log's.
        :raises StorageError: the disk failed, or the log is damaged.
        """
        aborting = self.from_offset(segments, log_end_offset, first_offset)
        found: list[AbortedTransaction] = []
        # What has offsets in a segment may have its marker in any later one.
        for i in range(segment_with(aborting, first_offset), len(aborting)):
            if _search(aborting[i], segments, log_end_offset, first_offset, end_offset, found):
                break
        if len(found) > 1:
            found.sort(key=_FIRST_OFFSET)
        return found

    def from_offset(self, segments: tuple[Segment, ...], log_end_offset: int, offset: int) -> list[Segment]:
        """
        The segments with aborts that contain an offset or later ones (and possibly earlier segments), oldest first; the
        active one is always included.

        :raises StorageError: the disk failed, or the log is damaged.
        """
        if segments is not self._segments:
            self._segments, self._known_from, self._aborting = segments, len(segments) - 1, [segments[-1]]
        if offset < segments[self._known_from].base_offset:
            first = segment_with(segments, offset)
            older = segments[first : self._known_from]
            more = [each for each in older if aborted_index(each, segments, log_end_offset).count]
            self._aborting, self._known_from = more + self._aborting, first
        return self._aborting


def _search(
    segment: Segment,
    segments: Sequence[Segment],
    log_end_offset: int,
    first_offset: int,
    end_offset: int,
    found: list[AbortedTransaction],
) -> bool:
    before = len(found)
    try:
        return segment.aborted.overlapping(first_offset, end_offset, found)
    except IndexCorrupt as problem:
        del found[before:]
        index = rebuild_transaction_index(segment, segments, log_end_offset, str(problem))
        return index.overlapping(first_offset, end_offset, found)


def aborted_index(segment: Segment, segments: Sequence[Segment], log_end_offset: int) -> TransactionIndex:
    """The transaction index of one of a log's segments, rebuilt if it is found to be damaged."""
    try:
        return segment.aborted
    except IndexCorrupt as problem:
        return rebuild_transaction_index(segment, segments, log_end_offset, str(problem))


def truncate_transaction_index(segment: Segment, segments: Sequence[Segment], log_end_offset: int, offset: int) -> None:
    """Truncate a segment's transaction index: remove entries whose marker is at an offset or behind it."""
    try:
        segment.aborted.cut(offset)
    except IndexCorrupt as problem:
        rebuild_transaction_index(segment, segments, log_end_offset, str(problem)).cut(offset)


def rebuild_transaction_index(
    segment: Segment, segments: Sequence[Segment], log_end_offset: int, problem: str
) -> TransactionIndex:
    """
    Rebuild a segment's transaction index from batch headers: the segment's own, and those since the last producer
    snapshot before it. Takes about a second for a gigabyte of ordinary batches.

    :param segments: all of the log's.
    :param problem: the reason, for the log.
    :raises StorageError: the log itself is damaged.
    """
    _log.warn("{path}: index of aborted transactions rebuilt: {problem}", path=segment.log.path, problem=problem)
    disk = segment.disk
    i, first = segments.index(segment), segment.base_offset
    end = segments[i + 1].base_offset if i + 1 < len(segments) else log_end_offset
    with CachedOnly(disk, on=False):
        producers = latest_snapshot(disk, segment.directory, segments[0].base_offset, first, keeps=True)
        found = [entry for entry in replay_batches(segments, producers, end) if entry.last_offset >= first]
        segment.close_transaction_index()
        disk.replace(segment.path(file_names.TRANSACTION_INDEX), encode(found))
        return segment.aborted
