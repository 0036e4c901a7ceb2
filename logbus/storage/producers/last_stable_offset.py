"""
The last stable offset of a log: where read_committed consumers must stop (KIP-98).

Tracks open transactions, and those whose marker is above the high watermark (Kafka: ProducerStateManager's ongoingTxns
and unreplicatedTxns). Every fetch asks for the offset while thousands of transactions may be open, so each question
looks only at the oldest ones.

A snapshot does not record which markers were above the high watermark: after a start all markers below it count as
committed, as in Kafka. A coordinator writes a marker only once its decision is durable, so the same marker would come
again.
"""

from __future__ import annotations

from collections import OrderedDict, deque


class OpenTransactions:
    """The undecided transactions of one log, and those decided by a marker above the high watermark."""

    __slots__ = ("_decided", "_open")

    def __init__(self) -> None:
        # Producer id to first offset, oldest first. An OrderedDict, since finding a dict's first item is slow after
        # removals.
        self._open: OrderedDict[int, int] = OrderedDict()
        # Pairs of the marker's offset and the transaction's first offset, both increasing: an entry that ends later and
        # began earlier replaces those before it.
        self._decided: deque[tuple[int, int]] = deque()

    def __len__(self) -> int:
        """The number of open transactions."""
        return len(self._open)

    @property
    def first_offset(self) -> int | None:
        """The first offset of the oldest open transaction."""
        return next(iter(self._open.values()), None)

    @property
    def oldest(self) -> int | None:
        """The producer id of the oldest open transaction."""
        return next(iter(self._open), None)

    def began(self, producer_id: int, first_offset: int) -> None:
        """Add a producer's transaction, which begins behind all others."""
        self._open[producer_id] = first_offset

    def ended(self, producer_id: int, marker_offset: int) -> None:
        """Take out a producer's transaction, decided by the marker at ``marker_offset``."""
        first = self._open.pop(producer_id)
        decided = self._decided
        while decided and decided[-1][1] >= first:
            decided.pop()
        decided.append((marker_offset, first))

    def committed(self, high_watermark: int) -> None:
        """Drop decided transactions whose markers are below the high watermark."""
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
