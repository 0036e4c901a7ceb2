"""
Compares counts of published and consumed records, from monitoring events. Pure; any program that reads the audit topic
may use it.

The reference is what all producers together have published. Each other application is compared with it, with the counts
of its instances added up. Counts show how many records, not which: a lost record and a duplicate cancel out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from enum import Enum

from attrs import define, field, frozen

from logbus.client.audit.monitoring_event import CONSUMER, PRODUCER, MonitoringEvent
from logbus.wording import counted


class AuditVerdict(Enum):
    """The result for a topic in a window."""

    COMPLETE = "complete"
    """As many records as were published."""
    MISSING = "missing"
    """Fewer."""
    DUPLICATED = "duplicated"
    """More."""
    UNKNOWN = "unknown"
    """
    The counts differ, but some records were not counted, or no application reports to have published to the topic.
    """
    OPEN = "open"
    """The window is too recent."""


@frozen
class AuditComparison:
    """
    An application's count for a topic in a window, compared with the published records.

    :ivar window_start: milliseconds since 1970.
    :ivar window_ms: length of the window.
    :ivar published: acknowledged records of producers.
    :ivar failed: records that producers failed to publish, as far as they know.
    :ivar counted: records that the application counted.
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
        """The number of missing records; negative: of surplus ones."""
        return self.published - self.counted


def loss_sentences(comparisons: Sequence[AuditComparison]) -> list[str]:
    """Sentences about records that are missing, and about those of which it is unknown, with the topics."""
    found = []
    for verdict, what in ((AuditVerdict.MISSING, "missing"), (AuditVerdict.UNKNOWN, "perhaps missing or duplicated")):
        if these := [each for each in comparisons if each.verdict is verdict]:
            topics = ", ".join(sorted({each.topic for each in these}))
            count = sum(abs(each.missing) for each in these)
            found.append(f"{counted(count, 'record')} {'is' if count == 1 else 'are'} {what}, of {topics}")
    return found


_Tier = tuple[str, str]
_Place = tuple[str, int, int]


@define(eq=False)
class AuditTotals:
    """
    Sums of events; each event counts once, even if it was published or read several times.

    :ivar reference: the role whose counts are the reference.
    :ivar doubled: the number of duplicate events.
    """

    reference: str = PRODUCER
    doubled: int = 0
    _seen: set[str] = field(factory=set, init=False)
    _counts: Counter[tuple[_Tier, _Place]] = field(factory=Counter, init=False)
    _failed: Counter[_Place] = field(factory=Counter, init=False)
    _uncounted: Counter[_Tier] = field(factory=Counter, init=False)

    def add(self, event: MonitoringEvent) -> bool:
        """
        Add an event.

        :returns: False: it is a duplicate.
        """
        if event.id in self._seen:
            self.doubled += 1
            return False
        self._seen.add(event.id)
        is_reference = event.role == self.reference
        # The reference is the sum over all producers, of all applications.
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
        Compare each application's counts with the published records, by topic, window and application.

        An application is compared for the topics that it has reported in any window, and for the expected ones.

        :param settled_ms: windows that end after this time are open, whatever the counts; milliseconds since 1970.
        :param expected: pairs of application and topic, to detect applications that have reported nothing.
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
        """The longest window, which must be a multiple of all others."""
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
    Sum up events and compare them: see :meth:`AuditTotals.compare`.

    :param reference: the role whose counts are the reference.
    """
    totals = AuditTotals(reference)
    for each in events:
        totals.add(each)
    return totals.compare(settled_ms=settled_ms, expected=expected)
