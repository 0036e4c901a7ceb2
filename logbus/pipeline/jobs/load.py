"""
Load topics into a table of Parquet files, each offset exactly once.

The job asks the brokers what there is, takes from it what the table has, and loads the rest, batch by batch: a batch is
some range of each partition, which Spark reads and writes to files, and one commit names both, the files and the ranges
(:mod:`logbus.pipeline.lake.table`). So it does not matter when and how often it is killed, in which order ranges are
loaded, or whether a range was loaded before: what is missing is loaded. There is no other state, and no checkpoint.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field, frozen

from logbus.model import TopicPartition
from logbus.pipeline.errors import DataLoss, LakeError, OptionError
from logbus.pipeline.jobs.missing import Wanted, left, next_batch
from logbus.pipeline.jobs.payloads import Payload, RawPayload
from logbus.pipeline.jobs.watching import Watch
from logbus.pipeline.lake import schemas
from logbus.pipeline.lake.compaction import compact
from logbus.pipeline.lake.manifest import Commit, Kind, TopicOffsets
from logbus.pipeline.lake.ranges import Offsets, Range
from logbus.pipeline.lake.table import QUARANTINE, Table
from logbus.pipeline.source.lookup import Lookup, ids_of
from logbus.pipeline.source.options import SourceOptions
from logbus.pipeline.source.options import read as read_options
from logbus.pipeline.source.spelling import spelled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONED_BY = ("date", "hour")
"""The columns whose values are directories: of the event's time, in UTC."""


@frozen(kw_only=True)
class LoadOptions:
    """
    What to load, and where.

    :ivar source: options of ``format("logbus")``: what to read, where to begin and to end, and how to connect. Unless
        they say otherwise, reading is ``read_committed``.
    :ivar table: a directory or URL.
    :ivar payload: what to make of the values.
    :ivar batch_offsets: offsets of one batch, about.
    :ivar follow: seconds to wait for more when all is loaded; None: end then.
    :ivar compact: after so many batches, and at the end, make few large files of many small ones; 0: never.
    :ivar late_after: seconds: an event that is older than its record by more is counted as late. It goes where its time
        says, as any other.
    :raise OptionError: something is wrong; it names what, and what would be right.
    """

    source: Mapping[str, str]
    table: str
    payload: Payload = field(factory=RawPayload)
    batch_offsets: int = 1_000_000
    follow: float | None = None
    compact: int = 0
    late_after: float = 3600.0
    reading: SourceOptions = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        defaults = {"kafka.isolation.level": "read_committed", "startingOffsetsByTimestampStrategy": "latest"}
        lower = {name.lower() for name in self.source}
        missing = {name: value for name, value in defaults.items() if name.lower() not in lower}
        object.__setattr__(self, "source", {**missing, **self.source})
        object.__setattr__(self, "reading", read_options(self.source, streaming=False))
        if self.batch_offsets < 1:
            raise OptionError(f"batch_offsets is {self.batch_offsets}; it takes a number of offsets, from 1")
        if self.compact < 0:
            raise OptionError(f"compact is {self.compact}; it takes a number of batches, or 0 for never")
        if self.follow is not None and not self.follow > 0:
            raise OptionError(f"follow is {self.follow}; it takes seconds, more than 0")


@define
class LoadReport:
    """
    What a run has done.

    :ivar records: rows it has committed;  ``quarantined``: those that could not be read;  ``late``: see the option.
    :ivar offsets: how many offsets it has committed: some have no record.
    :ivar compacted: files that larger ones have taken the place of.
    :ivar lost: ranges that were not there any more, by partition.
    """

    table: str
    batches: int = 0
    offsets: int = 0
    records: int = 0
    quarantined: int = 0
    late: int = 0
    files: int = 0
    bytes: int = 0
    compacted: int = 0
    seconds: float = 0.0
    lost: dict[str, list[list[int]]] = field(factory=dict)
    stopped: bool = False

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


def run(spark: SparkSession, options: LoadOptions, watch: Watch | None = None) -> LoadReport:
    """
    Load what is missing.

    :raise TakenOver: another job loads into the table.
    :raise DataLoss: offsets that were to be loaded are gone, and ``failOnDataLoss`` is not false.
    :raise LakeError: the table is damaged, of another schema, or of another topic of the same name.
    """
    table = Table.at(spark, options.table)
    table.claim()
    return _Load(spark, options, watch or Watch(), table).run()


@define
class _Load:
    spark: SparkSession
    options: LoadOptions
    watch: Watch
    table: Table
    clock: Callable[[], float] = time.monotonic
    report: LoadReport = field(init=False)
    lookup: Lookup = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.report = LoadReport(self.table.files.url)
        self.lookup = Lookup(self.options.reading)

    def run(self) -> LoadReport:
        began = self.clock()
        wanted, ids = self.look()
        while not self.watch.is_stopping:
            ranges = next_batch(wanted, self.options.batch_offsets)
            if ranges:
                self.load(ranges, ids)
                wanted = {each: self.shrunk(each, of) for each, of in wanted.items()}
                if self.options.compact and self.report.batches % self.options.compact == 0:
                    self.compact()
                if not any(each.missing for each in wanted.values()) and self.options.follow is not None:
                    wanted, ids = self.look()
            elif self.options.follow is None or self.watch.wait(self.options.follow):
                break
            else:
                wanted, ids = self.look()
        self.compact()
        self.report.stopped = self.watch.is_stopping
        self.report.seconds = round(self.clock() - began, 3)
        return self.report

    def compact(self) -> None:
        if self.options.compact:
            done = compact(self.spark, self.table)
            self.report.compacted += done.files_before
            if done.files_before:
                self.watch.tell(f"{done.files_before} files made {done.files_after}")

    def look(self) -> tuple[dict[TopicPartition, Wanted], Mapping[str, str]]:
        """What there is on the brokers, beside what the table has; and the topics' ids."""
        topics = self.lookup.topics()
        partitions = self.lookup.partitions(topics)
        ids = {name: str(topic_id) for name, topic_id in ids_of(topics).items()}
        for name, held in self.table.state.offsets.items():
            if name in topics and held.topic_id != ids.get(name, ""):
                raise LakeError(
                    f"{self.table.files.url}: topic {name!r} has id {ids.get(name, 'none')}, the one in the table "
                    f"{held.topic_id or 'none'}: it was deleted and created again; load it into a table of its own"
                )
        log_starts = self.lookup.first(partitions)
        starts = self.lookup.resolve(self.options.reading.starting, partitions, ending=False)
        ends = self.lookup.resolve(self.options.reading.ending, partitions, ending=True)
        lasts = self.lookup.last(partitions)
        wanted = {
            each: Wanted(
                held=self.table.state.held(*each),
                log_start=log_starts[each],
                start=max(starts[each], log_starts[each]),
                end=min(ends[each], lasts[each]),
            )
            for each in partitions
        }
        self.check_loss(wanted)
        return wanted, ids

    def check_loss(self, wanted: Mapping[TopicPartition, Wanted]) -> None:
        for each, of in wanted.items():
            if not of.lost:
                continue
            if self.options.reading.fail_on_data_loss:
                raise DataLoss(each, of.held.end, of.log_start, of.end, "it is not kept any more, and was not loaded")
            if str(each) not in self.report.lost:
                self.watch.tell(f"{each}: offsets {of.held.end} to {of.log_start - 1} are gone")
            self.report.lost[str(each)] = [list(one) for one in of.lost.ranges]

    def shrunk(self, partition: TopicPartition, of: Wanted) -> Wanted:
        """What is wanted after a commit."""
        return Wanted(self.table.state.held(*partition), of.log_start, of.start, of.end)

    def load(self, ranges: Mapping[TopicPartition, Range], ids: Mapping[str, str]) -> None:
        """One batch."""
        began = self.clock()
        commit, late = self.write(ranges, ids)
        took = self.clock() - began
        offsets = sum(end - start for start, end in ranges.values())
        report = self.report
        report.batches += 1
        report.offsets += offsets
        report.records += commit.records
        report.quarantined += commit.quarantined
        report.late += late
        report.files += len(commit.added)
        report.bytes += sum(each.size for each in commit.added)
        odd = f", {commit.quarantined} in quarantine" if commit.quarantined else ""
        self.watch.tell(
            f"commit {commit.number}: {commit.records} records{odd} of {len(ranges)} partitions in "
            f"{len(commit.added)} files, {took:.1f} s"
        )

    def write(self, ranges: Mapping[TopicPartition, Range], ids: Mapping[str, str]) -> tuple[Commit, int]:
        """Have Spark write a batch, and commit it; with the number of late events."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        payload = self.options.payload
        parsed = payload.parsed(self.source(ranges))
        seen = Observation()
        is_late = f.col(payload.time) < f.col("timestamp") - f.make_dt_interval(secs=f.lit(self.options.late_after))
        rows = parsed.observe(
            seen,
            f.count(f.lit(1)).alias("records"),
            f.count(payload.reason).alias("odd"),
            f.count(f.when(f.col(payload.reason).isNull() & is_late, 1)).alias("late"),
        )
        good = self.dated(rows.where(f.col(payload.reason).isNull()), payload.time, payload.columns(rows))
        schema = schemas.merged(self.table.files.url, self.table.state.schema, json.loads(good.schema.json()))
        self.save(good, self.table.staging_url)
        counts = seen.get
        if counts["odd"]:
            bad = parsed.where(f.col(payload.reason).isNotNull())
            columns = [*payload.raw, f.col(payload.reason).alias("reason")]
            self.save(self.dated(bad, "timestamp", columns), f"{self.table.staging_url}/{QUARANTINE}")
        offsets: dict[str, dict[int, Offsets]] = {}
        for (topic, partition), each in ranges.items():
            offsets.setdefault(topic, {})[partition] = Offsets.of(each)
        commit = self.table.commit(
            Kind.LOAD,
            self.table.staged(),
            offsets={topic: TopicOffsets(ids.get(topic, ""), held) for topic, held in offsets.items()},
            records=counts["records"],
            quarantined=counts["odd"],
            schema=schema,
        )
        return commit, counts["late"]

    def source(self, ranges: Mapping[TopicPartition, Range]) -> DataFrame:
        """Exactly these ranges."""
        replaced = ("subscribe", "subscribepattern", "assign", "failondataloss")
        given = {
            name: value
            for name, value in self.options.source.items()
            if name.lower() not in replaced and not name.lower().startswith(("starting", "ending"))
        }
        assigned: dict[str, list[int]] = {}
        for topic, partition in ranges:
            assigned.setdefault(topic, []).append(partition)
        return (
            self.spark.read.format("logbus")
            .options(**given)
            .option("assign", json.dumps(assigned))
            .option("startingOffsets", json.dumps(spelled({each: start for each, (start, _) in ranges.items()})))
            .option("endingOffsets", json.dumps(spelled({each: end for each, (_, end) in ranges.items()})))
            .option("failOnDataLoss", "true")
            .load()
        )

    def dated(self, rows: DataFrame, time_column: str, columns: list[Any]) -> DataFrame:
        """With the columns that are directories."""
        from pyspark.sql import functions as f

        event_time = f.col(time_column)
        return rows.select(
            *columns,
            f.date_format(event_time, "yyyy-MM-dd").alias("date"),
            f.date_format(event_time, "HH").alias("hour"),
        )

    def save(self, rows: DataFrame, url: str) -> None:
        rows.write.mode("append").partitionBy(*PARTITIONED_BY).parquet(url)


def remaining(spark: SparkSession, options: LoadOptions) -> dict[str, int]:
    """Offsets that a load would load now, by partition; it changes nothing."""
    table = Table.at(spark, options.table)
    wanted, _ = _Load(spark, options, Watch(), table).look()
    return {str(each): left({each: of}) for each, of in wanted.items() if of.missing}
