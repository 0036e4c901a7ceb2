"""
Reconcile what producers say they published with what each consumer says it read and with what the lake holds.

Producers and consumers count records by topic and window of the records' time, and publish monitoring events
(:mod:`logbus.client.audit_events`); the tables of the lake are counted here, by the same windows. Counts show how many,
and not which; of a table it is known besides how many of its rows are of an offset that it has already.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, evolve, field, frozen

from logbus.client.audit_check import Comparison, Ledger, Verdict
from logbus.client.audit_events import AUDIT_TOPIC, DEFAULT_WINDOW_MS, PRODUCER, MonitoringEvent
from logbus.errors import ApiError
from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.audit_sums import added_up
from logbus.pipeline.jobs.audit_tables import TableCount, count_table, open_table
from logbus.pipeline.jobs.registry import Registry
from logbus.pipeline.jobs.stopping import stoppable
from logbus.pipeline.jobs.times import time_text
from logbus.pipeline.jobs.watching import Watch
from logbus.pipeline.source.lookup import Lookup
from logbus.pipeline.source.options import read as read_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAKE = "lake"
"""The role of tables."""

# An event may be published a little before its window begins, if clocks differ.
_CLOCKS_MS = 3_600_000


def _now_ms() -> int:
    return int(time.time() * 1000)


@frozen(kw_only=True)
class AuditOptions:
    """
    What to reconcile.

    :ivar source: options of ``format("logbus")``: where the monitoring events are; without a topic, ``logbus-audit``.
    :ivar tables: tables that :mod:`~logbus.pipeline.jobs.load` loads into, by the names that the report has for them.
    :ivar topics: those to reconcile; none: all that events and tables are of.
    :ivar since_ms, until_ms: windows that begin in between, in milliseconds since 1970.
    :ivar grace: seconds after the end of a window for which it is not judged. It should be longer than a record takes
        into the tables.
    :ivar measure: the role whose counts the others must reach.
    :ivar expected: application and topic: who must have consumed what, also if it reports nothing.
    :ivar registry: where schemas of events in framed Avro are looked up; None: these count as unreadable.
    :raise OptionError: an option is wrong.
    """

    source: Mapping[str, str]
    tables: Mapping[str, str] = field(factory=dict)
    topics: Sequence[str] = ()
    since_ms: int = 0
    until_ms: int | None = None
    grace: float = 120.0
    measure: str = PRODUCER
    expected: Sequence[tuple[str, str]] = ()
    registry: Registry | None = None

    def __attrs_post_init__(self) -> None:
        given = {name.lower() for name in self.source}
        defaults = {"kafka.isolation.level": "read_committed"}
        if not given & {"subscribe", "subscribepattern", "assign"}:
            defaults["subscribe"] = AUDIT_TOPIC
        if self.since_ms > _CLOCKS_MS and not any(name.startswith("starting") for name in given):
            # What was published before cannot tell of later windows.
            defaults["startingTimestamp"] = str(self.since_ms - _CLOCKS_MS)
            defaults["startingOffsetsByTimestampStrategy"] = "latest"
        missing = {name: value for name, value in defaults.items() if name.lower() not in given}
        object.__setattr__(self, "source", {**missing, **self.source})
        read_options(self.source, streaming=False)
        if not 0 <= self.grace < 1e11:
            raise OptionError(f"grace is {self.grace}; it takes seconds, from 0")
        if self.until_ms is not None and self.until_ms <= self.since_ms:
            raise OptionError(
                f"the audit would end at {time_text(self.until_ms)}, before it begins at {time_text(self.since_ms)}"
            )
        for name, url in self.tables.items():
            if not name or not url:
                raise OptionError(f"{name!r}={url!r} is no table: it takes a name, and a directory or URL")


@define
class AuditReport:
    """
    What was found.

    :ivar comparisons: by topic, window and who counted.
    :ivar doubled: rows of tables whose offset another row of the table has, by table and topic.
    :ivar unknown: sentences: why of something nothing can be told.
    :ivar notes: what tables do not hold, and know that they do not, by table.
    :ivar events: monitoring events that were read;  ``repeated``: how many came once more, which is nothing odd.
    :ivar unreadable: records that are none;  ``problem``: of the first.
    """

    comparisons: list[Comparison] = field(factory=list)
    doubled: dict[str, dict[str, int]] = field(factory=dict)
    unknown: list[str] = field(factory=list)
    notes: dict[str, list[str]] = field(factory=dict)
    events: int = 0
    repeated: int = 0
    unreadable: int = 0
    problem: str = ""

    @property
    def has_loss(self) -> bool:
        """Whether records are missing, or may be: what is unknown is no good news."""
        bad = (Verdict.MISSING, Verdict.UNKNOWN)
        return bool(self.unknown) or any(each.verdict in bad for each in self.comparisons)

    @property
    def has_duplicates(self) -> bool:
        """Whether somebody counted records more than once, or a table holds some so."""
        return any(each.verdict is Verdict.DUPLICATED for each in self.comparisons) or any(
            count for topics in self.doubled.values() for count in topics.values()
        )

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "loss": self.has_loss,
            "duplicates": self.has_duplicates,
            **asdict(self, recurse=False),
            "comparisons": [
                {**asdict(each), "verdict": each.verdict.value, "missing": each.missing} for each in self.comparisons
            ],
        }


def run(
    spark: SparkSession, options: AuditOptions, watch: Watch | None = None, now_ms: Callable[[], int] = _now_ms
) -> AuditReport:
    """
    Read the events, count the tables, compare.

    :raise PipelineError: there is no such topic with monitoring events.
    :raise OptionError: there is no such table, or windows of different lengths do not fit into each other.
    :raise LakeError: a table is damaged.
    :raise Stopped: it was asked to stop.
    """
    watch = watch or Watch()
    with stoppable(spark, watch):
        return _Audit(options, watch).run(spark, now_ms)


@define
class _Audit:
    options: AuditOptions
    watch: Watch
    report: AuditReport = field(factory=AuditReport, init=False)
    ledger: Ledger = field(init=False)
    lengths: dict[str, int] = field(factory=dict, init=False)
    some_window: dict[str, int] = field(factory=dict, init=False)
    tables: dict[str, TableCount] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.ledger = Ledger(self.options.measure)

    def run(self, spark: SparkSession, now_ms: Callable[[], int]) -> AuditReport:
        tables = {name: open_table(spark, url) for name, url in self.options.tables.items()}
        self.read_events(spark)
        settled_ms = now_ms() - int(self.options.grace * 1000)
        self.compare(settled_ms)  # Windows that do not fit are known before tables are read.
        for name, table in tables.items():
            longest = max(self.lengths.values(), default=DEFAULT_WINDOW_MS)
            self.tables[name] = count_table(spark, table, self.lengths, longest)
            self.add_table(name, self.options.tables[name], self.tables[name], longest)
        self.report.comparisons = self.with_doubled(self.compare(settled_ms))
        return self.report

    def read_events(self, spark: SparkSession) -> None:
        try:
            Lookup(read_options(self.options.source, streaming=False)).topics()
        except ApiError as e:
            raise PipelineError(f"the monitoring events cannot be read: {e}") from e
        report, found = self.report, added_up(spark, self.options.source, self.options.registry, self.options.topics)
        for event in found.sums:
            self.ledger.add(event)
            for topic in {*event.counts, *event.failed}:
                self.lengths[topic] = max(self.lengths.get(topic, 1), event.window_ms)
                self.some_window.setdefault(topic, event.window_start)
        report.events, report.repeated = found.events, found.repeated
        report.unreadable, report.problem = found.unreadable, found.problem
        if not report.events:
            report.unknown.append("there are no monitoring events")
        else:
            # A name that is mistyped would have nothing to be missed.
            named = {*self.options.topics, *(topic for _, topic in self.options.expected if self.is_wanted(topic))}
            told = self.lengths.keys()
            report.unknown += [f"no monitoring event tells of topic {topic!r}" for topic in sorted(named - told)]
        self.watch.tell(f"{report.events} monitoring events")

    def add_table(self, name: str, url: str, table: TableCount, longest: int) -> None:
        """Have a table's counts beside those of the events."""
        report = self.report
        doubled: Counter[str] = Counter()
        for (topic, _), more in table.doubled.items():
            doubled[topic] += more
        report.doubled[name] = {topic: more for topic, more in sorted(doubled.items()) if self.is_wanted(topic)}
        report.notes[name] = list(table.notes)
        topics = {*table.topics, *(topic for who, topic in self.options.expected if who == name)}
        if not topics:
            report.unknown.append(f"table {name} holds no topic yet")
        windows: dict[str, dict[int, int]] = {topic: {} for topic in topics if self.is_wanted(topic)}
        for topic in windows.keys() & self.some_window.keys():
            # Where it has nothing at all, it is held against what was published nevertheless.
            windows[topic] = {self.some_window[topic]: 0}
        for (topic, start), count in table.windows.items():
            if topic in windows:
                windows[topic][start] = count
        for topic, found in windows.items():
            length = self.lengths.get(topic, longest)
            for start, count in found.items():
                self.ledger.add(
                    MonitoringEvent(f"{LAKE} {name} {topic} {start}", name, url, LAKE, start, length, {topic: count})
                )
        self.watch.tell(f"{name}: {sum(table.windows.values())} records")

    def is_wanted(self, topic: str) -> bool:
        return not self.options.topics or topic in self.options.topics

    def compare(self, settled_ms: int) -> list[Comparison]:
        options = self.options
        expected = [each for each in options.expected if each[0] not in options.tables and self.is_wanted(each[1])]
        try:
            found = self.ledger.compare(settled_ms=settled_ms, expected=expected)
        except ValueError as e:
            raise OptionError(str(e)) from e
        until = options.until_ms
        return [
            each
            for each in found
            if each.window_start >= options.since_ms and (until is None or each.window_start < until)
        ]

    def with_doubled(self, found: list[Comparison]) -> list[Comparison]:
        """A table that has all of a window, and some of it twice, is not complete."""
        doubled: Counter[tuple[str, str, int]] = Counter()
        fit = found[0].window_ms if found else 1
        for name, table in self.tables.items():
            for (topic, start), more in table.doubled.items():
                doubled[name, topic, start - start % fit] += more
        return [
            evolve(each, counted=each.counted + more, verdict=Verdict.DUPLICATED)
            if each.role == LAKE
            and each.verdict is Verdict.COMPLETE
            and (more := doubled[each.application, each.topic, each.window_start])
            else each
            for each in found
        ]
