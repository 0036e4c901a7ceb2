"""
The remote segments of one partition, as the metadata topic tells them (Kafka: RemoteLogMetadataCache). Pure.

Copies may overlap, and a copy may belong to a lineage of leaders that an unclean election gave up. So a segment counts
for an offset only if it has the leader epoch that the log has there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from uuid import UUID

from logbus.model import NO_EPOCH
from logbus.storage.remote.remote_log_segment import (
    COPY_FINISHED,
    DELETE_FINISHED,
    EpochStarts,
    RemoteLogSegment,
    epoch_at,
    may_follow,
)

_START = attrgetter("start_offset")


class RemoteLogIndex:
    """
    The remote segments of a partition.

    :ivar version: grows by one with each change.
    """

    __slots__ = ("_aborting", "_by_start", "_furthest", "_segments", "version")

    def __init__(self) -> None:
        self._segments: dict[UUID, RemoteLogSegment] = {}
        self._by_start: list[RemoteLogSegment] | None = None
        self._furthest: list[int] = []
        self._aborting: list[RemoteLogSegment] | None = None
        self.version = 0

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[RemoteLogSegment]:
        """Every segment that is not deleted, in no particular order."""
        return iter(list(self._segments.values()))

    def get(self, segment_id: UUID) -> RemoteLogSegment | None:
        """A segment that is not deleted; None if there is none with that id."""
        return self._segments.get(segment_id)

    def apply(self, segment: RemoteLogSegment) -> bool:
        """
        Take over a segment's state.

        :returns: False: it cannot follow the present one, and is ignored: it was written by a leader that has been
            replaced.
        """
        before = self._segments.get(segment.segment_id)
        if not may_follow(None if before is None else before.state, segment.state):
            return False
        if segment.state is DELETE_FINISHED:
            self._segments.pop(segment.segment_id, None)
        else:
            self._segments[segment.segment_id] = segment
        self._changed()
        return True

    def forget(self, segment_id: UUID) -> None:
        """Remove a segment, whatever its state: its record was deleted from the topic."""
        if self._segments.pop(segment_id, None) is not None:
            self._changed()

    def _changed(self) -> None:
        self._by_start = self._aborting = None
        self.version += 1

    @property
    def finished(self) -> list[RemoteLogSegment]:
        """The segments whose copy is complete, by start offset."""
        found = self._by_start
        if found is None:
            found = sorted((each for each in self._segments.values() if each.state is COPY_FINISHED), key=_START)
            self._by_start, self._furthest = found, []
            furthest = -1
            for each in found:
                furthest = max(furthest, each.end_offset)
                self._furthest.append(furthest)
        return found

    @property
    def with_aborted(self) -> list[RemoteLogSegment]:
        """Those of them that have an index of aborted transactions."""
        finished = self.finished
        if self._aborting is None:
            self._aborting = [each for each in finished if each.has_aborted]
        return self._aborting

    @property
    def size(self) -> int:
        """Bytes of all segments whose copy is complete."""
        return sum(each.size for each in self.finished)

    def segment_at(self, offset: int, epoch: int) -> RemoteLogSegment | None:
        """
        The complete segment that has ``offset`` with a leader epoch; of several the one that reaches furthest.

        :param epoch: −1: any.
        """
        finished, best = self.finished, None
        i = bisect_right(finished, offset, key=_START) - 1
        while i >= 0 and self._furthest[i] > offset:
            each = finished[i]
            if (
                each.end_offset > offset
                and (epoch == NO_EPOCH or each.epoch_at(offset) == epoch)
                and (best is None or each.end_offset > best.end_offset)
            ):
                best = each
            i -= 1
        return best

    def chain(self, start_offset: int, epochs: EpochStarts) -> Iterator[tuple[RemoteLogSegment, int]]:
        """
        The segments that have a log's records from ``start_offset`` on without a gap, each with the offset up to which
        it counts.

        :param epochs: the log's leader epochs.
        """
        offset = start_offset
        while True:
            segment = self.segment_at(offset, epoch_at(epochs, offset))
            if segment is None:
                return
            end = segment.agrees_up_to(epochs, offset)
            if end <= offset:
                return
            yield segment, end
            offset = end

    def copied_end(self, start_offset: int, epochs: EpochStarts) -> int:
        """The offset up to which a log's records from ``start_offset`` on are in remote storage without a gap."""
        return max((end for _, end in self.chain(start_offset, epochs)), default=start_offset)

    def first_start(self, offset: int, epochs: EpochStarts) -> int | None:
        """The first offset at or behind ``offset`` that a complete segment has; None without any."""
        for each in self.finished:
            if each.end_offset > offset:
                at = max(each.start_offset, offset)
                epoch = epoch_at(epochs, at)
                if epoch in (NO_EPOCH, each.epoch_at(at)):
                    return at
        return None
