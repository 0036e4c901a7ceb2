"""Counts and sums of the records of one side, by windows of time. Pure."""

from __future__ import annotations

from attrs import define, field

from logbus.mirror.audit.record_digest import BITS

_SUM = 2**BITS
_PRIME = 2**61 - 1
_BASE = 0x1DA3_9C1B_77F0_2E65


@define
class WindowTotals:
    """
    The records of one window.

    :ivar total: the sum of their digests: the same for the same records in any order.
    :ivar ordered: a sum in which their order counts.
    :ivar first: the offset of the first one.
    :ivar last: the offset of the last one.
    """

    count: int = 0
    total: int = 0
    ordered: int = 0
    first: int = -1
    last: int = -1

    def add(self, digest: int, offset: int) -> None:
        """Count one more record, behind those that were counted."""
        if not self.count:
            self.first = offset
        self.count += 1
        self.total = (self.total + digest) % _SUM
        self.ordered = (self.ordered * _BASE + digest) % _PRIME
        self.last = offset

    def without(self, beginning: WindowTotals) -> WindowTotals:
        """What is left without the records with which this window begins."""
        count = self.count - beginning.count
        return WindowTotals(
            count,
            (self.total - beginning.total) % _SUM,
            (self.ordered - beginning.ordered * pow(_BASE, count, _PRIME)) % _PRIME,
            beginning.last + 1,
            self.last,
        )

    def is_like(self, other: WindowTotals) -> bool:
        """Whether both have the same records, in the same order."""
        return (self.count, self.total, self.ordered) == (other.count, other.total, other.ordered)

    def has_records_of(self, other: WindowTotals) -> bool:
        """Whether both have the same records, in whatever order."""
        return (self.count, self.total) == (other.count, other.total)


@define
class SideTotals:
    """
    The windows of one side of a partition.

    :ivar window_ms: their length.
    :ivar since_ms: records before that time are not counted; None: all are.
    :ivar until_ms: nor are those from that time on.
    :ivar windows: by their beginning, in milliseconds since 1970.
    :ivar whole: all of them together, for the order of records of different windows.
    """

    window_ms: int
    since_ms: int | None = None
    until_ms: int | None = None
    windows: dict[int, WindowTotals] = field(factory=dict, init=False)
    whole: WindowTotals = field(factory=WindowTotals, init=False)

    def window_of(self, timestamp: int) -> int | None:
        """The beginning of the window in which a record counts; None: it does not count."""
        if self.since_ms is not None and timestamp < self.since_ms:
            return None
        if self.until_ms is not None and timestamp >= self.until_ms:
            return None
        return timestamp - timestamp % self.window_ms

    def add(self, window: int, digest: int, offset: int) -> None:
        """Count a record."""
        totals = self.windows.get(window)
        if totals is None:
            totals = self.windows[window] = WindowTotals()
        totals.add(digest, offset)
        self.whole.add(digest, offset)

    @property
    def count(self) -> int:
        """The number of records that count."""
        return self.whole.count

    def without(self, beginning: SideTotals) -> SideTotals:
        """What is left without the records with which this side begins."""
        left = SideTotals(self.window_ms, self.since_ms, self.until_ms)
        left.whole = self.whole.without(beginning.whole)
        for start, totals in self.windows.items():
            known = beginning.windows.get(start)
            if known is None:
                left.windows[start] = totals
            elif known.count < totals.count:
                left.windows[start] = totals.without(known)
        return left


def differing_windows(source: SideTotals, copy: SideTotals) -> list[int]:
    """The windows that are not the same on both sides, in order."""
    nothing = WindowTotals()
    return sorted(
        start
        for start in {*source.windows, *copy.windows}
        if not source.windows.get(start, nothing).is_like(copy.windows.get(start, nothing))
    )
