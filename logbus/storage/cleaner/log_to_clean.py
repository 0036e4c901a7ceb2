"""
Decides which section of a log to clean, and which segments to merge into one (Kafka: LogToClean, groupSegmentsBySize).
Pure.

::

    log start         cleaned end                 first uncleanable        log end
        |  clean: keys once  |  dirty: keys may repeat   |  not cleaned yet   |

Only whole segments are cleaned, and never the active one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, Protocol, TypeVar

from attrs import define, field, frozen

from logbus.config.topic_config import TopicConfig
from logbus.storage.istorage import SegmentView
from logbus.storage.segments.indexes import MAX_RELATIVE_OFFSET, OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from logbus.storage.segments.roll_policy import HasCount

_NEVER = 2**62
DELETE = "delete"
MAX_GROUP_SEGMENTS = 100
"""Upper bound of segments merged into one: all their files are renamed in one turn of the reactor."""
MAX_GROUP_BYTES = 16 * 1024 * 1024
"""
Upper bound of bytes of segments that do not fit into one as they are: an aborted cleaning loses the work on one group.
"""


class CleanableSegment(SegmentView, Protocol):
    """The properties of a segment that the decisions depend on."""

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
class LogToClean:
    """
    The cleanable section of a log.

    :ivar start: records below it were cleaned before.
    :ivar end: records from here on are not to be cleaned yet.
    :ivar clean_bytes: of segments wholly before :ivar:`start`.
    :ivar dirty_bytes: of segments from there up to :ivar:`end`.
    :ivar is_overdue: a record has waited for longer than ``max.compaction.lag.ms``.
    """

    start: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        """The dirty share of the bytes that would be read, 0.0 to 1.0 (Kafka: cleanableRatio)."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: TopicConfig) -> bool:
        """Whether the topic's settings ask for a cleaning now."""
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > config.min_cleanable_dirty_ratio)


def cleanable_section(
    segments: Sequence[CleanableSegment],
    config: TopicConfig,
    *,
    log_start: int,
    cleaned_end: int,
    bound: int,
    now_ms: int,
) -> LogToClean:
    """
    Compute the cleanable section of a log.

    :param segments: oldest first; the last one is active.
    :param log_start: the log start offset.
    :param cleaned_end: the offset up to which it was cleaned.
    :param bound: nothing at or above this offset is cleaned: it is not committed or not synced.
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
    return LogToClean(min(start, end), end, clean, dirty, overdue)


def _is_young(segment: CleanableSegment, min_lag_ms: int, now_ms: int) -> bool:
    if min_lag_ms <= 0:
        return False
    youngest = segment.max_timestamp if segment.max_timestamp >= 0 else segment.modified_ms()
    return youngest > now_ms - min_lag_ms


@define
class SegmentGroup(Generic[S]):
    """
    Neighbouring segments to be merged into one within the topic's size limits. Without merging, cleaned segments would
    become ever smaller files, and each file that is replaced costs several syncs, whatever its size.

    Segments are added in order, each after the remaining records of those before it were written.

    :ivar segments: those added.
    """

    _config: TopicConfig
    segments: list[S] = field(factory=list, init=False)
    _read: _Sizes = field(factory=lambda: _Sizes(0, 0, 0), init=False)

    def add(self, segment: S, following: int, written: CleanableSegment) -> bool:
        """
        Add the next segment, if there is room for it.

        :param following: the base offset of the segment behind it.
        :param written: the new segment, with the remaining records of those added before.
        :returns: whether it was added; the first one always is.
        """
        size = _Sizes.of(segment)
        read = self._read.plus(size)
        if self.segments and not (
            len(self.segments) < MAX_GROUP_SEGMENTS
            and following - 1 - self.segments[0].base_offset <= MAX_RELATIVE_OFFSET
            # Either all of them fit as they are, or their remaining records do.
            and (read.within(self._config) or self._fits_after(written, read, size))
        ):
            return False
        self.segments.append(segment)
        self._read = read
        return True

    def _fits_after(self, written: CleanableSegment, read: _Sizes, size: _Sizes) -> bool:
        # Retention deletes whole segments: old records would stay as long as the young ones merged with them.
        return (
            DELETE not in self._config.cleanup_policy
            and read.size <= MAX_GROUP_BYTES
            and _Sizes.of(written).plus(size).within(self._config)
        )


class _Sizes(NamedTuple):
    """The limited sizes of a segment: its bytes, and the entries of its indexes."""

    size: int
    entries: int
    times: int

    @classmethod
    def of(cls, segment: CleanableSegment) -> _Sizes:
        return cls(segment.size, segment.offsets.count, segment.times.count)

    def plus(self, other: _Sizes) -> _Sizes:
        return _Sizes(self.size + other.size, self.entries + other.entries, self.times + other.times)

    def within(self, config: TopicConfig) -> bool:
        return (
            self.size <= config.segment_bytes
            and self.entries * OFFSET_ENTRY_SIZE <= config.segment_index_bytes
            and self.times * TIME_ENTRY_SIZE <= config.segment_index_bytes
        )
