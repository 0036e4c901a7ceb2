"""
Reconcile what producers say they published with what each consumer says it read and with what the lake holds.

Producers and consumers count records by topic and window of the records' time, and publish monitoring events
(:mod:`logbus.client.audit_events`); the tables of the lake are counted here, by the same windows. Counts show how many,
and not which; of a table it is known besides how many of its rows are of an offset that it has already.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from logbus.client.audit_check import Comparison, Ledger, Verdict
from logbus.client.audit_events import AUDIT_TOPIC, AVRO_SCHEMA, PRODUCER, MonitoringEvent, decode_event, event_of
from logbus.client.serializers import SerializationError
from logbus.pipeline.errors import OptionError
from logbus.pipeline.jobs.watching import Watch
from logbus.pipeline.lake.table import Table
from logbus.pipeline.source.options import read as read_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAKE = "lake"
"""The role of tables."""


def _now_ms() -> int:
    return int(time.time() * 1000)


@frozen(kw_only=True)
class AuditOptions:
    """
    What to reconcile.

    :ivar source: options of ``format("logbus")``: where the monitoring events are; without a topic, ``logbus-audit``.
    :ivar tables: tables that :mod:`~logbus.pipeline.jobs.load` loads into, by the names that the report has for them.
    :ivar since_ms, until_ms: windows that begin in between, in milliseconds since 1970.
    :ivar grace: seconds after the end of a window for which it is not judged.
    :ivar measure: the role whose counts the others must reach.
    :ivar expected: application and topic: who must have consumed what, also if it reports nothing.
    :raise OptionError: an option is wrong.
    """

    source: Mapping[str, str]
    tables: Mapping[str, str] = field(factory=dict)
    since_ms: int = 0
    until_ms: int | None = None
    grace: float = 120.0
    measure: str = PRODUCER
    expected: Sequence[tuple[str, str]] = ()

    def __attrs_post_init__(self) -> None:
        given = {name.lower() for name in self.source}
        defaults = {"kafka.isolation.level": "read_committed"}
        if not given & {"subscribe", "subscribepattern", "assign"}:
            defaults["subscribe"] = AUDIT_TOPIC
        missing = {name: value for name, value in defaults.items() if name.lower() not in given}
        object.__setattr__(self, "source", {**missing, **self.source})
        read_options(self.source, streaming=False)
        if self.grace < 0:
            raise OptionError(f"grace is {self.grace}; it takes seconds, from 0")
        if self.until_ms is not None and self.until_ms <= self.since_ms:
            raise OptionError(
                f"the audit would end at {self.until_ms} ms since 1970, before it begins at {self.since_ms}"
            )


@define
class AuditReport:
    """
    What was found.

    :ivar comparisons: by topic, window and who counted.
    :ivar doubled: rows of tables whose offset another row of the table has, by table and topic.
    :ivar events: monitoring events that were read;  ``unreadable``: records that are none;  ``problem``: of the first.
    """

    comparisons: list[Comparison] = field(factory=list)
    doubled: dict[str, dict[str, int]] = field(factory=dict)
    events: int = 0
    unreadable: int = 0
    problem: str = ""

    @property
    def has_loss(self) -> bool:
        """Whether records are missing, or may be: what is unknown is no good news."""
        return any(each.verdict in (Verdict.MISSING, Verdict.UNKNOWN) for each in self.comparisons)

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
            "events": self.events,
            "unreadable": self.unreadable,
            "problem": self.problem,
            "doubled": self.doubled,
            "comparisons": [
                {
                    "topic": each.topic,
                    "window_start": each.window_start,
                    "window_ms": each.window_ms,
                    "application": each.application,
                    "role": each.role,
                    "published": each.published,
                    "failed": each.failed,
                    "counted": each.counted,
                    "missing": each.missing,
                    "verdict": each.verdict.value,
                }
                for each in self.comparisons
            ],
        }


def run(
    spark: SparkSession, options: AuditOptions, watch: Watch | None = None, now_ms: Callable[[], int] = _now_ms
) -> AuditReport:
    """
    Read the events, count the tables, compare.

    :raise OptionError: windows of different lengths do not fit into each other.
    :raise LakeError: a table is damaged.
    """
    watch = watch or Watch()
    report = AuditReport()
    ledger = Ledger(options.measure)
    lengths: dict[str, int] = {}
    for event in _events(spark, options, report):
        if ledger.add(event):
            report.events += 1
            for topic in event.counts:
                lengths[topic] = max(lengths.get(topic, 1), event.window_ms)
    watch.tell(f"{report.events} monitoring events")
    for name, url in options.tables.items():
        counted = count_table(spark, url, lengths)
        report.doubled[name] = counted.doubled
        for (topic, start), rows in counted.windows.items():
            event = MonitoringEvent(
                id=f"{LAKE} {name} {topic} {start}",
                application=name,
                host=url,
                role=LAKE,
                window_start=start,
                window_ms=lengths[topic],
                counts={topic: rows},
            )
            ledger.add(event)
        watch.tell(f"{name}: {sum(counted.windows.values())} rows")
    loaded = [(name, topic) for name, url in options.tables.items() for topic in _topics_of(spark, url)]
    try:
        found = ledger.compare(settled_ms=now_ms() - int(options.grace * 1000), expected=[*options.expected, *loaded])
    except ValueError as e:
        raise OptionError(str(e)) from e
    until = options.until_ms
    report.comparisons = [
        each for each in found if each.window_start >= options.since_ms and (until is None or each.window_start < until)
    ]
    return report


@frozen
class TableCount:
    """
    :ivar windows: rows by topic and window's beginning, those in quarantine too.
    :ivar doubled: rows whose offset is there already, by topic.
    """

    windows: Mapping[tuple[str, int], int]
    doubled: dict[str, int]


def count_table(spark: SparkSession, url: str, lengths: Mapping[str, int]) -> TableCount:
    """
    Count the rows of a table by topic and window of the record's time.

    :param lengths: of the windows in milliseconds, by topic; other topics are not counted.
    :raise LakeError: the table is damaged.
    """
    from pyspark.sql import functions as f

    table = Table.at(spark, url)
    windows: dict[tuple[str, int], int] = {}
    doubled: dict[str, int] = {}
    wanted = ("topic", "partition", "offset", "timestamp")
    parts = []
    if any(not path.startswith("_") for path in table.state.files):
        parts.append(table.read(spark).select(*wanted))
    if any(path.startswith("_") for path in table.state.files):
        parts.append(table.read_quarantine(spark).select(*wanted))
    if not parts:
        return TableCount(windows, doubled)
    rows = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
    at_ms = f.unix_millis("timestamp")
    for topic, length in lengths.items():
        start = (at_ms - f.pmod(at_ms, f.lit(length))).alias("start")
        here = rows.where(f.col("topic") == topic)
        for row in here.groupBy(start).agg(f.count(f.lit(1)).alias("rows")).collect():
            windows[topic, row["start"]] = row["rows"]
    counts = rows.groupBy("topic").agg(
        f.count(f.lit(1)).alias("rows"), f.count_distinct("partition", "offset").alias("offsets")
    )
    for row in counts.collect():
        if row["rows"] > row["offsets"]:
            doubled[row["topic"]] = row["rows"] - row["offsets"]
    return TableCount(windows, doubled)


def _topics_of(spark: SparkSession, url: str) -> list[str]:
    return sorted(Table.at(spark, url).state.offsets)


def _events(spark: SparkSession, options: AuditOptions, report: AuditReport) -> Any:
    """The events, one after the other; what is none is noted in the report."""
    rows = spark.read.format("logbus").options(**options.source).load().select("topic", "partition", "offset", "value")
    for row in rows.toLocalIterator(prefetchPartitions=True):
        try:
            yield _decoded(row["value"])
        except SerializationError as e:
            report.unreadable += 1
            report.problem = report.problem or f"{row['topic']}-{row['partition']} at offset {row['offset']}: {e}"


def _decoded(value: bytes | bytearray | None) -> MonitoringEvent:
    """An event in JSON, or in Avro without a frame."""
    if not value or value[:1] == b"{":
        return decode_event(None if value is None else bytes(value))
    try:
        import fastavro
    except ImportError as e:
        raise SerializationError("Avro needs fastavro, which is not installed: pip install 'logbus[avro]'") from e
    try:
        fields = fastavro.schemaless_reader(BytesIO(value), json.loads(json.dumps(AVRO_SCHEMA)), None)
    except Exception as e:
        # fastavro lets through whatever it stumbles over.
        raise SerializationError(f"neither JSON nor a monitoring event in Avro: {e!r:.200}") from e
    return event_of(fields)
