"""
The load job: loads topics into a table, each offset exactly once.

The job gets the available offsets from the brokers, subtracts those in the table, and loads the rest, batch by batch. A
batch is a range of each partition, which Spark reads and writes to files; one commit names the files and the ranges
(:mod:`logbus.pipeline.lake.target`). So the job may be killed at any time, and ranges may be loaded in any order: a run
loads the offsets that are missing. There is no other state, and no checkpoint.

Guarantee: of the offsets that commits name, each record is once in the table or once in its quarantine. Two jobs cannot
both commit to one table: the one that started last continues, the other ends with :exc:`.ClaimLost`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field, frozen

from logbus.model import TopicPartition
from logbus.pipeline.error_text import short_message
from logbus.pipeline.errors import LakeError, OptionError, PipelineError
from logbus.pipeline.jobs.batch_loader import DEFAULT_LAYOUT, BatchLoader
from logbus.pipeline.jobs.broker_check import check_topics
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.load_planner import LoadPlan, LoadPlanner
from logbus.pipeline.jobs.progress import plan_line, rates, report_progress
from logbus.pipeline.jobs.slow_workers import retried
from logbus.pipeline.jobs.wanted_offsets import WantedOffsets, next_batch
from logbus.pipeline.lake.compaction import MIN_FILES
from logbus.pipeline.lake.formats import ICEBERG, check_format, table_at, table_before_spark
from logbus.pipeline.lake.layout import Layout, check_directory, layout_for
from logbus.pipeline.lake.load_state import LoadChange, TopicOffsets
from logbus.pipeline.lake.local_directory import check_writable
from logbus.pipeline.lake.offset_set import OffsetSet, Range
from logbus.pipeline.lake.parquet import TARGET_BYTES, parquet_settings
from logbus.pipeline.lake.vacuum import OLD_DAYS, check_vacuum, old_versions, vacuum_table
from logbus.pipeline.payloads.payload import Payload, RawPayload
from logbus.pipeline.payloads.record_metadata import check_taken
from logbus.pipeline.source.options import SourceOptions
from logbus.pipeline.source.options import read_source_options as read_options
from logbus.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from logbus.pipeline.lake.target import LoadTarget


@frozen(kw_only=True)
class LoadOptions:
    """
    The options of a load: its source and its target.

    :ivar source: options of ``format("logbus")``: topics, start and end positions, connection. By default reading is
        ``read_committed``.
    :ivar table: a directory or URL.
    :ivar payload: how values are parsed.
    :ivar batch_offsets: the approximate number of offsets of a batch.
    :ivar follow: when all is loaded, wait this many seconds and look for more; None: end.
    :ivar compact: compact the table after this many batches, and at the end; 0: never.
    :ivar vacuum: days: what only readers of older versions of the table need is deleted at the end, and every hour
        while the load runs; 0: never.
    :ivar late_after: seconds: an event is counted as late if it is older than its record by more. It is stored by its
        time, like any other.
    :ivar partition_by: the table's directories (:class:`.Layout`); "": as the table's, and none for a new one.
    :ivar format: the table's, such as ``delta`` (:data:`.FORMATS`); "": as the table has it, and ``parquet`` for a new
        one.
    :ivar store_options: of an object store, such as ``AWS_ENDPOINT_URL``; others come from the environment.
    :ivar catalog: of PyIceberg's configuration, in which a table of Iceberg is; its name is the ``table``, such as
        ``lake.views``. "": the default catalog.
    :raise OptionError: an option is wrong; it names the option, and what it takes.
    """

    source: Mapping[str, str]
    table: str
    payload: Payload = field(factory=RawPayload)
    batch_offsets: int = 1_000_000
    follow: float | None = None
    compact: int = 0
    vacuum: float = 0.0
    late_after: float = 3600.0
    partition_by: str = ""
    format: str = ""
    store_options: Mapping[str, str] = field(factory=dict, repr=False)
    catalog: str = ""
    reading: SourceOptions = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        defaults = {"kafka.isolation.level": "read_committed", "startingOffsetsByTimestampStrategy": "latest"}
        lower = {name.lower() for name in self.source}
        missing = {name: value for name, value in defaults.items() if name.lower() not in lower}
        object.__setattr__(self, "source", {**missing, **self.source})
        object.__setattr__(self, "reading", read_options(self.source, streaming=False))
        if self.partition_by:
            layout = Layout(self.partition_by)
            check_taken(self.payload.own_columns, layout.of_times, "a directory", getattr(self.payload, "into", ""))
            if (fields := self.payload.table_fields(self.reading.include_headers)) is not None:
                check_directory(layout, fields)
        if not self.table:
            raise OptionError("table is empty; it takes a directory or a URL")
        check_format(self.table, self.format, self.store_options, self.catalog)
        if self.batch_offsets < 1:
            raise OptionError(f"batch_offsets is {self.batch_offsets}; it takes a number of offsets, from 1")
        if self.compact < 0:
            raise OptionError(f"compact is {self.compact}; it takes a number of batches, or 0 for never")
        check_vacuum(self.vacuum)
        if self.follow is not None and not self.follow > 0:
            raise OptionError(f"follow is {self.follow}; it takes seconds, more than 0")
        if not 0 <= self.late_after < _LONGEST:
            raise OptionError(f"late_after is {self.late_after}; it takes seconds, from 0")

    def check(self, tell: Callable[[str], None]) -> int | None:
        """
        Check topics, offsets and the table's directories without Spark; see :func:`.check_topics`.

        :raise LakeError: the table is damaged, is none, or has other directories.
        :raise PipelineError: no topic matches the pattern, and the load does not follow.
        """
        if not (self.catalog or self.format == ICEBERG):
            check_writable(self.table)
        table = table_before_spark(self.table, self.format, self.store_options, self.catalog)
        if table is not None:
            wanted = Layout(self.partition_by) if self.partition_by else None
            layout_for(table.url, table.directories, wanted, DEFAULT_LAYOUT)
        offsets = check_topics(self.reading, tell, must_match=self.follow is None)
        return offsets if self.follow is None else None


_VACUUM_EVERY = 3600.0
"""Seconds between vacuums while a load runs: each lists the table's files."""

_LONGEST = 1e11
"""Seconds: about 3000 years."""


@define
class LoadReport:
    """
    The result of a run.

    :ivar records: committed rows;  ``quarantined``: those whose value could not be read;  ``late``: see the option.
    :ivar offsets: committed offsets, some of which have no record.
    :ivar files: written files;  ``bytes``: their size.
    :ivar compacted: files that were replaced by larger ones.
    :ivar deleted: files that no version of the table has any more.
    :ivar lost: ranges that were gone, by partition: the first offset, and the one after the last.
    :ivar stopped: whether the job was asked to stop.
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
    deleted: int = 0
    seconds: float = 0.0
    lost: dict[str, list[list[int]]] = field(factory=dict)
    stopped: bool = False

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


@frozen
class Remaining:
    """
    The offsets that a load would load now.

    :ivar offsets: how many, by partition;  ``lost``: how many are gone.
    """

    table: str
    offsets: Mapping[str, int]
    lost: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


def run(spark: SparkSession, options: LoadOptions, watch: JobControl | None = None) -> LoadReport:
    """
    Load the missing offsets.

    Topics, offsets and schemas are checked before the table is changed. While the job runs, the session has the
    settings of :data:`.writing.SETTINGS`.

    :raise OptionError: the payload's schema is invalid, or offsets name partitions that do not exist.
    :raise ClaimLost: another job has claimed the table.
    :raise DataLossFound: offsets to be loaded are gone, and ``failOnDataLoss`` is not false.
    :raise PipelineError: no topic matches the pattern, and the load does not follow.
    :raise LakeError: the table is damaged, has another schema, or a topic was recreated.
    """
    load = _Load(spark, options, watch or JobControl(), _table(spark, options))
    with parquet_settings(spark):
        plan = load.planner.plan(load.table.state)
        if plan.no_match and options.follow is None:
            raise PipelineError(plan.no_match)
        schema = load.batches.check()
        for sentence in load.table.claim(schema, load.batches.layout.directories):
            load.watch.tell(sentence)
        with report_progress(spark, load.watch):
            return load.run()


def remaining(spark: SparkSession, options: LoadOptions) -> Remaining:
    """The offsets that a load would load now; nothing is changed."""
    table = _table(spark, options)
    wanted = LoadPlanner(options.reading, table.url).plan(table.state).wanted
    return Remaining(
        table.url,
        {str(each): len(of.missing) for each, of in wanted.items() if of.missing},
        {str(each): len(of.lost) for each, of in wanted.items() if of.lost},
    )


def _table(spark: SparkSession, options: LoadOptions) -> LoadTarget:
    return table_at(spark, options.table, options.format, options.store_options, options.catalog)


@define
class _Load:
    spark: SparkSession
    options: LoadOptions
    watch: JobControl
    table: LoadTarget
    clock: Callable[[], float] = time.monotonic
    report: LoadReport = field(init=False)
    planner: LoadPlanner = field(init=False)
    batches: BatchLoader = field(init=False)
    reported: set[str] = field(factory=set, init=False)
    vacuumed: float = field(init=False)
    has_told_of_versions: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        options = self.options
        self.report = LoadReport(self.table.url)
        self.planner = LoadPlanner(options.reading, self.table.url)
        self.batches = BatchLoader(
            spark=self.spark,
            table=self.table,
            source=options.source,
            headers=options.reading.include_headers,
            payload=options.payload,
            late_after=options.late_after,
            partition_by=Layout(options.partition_by) if options.partition_by else None,
        )

    def run(self) -> LoadReport:
        self.vacuumed = began = self.clock()
        while True:
            self.load(self.make_plan())
            if self.watch.is_stopping or self.options.follow is None or self.watch.wait(self.options.follow):
                break
        if self.options.compact and not self.watch.is_stopping:
            self.compact()
        if not self.watch.is_stopping:
            self.vacuum()
        self.report.stopped = self.watch.is_stopping
        self.report.seconds = round(self.clock() - began, 3)
        return self.report

    def make_plan(self) -> LoadPlan:
        """Plan what to load; lost offsets are committed to the table, and not requested again."""
        plan = self.planner.plan(self.table.state)
        sentences = [*plan.losses]
        if plan.no_match:
            sentences.append(f"{plan.no_match}; waiting for one")
        if plan.gone:
            sentences.append(plan.gone)
        for sentence in sentences:
            if sentence not in self.reported:
                self.watch.tell(sentence)
        self.reported = set(sentences)
        if lost := {each: of.lost for each, of in plan.wanted.items() if of.lost}:
            self.table.commit(LoadChange(lost=_by_topic(lost, plan.ids)))
            for each, offsets in lost.items():
                self.report.lost.setdefault(str(each), []).extend(list(one) for one in offsets.ranges)
            plan = LoadPlan(self.shrunk(plan.wanted), plan.ids, ())
        return plan

    def shrunk(self, wanted: Mapping[TopicPartition, WantedOffsets]) -> dict[TopicPartition, WantedOffsets]:
        """The wanted offsets after a commit."""
        held = self.table.state.held
        return {
            each: WantedOffsets(held=held(*each), log_start=of.log_start, start=of.start, end=of.end)
            for each, of in wanted.items()
        }

    def load(self, plan: LoadPlan) -> None:
        """Load all planned offsets, batch by batch, unless asked to stop."""
        from pyspark.errors import PySparkException

        wanted = plan.wanted
        if missing := {each: len(of.missing) for each, of in wanted.items() if of.missing}:
            topics = ", ".join(sorted({each.topic for each in missing}))
            self.watch.tell(plan_line(topics, {}, missing, self.options.batch_offsets, "which the table lacks"))
        left = sum(missing.values())
        if left:
            self.watch.begin(left)
        while not self.watch.is_stopping and (ranges := next_batch(wanted, self.options.batch_offsets)):
            left -= _count(ranges)
            try:
                self.load_batch(ranges, plan.ids, left)
            except PySparkException as e:
                if not self.watch.wait(0):
                    raise
                # A supervisor may stop Spark's processes together with the job.
                self.watch.tell(
                    f"the batch under way was given up, and is left to the next run: {short_message(str(e))}"
                )
                return
            wanted = self.shrunk(wanted)
            if self.options.compact and self.report.batches % self.options.compact == 0:
                self.compact()
            if self.clock() - self.vacuumed > _VACUUM_EVERY:
                self.vacuum()

    def load_batch(self, ranges: Mapping[TopicPartition, Range], ids: Mapping[str, str], left: int) -> None:
        """Load ranges; ``left`` is the number of planned offsets after them."""
        began = self.clock()
        written = retried(lambda: self.batches.write(ranges), self.watch)
        self.planner.check_ids({name: ids.get(name, "") for name, _ in ranges})
        commit = self.table.commit(
            LoadChange(
                offsets=_by_topic({each: OffsetSet.of(one) for each, one in ranges.items()}, ids),
                records=written.records,
                quarantined=written.quarantined,
                schema=written.schema,
            )
        )
        for sentence in commit.notes:
            self.watch.tell(sentence)
        report = self.report
        report.batches += 1
        report.offsets += _count(ranges)
        report.records += written.records
        report.quarantined += written.quarantined
        report.late += written.late
        report.files += commit.files
        report.bytes += commit.bytes
        odd = f", {written.quarantined} in quarantine" if written.quarantined else ""
        more = f"; {left} offsets are left" if left else ""
        self.watch.tell_batch(
            f"commit {commit.number}: {written.records} records{odd} of {counted(len(ranges), 'partition')} in "
            f"{counted(commit.files, 'file')}; {rates(written.records, commit.bytes, self.clock() - began)}{more}",
            _count(ranges),
            left,
        )

    def compact(self) -> None:
        done = self.table.optimize(min_files=MIN_FILES, target_bytes=TARGET_BYTES)
        self.report.compacted += done.files_before
        if done.files_before:
            self.watch.tell(f"{done.files_before} files made {done.files_after}")

    def vacuum(self) -> None:
        """Delete what is old; or say, once, that nothing does."""
        self.vacuumed = self.clock()
        if not self.options.vacuum:
            if not self.has_told_of_versions:
                self.tell_of_versions()
            return
        done = vacuum_table(self.table, self.options.vacuum)
        self.report.deleted += done.files
        if done.files or done.snapshots:
            expired = f", {counted(done.snapshots, 'snapshot')} expired" if done.snapshots else ""
            self.watch.tell(f"vacuum: {counted(done.files, 'file')} deleted{expired}")

    def tell_of_versions(self) -> None:
        """Say what the table keeps for old versions, if there is something."""
        try:
            found = old_versions(self.table)
        except LakeError:
            return  # All is loaded: this can be said another time.
        named = ((found.files, "file"), (found.snapshots, "snapshot"))
        if kept := " and ".join(counted(count, noun) for count, noun in named if count):
            self.has_told_of_versions = True
            self.watch.tell(
                f"{self.table.url} keeps {kept} only for versions that were replaced more than {OLD_DAYS} days ago; "
                f"--vacuum {OLD_DAYS} deletes them"
            )


def _count(ranges: Mapping[TopicPartition, Range]) -> int:
    return sum(end - start for start, end in ranges.values())


def _by_topic(offsets: Mapping[TopicPartition, OffsetSet], ids: Mapping[str, str]) -> dict[str, TopicOffsets]:
    found: dict[str, dict[int, OffsetSet]] = {}
    for (topic, partition), each in offsets.items():
        found.setdefault(topic, {})[partition] = each
    return {topic: TopicOffsets(ids.get(topic, ""), held) for topic, held in found.items()}
