"""Rates of copying over the last minute. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

from attrs import define, field

from logbus.model import TopicPartition

SLOT_SECONDS = 5.0
SLOTS = 12
"""Together the last minute, so that what is kept does not grow with the number of transactions."""


@define
class _Slot:
    """The amount copied within :data:`SLOT_SECONDS`."""

    began: float
    size: int = 0
    records: Counter[TopicPartition] = field(factory=Counter)


@define(eq=False)
class CopyRates:
    """
    Records and bytes per second, of the last minute or of the time since the first ones.

    Times are seconds of one clock, whichever it is.
    """

    _slots: deque[_Slot] = field(factory=lambda: deque(maxlen=SLOTS))
    _since: float | None = None

    def add(self, now: float, records: Mapping[TopicPartition, int], size: int) -> None:
        """Note what a transaction has copied: the number of records of each partition, and the bytes of all."""
        began = now - now % SLOT_SECONDS
        if self._since is None:
            self._since = began
        if not self._slots or self._slots[-1].began != began:
            self._slots.append(_Slot(began))
        self._slots[-1].size += size
        self._slots[-1].records.update(records)

    def records(self, now: float) -> Mapping[TopicPartition, float]:
        """Records per second, by partition; those without any are left out."""
        found: Counter[TopicPartition] = Counter()
        for each in self._recent(now):
            found.update(each.records)
        span = self._span(now)
        return {partition: count / span for partition, count in found.items()}

    def bytes(self, now: float) -> float:
        """Bytes per second."""
        return sum(each.size for each in self._recent(now)) / self._span(now)

    def _recent(self, now: float) -> list[_Slot]:
        return [each for each in self._slots if now - each.began < SLOTS * SLOT_SECONDS]

    def _span(self, now: float) -> float:
        """Seconds that the kept slots are about: less than a minute at the beginning."""
        since = now if self._since is None else self._since
        return min(max(now - since, SLOT_SECONDS), SLOTS * SLOT_SECONDS)
