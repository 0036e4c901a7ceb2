"""Computes which offsets a load has to read next: those wanted and not in the table. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from logbus.model import TopicPartition
from logbus.pipeline.lake.offset_set import OffsetSet, Range
from logbus.pipeline.source.offset_ranges import rate_limited


@frozen(kw_only=True)
class WantedOffsets:
    """
    The offsets of a partition that a load wants.

    :ivar held: those in the table, or known to be lost.
    :ivar log_start: the log start offset.
    :ivar start: the first wanted;  ``end``: after the last wanted, at most the end offset.
    """

    held: OffsetSet
    log_start: int
    start: int
    end: int

    @property
    def lost(self) -> OffsetSet:
        """
        The wanted offsets that are gone.

        A start of "earliest", or by time, means the offset at the first load, and all offsets after it.
        """
        start = self.start
        if start >= self.log_start:
            start = self.held.start if self.held and self.start == self.log_start else self.log_start
        return OffsetSet.of((start, max(start, min(self.log_start, self.end)))) - self.held

    @property
    def missing(self) -> OffsetSet:
        """The offsets to load."""
        start = max(self.start, self.log_start)
        return OffsetSet.of((start, max(start, self.end))) - self.held


def next_batch(wanted: Mapping[TopicPartition, WantedOffsets], limit: int) -> dict[TopicPartition, Range]:
    """
    The first missing range of each partition; together about ``limit`` offsets.

    Partitions share the limit in proportion to their ranges, so that all finish at about the same time.
    """
    first = {each: missing.ranges[0] for each, of in wanted.items() if (missing := of.missing)}
    ends = rate_limited(
        {each: start for each, (start, _) in first.items()}, {each: end for each, (_, end) in first.items()}, limit
    )
    return {each: (start, ends[each]) for each, (start, _) in first.items() if ends[each] > start}
