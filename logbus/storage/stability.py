"""
What keeps readers of committed records back: the transactions of a log that are open, and those whose end is not
committed yet (KIP-98).

The *last stable offset* is where they stop. It is asked for with every fetch, while ten thousand transactions may be
open: so each question looks at the oldest ones only.

A snapshot does not say which markers were not committed yet: after a start those below it count as committed, as in
Kafka. A coordinator writes a marker only once its decision is durable, so the same marker would come again.
"""

from __future__ import annotations

from collections import OrderedDict, deque


class OpenTransactions:
    """The undecided transactions of one log, and what is decided by markers that are not committed yet."""

    __slots__ = ("_decided", "_open")

    def __init__(self) -> None:
        # Producer id to first offset, oldest first. Of a dict the first item would be slow to find after removals.
        self._open: OrderedDict[int, int] = OrderedDict()
        # Marker's offset and transaction's first offset. One that ends later and began earlier stands for those before
        # it, so that both increase.
        self._decided: deque[tuple[int, int]] = deque()

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    @property
    def first_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open."""
        return next(iter(self._open.values()), None)

    @property
    def oldest(self) -> int | None:
        """The producer id of the oldest transaction that is open."""
        return next(iter(self._open), None)

    def began(self, producer_id: int, first_offset: int) -> None:
        """A producer's transaction begins, behind all others."""
        self._open[producer_id] = first_offset

    def ended(self, producer_id: int, marker_offset: int) -> None:
        """A producer's transaction is decided by the marker at an offset."""
        first = self._open.pop(producer_id)
        decided = self._decided
        while decided and decided[-1][1] >= first:
            decided.pop()
        decided.append((marker_offset, first))

    def committed(self, high_watermark: int) -> None:
        """Markers below the high watermark count from now on."""
        decided = self._decided
        while decided and decided[0][0] < high_watermark:
            decided.popleft()

    def last_stable_offset(self, high_watermark: int) -> int:
        """
        The first offset that readers of committed records do not see: that of the oldest transaction that is open, or
        whose marker is not below the high watermark; the high watermark without any.
        """
        stable = high_watermark
        if self._decided:
            self.committed(high_watermark)
            if self._decided and self._decided[0][1] < stable:
                stable = self._decided[0][1]
        if self._open:
            first = next(iter(self._open.values()))
            if first < stable:
                stable = first
        return stable
