"""
Buckets of time, so that a join of two streams compares an event with those near it in time only. Pure.

Spark's join of two streams looks up waiting events by what must be equal, and compares with each of them. If the key
has few values, these are most events of the other side, however short the interval is in which they may match. So the
bucket of their time must be equal too. The events of one side are in a bucket each, and those of the other in all
buckets where they may have matches: each pair is in one bucket, so it is found once.
"""

from __future__ import annotations

from attrs import frozen

_INTERVALS = 4
"""The length of a bucket in intervals: of so many events of the other side one is in two buckets."""


@frozen
class TimeBuckets:
    """
    The buckets of a join. Times are microseconds since 1970.

    :ivar before, after: how much earlier and later than an event of the one side the matches of the other may be.
    """

    before: int
    after: int

    @property
    def width(self) -> int:
        """The length of a bucket; the one around 1970 is twice as long, since Spark's ``div`` rounds towards zero."""
        return max(1, _INTERVALS * (self.before + self.after))

    def own(self, time: str) -> str:
        """SQL of the bucket of an event of the one side."""
        return f"{time} div {self.width}"

    def reached(self, time: str) -> str:
        """SQL of the buckets with the matches of an event of the other side, as an array."""
        return f"sequence({self.own(f'({time} - {self.after})')}, {self.own(f'({time} + {self.before})')})"
