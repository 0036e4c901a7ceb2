"""
Whether what was published was consumed: monitoring events, added up and compared. Pure; any program that can read the
audit topic may use it.

What producers counted is the measure: all their applications together. Every other application is held against it by
itself, its instances added up. Counts show how many, and not which: a record lost and another read twice cancel out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from enum import Enum

from attrs import define, field, frozen

from logbus.client.audit.monitoring_event import CONSUMER, PRODUCER, MonitoringEvent


class AuditVerdict(Enum):
    """What counts say of a topic in a window."""

    COMPLETE = "complete"
    """As many as were published."""
    MISSING = "missing"
    """Fewer."""
    DUPLICATED = "duplicated"
    """More."""
    UNKNOWN = "unknown"
    """They differ, but somebody left records uncounted, or nobody reports to have published to the topic at all."""
    OPEN = "open"
    """The window is too young to tell."""


@frozen
class AuditComparison:
    """
    One application's count of a topic in a window, beside what was published.

    :ivar window_start: milliseconds since 1970.
    :ivar window_ms: length of the window.
    :ivar published: records that producers know to be written.
    :ivar failed: records that producers could not write, as far as they know.
    :ivar counted: records that the application saw.
    """

    topic: str
    window_start: int
    window_ms: int
    application: str
    role: str
    published: int
    failed: int
    counted: int
    verdict: AuditVerdict

    @property
    def missing(self) -> int:
        """How many are missing; negative: how many there are too many."""
        return self.published - self.counted


_Tier = tuple[str, str]
_Place = tuple[str, int, int]


@define(eq=False)
class AuditTotals:
    """
    Adds events up; each counts once, however often it was published and read.

    :ivar reference: the role that is the measure.
    :ivar doubled: how many events came that had come before.
    """

    reference: str = PRODUCER
    doubled: int = 0
    _seen: set[str] = field(factory=set, init=False)
    _counts: Counter[tuple[_Tier, _Place]] = field(factory=Counter, init=False)
    _failed: Counter[_Place] = field(factory=Counter, init=False)
    _uncounted: Counter[_Tier] = field(factory=Counter, init=False)

    def add(self, event: MonitoringEvent) -> bool:
        """
        Count an event.

        :returns: False: it was counted before.
        """
        if event.id in self._seen:
            self.doubled += 1
            return False
        self._seen.add(event.id)
        is_reference = event.role == self.reference
        # All producers together are the measure, whatever application they are part of.
        tier = ("", self.reference) if is_reference else (event.application, event.role)
        if event.uncounted:
            self._uncounted[tier] += event.uncounted
        for topic, count in event.counts.items():
            self._counts[tier, (topic, event.window_start, event.window_ms)] += count
        if is_reference:
            for topic, count in event.failed.items():
                self._failed[topic, event.window_start, event.window_ms] += count
        return True

    def compare(
        self, *, settled_ms: int | None = None, expected: Collection[tuple[str, str]] = ()
    ) -> list[AuditComparison]:
        """
        Hold every application's counts against what was published, by topic, window and application.

        An application is held to the topics that it has reported on in any window, and to those that are expected.

        :param settled_ms: windows that end after it are open, whatever the counts say; milliseconds since 1970.
        :param expected: application and topic: so that one that saw nothing is missed.
        :raise ValueError: windows of different lengths do not fit into each other.
        """
        fit = self._common_window()
        counts: Counter[tuple[_Tier, str, int]] = Counter()
        failed: Counter[tuple[str, int]] = Counter()
        for (tier, (topic, start, _)), count in self._counts.items():
            counts[tier, topic, start - start % fit] += count
        for (topic, start, _), count in self._failed.items():
            failed[topic, start - start % fit] += count
        measure = ("", self.reference)
        windows: dict[str, set[int]] = {}
        held: dict[str, set[_Tier]] = {}
        published_at_all = {topic for tier, topic, _ in counts if tier == measure}
        for tier, topic, start in counts:
            windows.setdefault(topic, set()).add(start)
            if tier != measure:
                held.setdefault(topic, set()).add(tier)
        for application, topic in expected:
            if not any(tier[0] == application for tier in held.get(topic, ())):
                held.setdefault(topic, set()).add((application, CONSUMER))
        found = []
        for topic in sorted(held):
            for start in sorted(windows.get(topic, ())):
                published = counts[measure, topic, start]
                for tier in sorted(held[topic]):
                    counted = counts[tier, topic, start]
                    if settled_ms is not None and start + fit > settled_ms:
                        verdict = AuditVerdict.OPEN
                    elif counted == published:
                        verdict = AuditVerdict.COMPLETE
                    elif topic not in published_at_all or self._uncounted[tier] or self._uncounted[measure]:
                        verdict = AuditVerdict.UNKNOWN
                    else:
                        verdict = AuditVerdict.MISSING if counted < published else AuditVerdict.DUPLICATED
                    found.append(
                        AuditComparison(topic, start, fit, *tier, published, failed[topic, start], counted, verdict)
                    )
        return found

    def _common_window(self) -> int:
        """The longest window, into which all others must fit."""
        lengths = sorted({place[2] for _, place in self._counts} | {place[2] for place in self._failed})
        longest = lengths[-1] if lengths else 1
        for each in lengths:
            if longest % each:
                raise ValueError(f"windows of {each} ms do not fit into those of {longest} ms: audit with equal ones")
        return longest


def compare(
    events: Iterable[MonitoringEvent],
    *,
    reference: str = PRODUCER,
    settled_ms: int | None = None,
    expected: Collection[tuple[str, str]] = (),
) -> list[AuditComparison]:
    """
    Add events up and compare: see :meth:`AuditTotals.compare`.

    :param reference: the role that is the measure.
    """
    ledger = AuditTotals(reference)
    for each in events:
        ledger.add(each)
    return ledger.compare(settled_ms=settled_ms, expected=expected)
