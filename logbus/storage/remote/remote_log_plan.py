"""
Decides what is copied to remote storage, and what is deleted there. Pure.

*Copied* are closed segments below the last stable offset, oldest first: what may still be truncated or aborted stays
local. *Deleted* are segments that retention selects, or that lie before the log start offset, and what a leader that is
gone left unfinished.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from attrs import frozen

from logbus.storage.istorage import SegmentView
from logbus.storage.remote.remote_log_index import RemoteLogIndex
from logbus.storage.remote.remote_log_segment import (
    COPY_STARTED,
    DELETE_STARTED,
    EpochStarts,
    RemoteLogSegment,
)


@frozen
class SegmentToCopy:
    """A local segment to be copied: its position among the log's, and the offset after its last."""

    position: int
    end_offset: int


def next_to_copy(segments: Sequence[SegmentView], copied_end: int, bound: int) -> SegmentToCopy | None:
    """
    The next local segment to be copied, if any.

    :param segments: the log's; the last one is active, and never copied.
    :param copied_end: everything below is in remote storage.
    :param bound: nothing at or above it is copied: the last stable offset.
    """
    for i in range(len(segments) - 1):
        end = segments[i + 1].base_offset
        if end > copied_end:
            return SegmentToCopy(i, end) if end <= bound and segments[i].size else None
    return None


@frozen
class RemoteRetention:
    """
    The retention of a topic with remote storage.

    :ivar retention_ms: ``retention.ms``; ``retention_bytes``: ``retention.bytes``; −1: no limit.
    """

    retention_ms: int
    retention_bytes: int

    def log_start_offset(
        self, index: RemoteLogIndex, epochs: EpochStarts, start_offset: int, local_bytes: int, now_ms: int
    ) -> int:
        """
        The log start offset after retention: remote segments are given up, oldest first.

        :param epochs: the log's leader epochs.
        :param start_offset: the log start offset so far.
        :param local_bytes: bytes of the log that are not in remote storage.
        """
        chain = list(index.chain(start_offset, epochs))
        excess = sum(segment.size for segment, _ in chain) + local_bytes - self.retention_bytes
        for segment, end in chain:
            # A later part of it may belong to another lineage: the log begins behind the part that counts.
            is_too_old = self.retention_ms >= 0 and now_ms - segment.max_timestamp > self.retention_ms
            excess -= segment.size
            if not is_too_old and not (self.retention_bytes >= 0 and excess >= 0):
                break
            start_offset = end
        return start_offset


def to_delete(
    index: RemoteLogIndex, log_start_offset: int, epochs: EpochStarts, leader_epoch: int, copying: Collection[UUID]
) -> list[RemoteLogSegment]:
    """
    The remote segments that the leader deletes, oldest first: those before the log start offset, copies that another
    leader or another life of this one began, deletions that were begun, and copies that no reader finds, since their
    leader epochs are not the log's. A segment with records of a later leader is that leader's business: whoever still
    takes itself for the leader does not know the log's present lineage.

    :param epochs: the log's leader epochs.
    :param leader_epoch: in which the caller leads.
    :param copying: the segments that this leader is copying.
    """
    found = []
    for segment in index:
        if segment.segment_id in copying or (segment.epochs and segment.epochs[-1][0] > leader_epoch):
            continue
        if (
            segment.state in (COPY_STARTED, DELETE_STARTED)
            or segment.end_offset <= log_start_offset
            or _is_unreachable(segment, epochs)
        ):
            found.append(segment)
    return sorted(found, key=lambda segment: segment.start_offset)


def _is_unreachable(segment: RemoteLogSegment, epochs: EpochStarts) -> bool:
    """Whether the log has other leader epochs at all offsets of a segment. Unknown ones are no proof."""
    if not epochs or not segment.epochs or epochs[0][1] > segment.start_offset:
        return False
    starts = {start for _, start in (*segment.epochs, *epochs) if segment.start_offset <= start < segment.end_offset}
    return all(segment.agrees_up_to(epochs, at) <= at for at in {segment.start_offset, *starts})
