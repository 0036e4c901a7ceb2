"""A set of a partition's offsets, kept as disjoint ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import frozen

Range = tuple[int, int]
"""The first offset, and the one after the last."""


def _joined(ranges: Iterable[Range]) -> Iterator[Range]:
    """Sort ranges, and merge those that touch or overlap."""
    open_range: Range | None = None
    for start, end in sorted(each for each in ranges if each[0] < each[1]):
        if open_range is not None and start <= open_range[1]:
            open_range = (open_range[0], max(end, open_range[1]))
        else:
            if open_range is not None:
                yield open_range
            open_range = (start, end)
    if open_range is not None:
        yield open_range


@frozen
class OffsetSet:
    """
    A set of offsets of one partition.

    :ivar ranges: sorted and disjoint; none is empty or touches another.
    """

    ranges: tuple[Range, ...] = ()

    @classmethod
    def of(cls, *ranges: Range) -> OffsetSet:
        """
        The offsets in any ranges.

        :raise ValueError: a range is negative.
        """
        for start, end in ranges:
            if not 0 <= start <= end:
                raise ValueError(f"{start}..{end} is no range of offsets")
        return cls(tuple(_joined(ranges)))

    def __or__(self, other: OffsetSet) -> OffsetSet:
        return OffsetSet(tuple(_joined((*self.ranges, *other.ranges))))

    def __and__(self, other: OffsetSet) -> OffsetSet:
        mine, theirs, both = list(self.ranges), list(other.ranges), []
        while mine and theirs:
            start, end = max(mine[0][0], theirs[0][0]), min(mine[0][1], theirs[0][1])
            if start < end:
                both.append((start, end))
            (mine if mine[0][1] <= theirs[0][1] else theirs).pop(0)
        return OffsetSet(tuple(both))

    def __sub__(self, other: OffsetSet) -> OffsetSet:
        left = []
        for start, end in self.ranges:
            for first, behind in other.ranges:
                if behind <= start or end <= first:
                    continue
                if start < first:
                    left.append((start, first))
                start = behind
            if start < end:
                left.append((start, end))
        return OffsetSet(tuple(left))

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __len__(self) -> int:
        return sum(end - start for start, end in self.ranges)

    @property
    def start(self) -> int:
        """The first offset; 0 if empty."""
        return self.ranges[0][0] if self.ranges else 0

    @property
    def end(self) -> int:
        """The offset after the last; 0 if empty."""
        return self.ranges[-1][1] if self.ranges else 0
