"""
The audit job: compares the counts of producers, of consumers and of tables in the lake.

Producers and consumers count records by topic and time window, and publish the counts as monitoring events
(:mod:`logbus.client.audit.monitoring_event`). This job counts the tables' rows by the same windows. Counts show how
many records are missing, not which ones. For tables the job also counts rows with an offset that another row has.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, evolve, field, frozen

from logbus.client.audit.audit_comparison import AuditComparison, AuditTotals, AuditVerdict
from logbus.client.audit.monitoring_event import AUDIT_TOPIC, DEFAULT_WINDOW_MS, PRODUCER, MonitoringEvent
from logbus.errors import ApiError
from logbus.pipeline.blocking.schema_registry import RegistryClient
from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.audit_event_sums import sum_events
from logbus.pipeline.jobs.audit_limits import AuditLimits
from logbus.pipeline.jobs.audit_tables import TableCount, TablePlace, count_table
from logbus.pipeline.jobs.broker_check import check_topics
from logbus.pipeline.jobs.cancellation import stoppable
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.slow_workers import retried
from logbus.pipeline.jobs.time_text import time_text
from logbus.pipeline.lake.formats import ICEBERG
from logbus.pipeline.source.options import read_source_options as read_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAKE = "lake"
"""The role of tables in the report."""

# With clocks that differ, an event may be published before its window begins.
_CLOCKS_MS = 3_600_000


def _now_ms() -> int:
    return int(time.time() * 1000)


@frozen(kw_only=True)
class AuditOptions:
    """
    The options of an audit.

    :ivar source: options of ``format("logbus")`` for the monitoring events; the default topic is ``logbus-audit``.
    :ivar tables: tables that :mod:`~logbus.pipeline.jobs.load` loads into, by their names in the report.
    :ivar iceberg_tables: tables of Iceberg, such as ``lake.views``, by their names in the report.
    :ivar catalog: in which these are; "": the default one.
    :ivar store_options: of the object stores that ``tables`` are on; others come from the environment.
    :ivar topics: those to compare; empty: all topics of the events and tables.
    :ivar since_ms, until_ms: compare the windows that begin in between, in milliseconds since 1970.
    :ivar grace: seconds after the end of a window before it is judged. It should be longer than a record takes to get
        into the tables.
    :ivar measure: the role whose counts the others must reach.
    :ivar expected: applications and topics that they must consume, also if they report nothing.
    :ivar registry: the schema registry of events in framed Avro; None: these count as unreadable.
    :ivar limits: the shares of unreadable events and of duplicates that are accepted.
    :raise OptionError: an option is wrong.
    """

    source: Mapping[str, str]
    tables: Mapping[str, str] = field(factory=dict)
    iceberg_tables: Mapping[str, str] = field(factory=dict)
    catalog: str = ""
    store_options: Mapping[str, str] = field(factory=dict, repr=False)
    topics: Sequence[str] = ()
    since_ms: int = 0
    until_ms: int | None = None
    grace: float = 120.0
    measure: str = PRODUCER
    expected: Sequence[tuple[str, str]] = ()
    registry: RegistryClient | None = None
    limits: AuditLimits = field(factory=AuditLimits)

    def __attrs_post_init__(self) -> None:
        given = {name.lower() for name in self.source}
        defaults = {"kafka.isolation.level": "read_committed"}
        if not given & {"subscribe", "subscribepattern", "assign"}:
            defaults["subscribe"] = AUDIT_TOPIC
        if self.since_ms > _CLOCKS_MS and not any(name.startswith("starting") for name in given):
            # Earlier events are about earlier windows.
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
        if twice := sorted(self.tables.keys() & self.iceberg_tables.keys()):
            raise OptionError(f"{twice[0]!r} is there twice; each table takes a name of its own")
        for place in self.places():
            place.check()

    def places(self) -> Sequence[TablePlace]:
        """The tables."""
        return [
            *(TablePlace(name, url, store_options=self.store_options) for name, url in self.tables.items()),
            *(TablePlace(name, table, ICEBERG, self.catalog) for name, table in self.iceberg_tables.items()),
        ]

    def check(self, tell: Callable[[str], None]) -> int | None:
        """
        Check that the topic of the monitoring events exists, and the tables; see :func:`.check_topics`.

        :raise PipelineError: it does not.
        """
        for place in self.places():
            place.check_exists()
        offsets = self.to_read(tell)
        return None if self.places() else offsets

    def to_read(self, tell: Callable[[str], None]) -> int | None:
        """The number of offsets of monitoring events. See :meth:`check`."""
        try:
            return check_topics(read_options(self.source, streaming=False), tell)
        except ApiError as e:
            raise PipelineError(f"the monitoring events cannot be read: {e}") from e


@define
class AuditReport:
    """
    The result of an audit.

    :ivar comparisons: by topic, window, application and role.
    :ivar doubled: rows of tables whose offset another row of the table has, by table and topic.
    :ivar counted: records that applications and tables counted;  ``surplus``: those of them beyond what was published,
        and rows in ``doubled``.
    :ivar exceeded: sentences about the limits that are exceeded, with what to do.
    :ivar unknown: sentences about what cannot be judged, with the reason.
    :ivar notes: offsets that tables are known to lack, by table.
    :ivar events: monitoring events read;  ``repeated``: how many of them are repetitions, which are normal.
    :ivar unreadable: records that are no monitoring events;  ``problem``: the error of the first.
    """

    comparisons: list[AuditComparison] = field(factory=list)
    doubled: dict[str, dict[str, int]] = field(factory=dict)
    unknown: list[str] = field(factory=list)
    notes: dict[str, list[str]] = field(factory=dict)
    events: int = 0
    repeated: int = 0
    unreadable: int = 0
    problem: str = ""
    counted: int = 0
    surplus: int = 0
    exceeded: list[str] = field(factory=list)

    @property
    def has_failed(self) -> bool:
        """Whether something is lost, or there are more unreadable events or duplicates than accepted."""
        return self.has_loss or bool(self.exceeded)

    @property
    def has_loss(self) -> bool:
        """Whether records are missing, or that cannot be judged."""
        bad = (AuditVerdict.MISSING, AuditVerdict.UNKNOWN)
        return bool(self.unknown) or any(each.verdict in bad for each in self.comparisons)

    @property
    def has_duplicates(self) -> bool:
        """Whether an application counted records more than once, or a table has duplicates."""
        return any(each.verdict is AuditVerdict.DUPLICATED for each in self.comparisons) or any(
            count for topics in self.doubled.values() for count in topics.values()
        )

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "loss": self.has_loss,
            "duplicates": self.has_duplicates,
            "failed": self.has_failed,
            **asdict(self, recurse=False),
            "comparisons": [
                {**asdict(each), "verdict": each.verdict.value, "missing": each.missing} for each in self.comparisons
            ],
        }


def run(
    spark: SparkSession, options: AuditOptions, watch: JobControl | None = None, now_ms: Callable[[], int] = _now_ms
) -> AuditReport:
    """
    Read the monitoring events, count the tables, and compare.

    :raise PipelineError: the topic of the monitoring events does not exist.
    :raise OptionError: there is no such table, or windows of different lengths do not fit into each other.
    :raise LakeError: a table is damaged.
    :raise JobStopped: it was asked to stop.
    """
    watch = watch or JobControl()
    with stoppable(spark, watch):
        return _Audit(options, watch).run(spark, now_ms)


@define
class _Audit:
    options: AuditOptions
    watch: JobControl
    report: AuditReport = field(factory=AuditReport, init=False)
    ledger: AuditTotals = field(init=False)
    lengths: dict[str, int] = field(factory=dict, init=False)
    some_window: dict[str, int] = field(factory=dict, init=False)
    tables: dict[str, TableCount] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.ledger = AuditTotals(self.options.measure)

    def run(self, spark: SparkSession, now_ms: Callable[[], int]) -> AuditReport:
        places = self.options.places()
        tables = [place.open(spark) for place in places]
        self.read_events(spark)
        settled_ms = now_ms() - int(self.options.grace * 1000)
        self.compare(settled_ms)  # Fails if windows do not fit into each other, before tables are read.
        for place, table in zip(places, tables, strict=True):
            longest = max(self.lengths.values(), default=DEFAULT_WINDOW_MS)
            self.tables[place.name] = count_table(spark, table, self.lengths, longest)
            self.add_table(place.name, place.url, self.tables[place.name], longest)
        self.judge(self.compare(settled_ms))
        return self.report

    def judge(self, found: list[AuditComparison]) -> None:
        """Add the comparisons to the report, and compare it with the limits."""
        report = self.report
        doubled = sum(count for topics in report.doubled.values() for count in topics.values())
        report.counted = sum(each.counted for each in found) + doubled
        report.surplus = doubled - sum(each.missing for each in found if each.verdict is AuditVerdict.DUPLICATED)
        report.comparisons = self.with_doubled(found)
        report.exceeded = self.options.limits.exceeded(
            events=report.events,
            unreadable=report.unreadable,
            counted=report.counted,
            surplus=report.surplus,
        )

    def read_events(self, spark: SparkSession) -> None:
        self.watch.tell(f"{self.options.to_read(self.watch.tell)} offsets of monitoring events to read")
        options, report = self.options, self.report
        found = retried(lambda: sum_events(spark, options.source, options.registry, options.topics), self.watch)
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
            # Without this, nothing would be missing of a mistyped topic.
            named = {*self.options.topics, *(topic for _, topic in self.options.expected if self.is_wanted(topic))}
            reported = self.lengths.keys()
            report.unknown += [f"no monitoring event is about topic {topic!r}" for topic in sorted(named - reported)]
        self.watch.tell(f"{report.events} monitoring events")

    def add_table(self, name: str, url: str, table: TableCount, longest: int) -> None:
        """Add a table's counts to those of the events."""
        report = self.report
        doubled: Counter[str] = Counter()
        for (topic, start), more in table.doubled.items():
            doubled[topic] += more if self.is_in_time(start) else 0
        report.doubled[name] = {topic: more for topic, more in sorted(doubled.items()) if self.is_wanted(topic)}
        report.notes[name] = list(table.notes)
        topics = {*table.topics, *(topic for who, topic in self.options.expected if who == name)}
        if not topics:
            report.unknown.append(f"table {name} holds no topic yet")
        windows: dict[str, dict[int, int]] = {topic: {} for topic in topics if self.is_wanted(topic)}
        for topic in windows.keys() & self.some_window.keys():
            # A table without any record of the topic is compared with what was published, too.
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

    def compare(self, settled_ms: int) -> list[AuditComparison]:
        options = self.options
        expected = [each for each in options.expected if each[0] not in options.tables and self.is_wanted(each[1])]
        try:
            found = self.ledger.compare(settled_ms=settled_ms, expected=expected)
        except ValueError as e:
            raise OptionError(str(e)) from e
        return [each for each in found if self.is_in_time(each.window_start)]

    def is_in_time(self, start: int) -> bool:
        until = self.options.until_ms
        return start >= self.options.since_ms and (until is None or start < until)

    def with_doubled(self, found: list[AuditComparison]) -> list[AuditComparison]:
        """Change the verdict on complete windows of a table that have duplicates."""
        doubled: Counter[tuple[str, str, int]] = Counter()
        fit = found[0].window_ms if found else 1
        for name, table in self.tables.items():
            for (topic, start), more in table.doubled.items():
                doubled[name, topic, start - start % fit] += more
        return [
            evolve(each, counted=each.counted + more, verdict=AuditVerdict.DUPLICATED)
            if each.role == LAKE
            and each.verdict is AuditVerdict.COMPLETE
            and (more := doubled[each.application, each.topic, each.window_start])
            else each
            for each in found
        ]
