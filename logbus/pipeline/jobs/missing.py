"""
What of topics is to be loaded next: what is wanted and not in the table; pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from logbus.model import TopicPartition
from logbus.pipeline.lake.ranges import Offsets, Range
from logbus.pipeline.source.planning import limited


@frozen
class Wanted:
    """
    Of a partition.

    :ivar held: what is in the table.
    :ivar log_start: the first offset that the brokers still have.
    :ivar start: from where on it is wanted, not before ``log_start``;  ``end``: up to where.
    """

    held: Offsets
    log_start: int
    start: int
    end: int

    @property
    def lost(self) -> Offsets:
        """What was to be read after what is in the table, and is not there any more."""
        if not self.held or self.held.end >= self.log_start:
            return Offsets()
        return Offsets.of((self.held.end, self.log_start))

    @property
    def missing(self) -> Offsets:
        """What is to be loaded."""
        return Offsets.of((self.start, max(self.start, self.end))) - self.held


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


def left(wanted: Mapping[TopicPartition, Wanted]) -> int:
    """Offsets that are to be loaded."""
    return sum(len(each.missing) for each in wanted.values())
