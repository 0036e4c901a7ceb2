"""
Translates offsets of a source's partition into those of its copy (Kafka: OffsetSyncStore). Pure.

A translated offset never skips a record that the group has not read. It is exact within the ranges that are kept;
between them it is that of a record a little before, which is read again.
"""

from __future__ import annotations

from bisect import bisect_right

from attrs import define, field

from logbus.mirror.copied_range import CopiedRange

MOST = 2048
"""The number of ranges that are kept; then of the older half, every other one is dropped."""


@define(eq=False)
class OffsetMap:
    """The ranges of one partition, in order."""

    _ranges: list[CopiedRange] = field(factory=list, init=False)
    _starts: list[int] = field(factory=list, init=False)

    def add(self, copied: CopiedRange) -> None:
        """
        Note a range that was copied. One that is not behind all others means that the source was read again: they do
        not count any more.
        """
        if self._ranges and copied.upstream <= self._ranges[-1].last_upstream:
            self.clear()
        if self._ranges and (whole := self._ranges[-1].joined(copied)) is not None:
            self._ranges[-1] = whole
            return
        self._ranges.append(copied)
        self._starts.append(copied.upstream)
        if len(self._ranges) > MOST:
            half = MOST // 2
            self._ranges = self._ranges[:half:2] + self._ranges[half:]
            self._starts = [each.upstream for each in self._ranges]

    def rewind(self, downstream: int) -> int | None:
        """
        Forget what lies from an offset of the target on, which has lost that.

        :returns: the source's offset from which on it has to be copied again; None: it is not known.
        """
        kept = [each for each in self._ranges if each.downstream < downstream]
        self._ranges, self._starts = kept, [each.upstream for each in kept]
        if not kept:
            return None
        last = kept[-1]
        return last.upstream + min(downstream - last.downstream, last.count)

    def clear(self) -> None:
        """Forget all ranges."""
        self._ranges.clear()
        self._starts.clear()

    @property
    def end(self) -> tuple[int, int] | None:
        """The offsets behind the last range, at the source and at the target; None: nothing was copied."""
        if not self._ranges:
            return None
        last = self._ranges[-1]
        return last.next_offset, last.last_downstream + 1

    def translate(self, upstream: int) -> int | None:
        """
        The offset at the target at which a group goes on that has read everything before ``upstream``; None: it is not
        known, since the group is behind all ranges.
        """
        at = bisect_right(self._starts, upstream) - 1
        if at < 0:
            return None
        found = self._ranges[at]
        return found.downstream + min(upstream - found.upstream, found.count)

    def may_be(self, upstream: int, downstream: int) -> bool:
        """
        Whether such a group, as far as is known, has read everything before an offset at the target: one behind the
        translated offset only where ranges are missing.
        """
        at = bisect_right(self._starts, upstream) - 1
        if at < 0:
            return False
        found = self._ranges[at]
        if upstream > found.last_upstream and at + 1 < len(self._ranges):
            return downstream <= self._ranges[at + 1].downstream
        return downstream <= found.downstream + min(upstream - found.upstream, found.count)
