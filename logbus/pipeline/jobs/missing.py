"""
What of topics is to be loaded next: what is wanted and not in the table; pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from logbus.model import TopicPartition
from logbus.pipeline.lake.ranges import Offsets, Range
from logbus.pipeline.source.planning import limited


@frozen(kw_only=True)
class Wanted:
    """
    Of a partition.

    :ivar held: what is in the table, or known to be lost.
    :ivar log_start: the first offset that the brokers still have.
    :ivar start: from where on it is wanted;  ``end``: up to where, at most the end that it has.
    """

    held: Offsets
    log_start: int
    start: int
    end: int

    @property
    def lost(self) -> Offsets:
        """
        What is wanted, and is not there any more.

        Who asks for the oldest, or for a time, means what is there at first, and everything after it ever since.
        """
        start = self.start
        if start >= self.log_start:
            start = self.held.start if self.held and self.start == self.log_start else self.log_start
        return Offsets.of((start, max(start, min(self.log_start, self.end)))) - self.held

    @property
    def missing(self) -> Offsets:
        """What is to be loaded."""
        start = max(self.start, self.log_start)
        return Offsets.of((start, max(start, self.end))) - self.held


def next_batch(wanted: Mapping[TopicPartition, Wanted], limit: int) -> dict[TopicPartition, Range]:
    """
    One range of each partition that misses some, the oldest; together about ``limit`` offsets.

    Partitions share the limit in proportion to their ranges, so that all are done at about the same time.
    """
    first = {each: missing.ranges[0] for each, of in wanted.items() if (missing := of.missing)}
    ends = limited(
        {each: start for each, (start, _) in first.items()}, {each: end for each, (_, end) in first.items()}, limit
    )
    return {each: (start, ends[each]) for each, (start, _) in first.items() if ends[each] > start}
