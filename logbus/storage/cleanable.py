"""
Which part of a log is to be cleaned, whether it is worth it, and which segments become one: pure decisions.

::

    log start         cleaned end                 first uncleanable        log end
        |  clean: keys once  |  dirty: keys may repeat   |  not cleaned yet   |

Only whole segments are cleaned, and never the active one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

from attrs import frozen

from logbus.config.topic import TopicConfig
from logbus.storage.index import MAX_RELATIVE_OFFSET, OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from logbus.storage.retention import SegmentView
from logbus.storage.rolling import HasCount

_NEVER = 2**62


class CleanableSegment(SegmentView, Protocol):
    """What is asked of a segment."""

    @property
    def offsets(self) -> HasCount:
        """Its offset index."""

    @property
    def times(self) -> HasCount:
        """Its time index."""

    def first_ms(self) -> int:
        """The time of its first batch, ms since 1970; −1 without."""


S = TypeVar("S", bound=CleanableSegment)


@frozen
class Cleanable:
    """
    What of a log can be cleaned.

    :ivar start: records below it were cleaned before.
    :ivar end: records from here on are not cleaned yet.
    :ivar clean_bytes: of segments wholly before :ivar:`start`.
    :ivar dirty_bytes: of segments from there up to :ivar:`end`.
    :ivar is_overdue: some of it waits for longer than ``max.compaction.lag.ms``.
    """

    start: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        """How much of what would be read is dirty, 0.0 to 1.0."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: TopicConfig) -> bool:
        """Whether a topic wants it cleaned now."""
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > config.min_cleanable_dirty_ratio)


def cleanable(
    segments: Sequence[CleanableSegment],
    config: TopicConfig,
    *,
    log_start: int,
    cleaned_end: int,
    bound: int,
    now_ms: int,
) -> Cleanable:
    """
    What of a log can be cleaned.

    :param segments: oldest first; the last one is written to.
    :param log_start: the log start offset.
    :param cleaned_end: how far it was cleaned.
    :param bound: an offset that nothing is cleaned at or above: where what is committed, and synced, ends.
    :param now_ms: ms since 1970.
    """
    start = max(log_start, cleaned_end)
    clean = dirty = 0
    earliest = _NEVER
    asks_for_age = config.max_compaction_lag_ms < _NEVER
    end = segments[0].base_offset
    for segment, following in pairwise(segments):
        after = following.base_offset
        if after > bound:
            break
        if after <= start:
            clean += segment.size
        elif _is_young(segment, config.min_compaction_lag_ms, now_ms):
            break
        else:
            dirty += segment.size
            if asks_for_age and segment.size and 0 < (first := segment.first_ms()) < earliest:
                earliest = first
        end = after
    overdue = earliest < now_ms - config.max_compaction_lag_ms
    return Cleanable(min(start, end), end, clean, dirty, overdue)


def _is_young(segment: CleanableSegment, min_lag_ms: int, now_ms: int) -> bool:
    if min_lag_ms <= 0:
        return False
    youngest = segment.max_timestamp if segment.max_timestamp >= 0 else segment.modified_ms()
    return youngest > now_ms - min_lag_ms


def runs(segments: Sequence[S], following: int, config: TopicConfig) -> Iterator[tuple[S, ...]]:
    """
    Neighbours that become one segment, which stays within the topic's sizes: what is cleaned gets smaller, and would
    lie about in ever more small files.

    :param segments: those to be cleaned, oldest first.
    :param following: the base offset of the segment behind them.
    """
    run: list[S] = []
    size = entries = times = 0
    ends = [*(segment.base_offset for segment in segments[1:]), following]
    for segment, end in zip(segments, ends, strict=True):
        size += segment.size
        entries += segment.offsets.count
        times += segment.times.count
        if run and (
            size > config.segment_bytes
            or entries * OFFSET_ENTRY_SIZE > config.segment_index_bytes
            or times * TIME_ENTRY_SIZE > config.segment_index_bytes
            or end - 1 - run[0].base_offset > MAX_RELATIVE_OFFSET
        ):
            yield tuple(run)
            run = []
            size, entries, times = segment.size, segment.offsets.count, segment.times.count
        run.append(segment)
    if run:
        yield tuple(run)
