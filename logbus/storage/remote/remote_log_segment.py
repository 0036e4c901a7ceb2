"""
A segment in remote storage, and its states (Kafka: RemoteLogSegmentMetadata, RemoteLogSegmentState). Pure.

::

    COPY_SEGMENT_STARTED ──> COPY_SEGMENT_FINISHED ──> DELETE_SEGMENT_STARTED ──> DELETE_SEGMENT_FINISHED
              └───────────────────────────────────────────────┘

Each state is durable before the step that it announces: whoever finds a segment in a state knows what may be in the
store.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from enum import IntEnum
from uuid import UUID

from attrs import evolve, frozen

from logbus.model import NO_EPOCH, TopicPartition

EpochStarts = tuple[tuple[int, int], ...]
"""Leader epochs and their start offsets, both increasing."""


class RemoteLogSegmentState(IntEnum):
    """The states of a remote segment; the values are Kafka's."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


COPY_STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
COPY_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETE_STARTED = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETE_FINISHED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

_NEXT = {
    COPY_STARTED: frozenset({COPY_FINISHED, DELETE_STARTED}),
    COPY_FINISHED: frozenset({DELETE_STARTED}),
    DELETE_STARTED: frozenset({DELETE_FINISHED}),
    DELETE_FINISHED: frozenset[RemoteLogSegmentState](),
}


def may_follow(before: RemoteLogSegmentState | None, after: RemoteLogSegmentState) -> bool:
    """
    Whether a state may follow another one, or the same one again.

    :param before: None: nothing is known of the segment: compaction may have removed its earlier states.
    """
    return before is None or before is after or after in _NEXT[before]


@frozen
class RemoteLogSegment:
    """
    A segment in remote storage.

    :ivar segment_id: new with each copy, so that two leaders that copy the same records do not disturb each other.
    :ivar start_offset: its first offset; ``end_offset``: the one after its last.
    :ivar max_timestamp: the largest of its records, ms since 1970; −1 if none has one.
    :ivar size: bytes of its record batches.
    :ivar epochs: the leader epochs of its records; the first begins at ``start_offset``.
    :ivar has_aborted: whether it may have an index of aborted transactions.
    :ivar broker_id: of the leader that wrote this state; ``event_ms``: when, ms since 1970.
    """

    topic_id: UUID
    partition: TopicPartition
    segment_id: UUID
    start_offset: int
    end_offset: int
    max_timestamp: int
    size: int
    epochs: EpochStarts
    broker_id: int
    event_ms: int
    has_aborted: bool = True
    state: RemoteLogSegmentState = COPY_STARTED

    def with_state(self, state: RemoteLogSegmentState, broker_id: int, event_ms: int) -> RemoteLogSegment:
        """The segment in its next state."""
        return evolve(self, state=state, broker_id=broker_id, event_ms=event_ms)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of an offset, −1 if unknown."""
        return epoch_at(self.epochs, offset)

    def agrees_up_to(self, epochs: EpochStarts, offset: int) -> int:
        """
        The end of the offsets, from ``offset`` on, whose leader epochs are those of a log: they have the same records.

        :param epochs: of the log; where it knows none, they are taken to agree.
        """
        changes = {start for _, start in (*self.epochs, *epochs) if offset < start < self.end_offset}
        for at in (offset, *sorted(changes)):
            if epoch_at(epochs, at) not in (NO_EPOCH, epoch_at(self.epochs, at)):
                return at
        return self.end_offset


def epoch_at(epochs: EpochStarts, offset: int) -> int:
    """The leader epoch of an offset, −1 if unknown."""
    i = bisect_right(epochs, offset, key=_start)
    return epochs[i - 1][0] if i else NO_EPOCH


def _start(entry: tuple[int, int]) -> int:
    return entry[1]


def epochs_between(epochs: Iterable[tuple[int, int]], start_offset: int, end_offset: int) -> EpochStarts:
    """The leader epochs of a range of offsets; the first begins at ``start_offset``."""
    found: list[tuple[int, int]] = []
    for epoch, start in epochs:
        if start >= end_offset:
            break
        if start <= start_offset:
            found = [(epoch, start_offset)]
        else:
            found.append((epoch, start))
    return tuple(found)
