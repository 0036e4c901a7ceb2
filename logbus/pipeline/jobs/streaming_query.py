"""Runs a streaming query with a checkpoint, and writes each of its batches once to the outputs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field, frozen

from logbus.pipeline.error_text import short_message
from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.backlog import BACKLOG_FILE, StreamPlan, plans_of
from logbus.pipeline.jobs.event_stream import EventStream
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.late_events import (
    DEFAULT_SHARE,
    LateEvents,
    TooManyLate,
    check_share,
    late_count,
    late_events_message,
)
from logbus.pipeline.jobs.late_watermark import LateWatermark
from logbus.pipeline.jobs.open_state import OpenState
from logbus.pipeline.jobs.outputs import Output
from logbus.pipeline.jobs.progress import report_progress
from logbus.pipeline.jobs.record_counts import CountsDiffer, last_commit, parsed_problem, windows_problem
from logbus.pipeline.lake.file_system import FileSystem, check_store, file_system_at, local_path
from logbus.pipeline.lake.local_directory import check_writable
from logbus.pipeline.lake.reachability import check_namenode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

IDENTITY_FILE = "logbus.json"
"""A file in a checkpoint that describes the query, so that no other query continues from it."""

LATE_FILE = "logbus-late.json"
"""A file in a checkpoint: the last run failed, since too many events were late."""

_STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
_ON_DISK = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_LOOK = 0.5
"""Seconds between checks of a running query."""

_STARTS = 5
_IMPATIENT = "failed to connect back"
"""Part of Spark's error if a Python process did not start in ten seconds, as on a busy machine."""

"""A path, or a URL of one."""

_ASKED_TO_STOP = "this batch was not begun, since the job is asked to stop"


@frozen
class QuerySettings:
    """
    How a query runs.

    :ivar checkpoint: a directory or URL for this query only, from which it continues after a restart.
    :ivar every: seconds between batches; None: process the available records, and end.
    :ivar max_late_share: the share of events that may be late; with more the query fails.
    :ivar close_open: at the end, also write what is still open, as if later events had come.
    :raise OptionError: a setting is wrong.
    """

    checkpoint: str
    every: float | None = None
    max_late_share: float = DEFAULT_SHARE
    close_open: bool = False

    def __attrs_post_init__(self) -> None:
        check_share(self.max_late_share)
        if not self.checkpoint:
            raise OptionError("a query needs a checkpoint: a directory of its own, where it remembers how far it is")
        if self.every is not None and not 0 <= self.every < float("inf"):
            raise OptionError(f"every is {self.every}; it takes seconds")
        if self.close_open and self.every is not None:
            raise OptionError("what is open can be closed at the end of a run that has one: without every (--every)")

    @property
    def is_new(self) -> bool:
        """Whether it is certain, without Spark, that nothing was read yet: the checkpoint is local, and empty."""
        local = local_path(self.checkpoint)
        return local is not None and not (local / "offsets").exists()

    def check(self) -> None:
        """
        Check what can be checked of the checkpoint before Spark is started.

        :raise LakeError: it is on a store that is not allowed, or cannot be written to, or its namenode cannot be
            reached.
        """
        check_store(self.checkpoint)
        check_writable(self.checkpoint)
        check_namenode(self.checkpoint)


def _as_it_is(batch: DataFrame) -> DataFrame:
    return batch


def _itself(micros: int) -> int:
    return micros


@frozen(kw_only=True)
class QueryDefinition:
    """
    The definition of a query.

    :ivar name: of the job.
    :ivar rows: a streaming DataFrame in output mode append.
    :ivar identity: the settings that must not change while a checkpoint exists, by names for messages.
    :ivar each: computes the rows to write from a batch of ``rows``.
    :ivar columns: of the rows to write.
    :ivar streams: the streams read.
    :ivar late: gets the watermark of each batch, to count late events; None: events cannot be late, and nothing is
        kept for later batches.
    :ivar held: makes ``rows`` of streams whose watermark is held.
    :ivar names: of the streams among the observed metrics.
    :ivar open_state: reads what is open from the checkpoint.
    :ivar closed_at: maps the time of the latest event that is open to the watermark that closes it, in microseconds.
    :ivar hidden: columns of ``rows`` that are not written; ``events``: the one of them with the number of events in a
        row. "": events are not counted in the result.
    """

    name: str
    rows: DataFrame
    identity: Mapping[str, str]
    columns: Sequence[str]
    each: Callable[[DataFrame], DataFrame] = _as_it_is
    streams: Sequence[EventStream] = ()
    late: LateWatermark | None = None
    held: Callable[[], DataFrame] | None = None
    names: Sequence[str] = ("rows",)
    open_state: Callable[[SparkSession, FileSystem], OpenState] | None = None
    closed_at: Callable[[int], int] = _itself
    hidden: Sequence[str] = ()
    events: str = ""

    def too_many_late(self, found: LateEvents, most: float, report: Mapping[str, Any], *, earlier: bool) -> TooManyLate:
        """The error of a run with too many late events; ``earlier``: of the previous run."""
        watermark = max((each.delay for each in self.streams), default=0)
        return TooManyLate(late_events_message(found, most, watermark, earlier), report)


@define
class QueryReport:
    """
    The result of a run.

    :ivar rows_in: rows read, with unreadable ones; ``rows_out``: rows of the result.
    :ivar readable: rows whose value the payload could parse;  ``unreadable``: those that it could not.
    :ivar late: events that came after one of their windows was written, or too late to be joined: the result lacks
        them.
    :ivar late_share: the share of late events among the readable ones, from 0 to 1.
    :ivar counted: events in the windows that were written;  ``open_before``, ``still_open``: events in open windows
        before the run, and after it. None: not known, or not tumbling windows.
    :ivar stopped: whether the job was asked to stop.
    """

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    readable: int = 0
    unreadable: int = 0
    late: int = 0
    late_share: float = 0.0
    counted: int | None = None
    open_before: int | None = None
    still_open: int | None = None
    seconds: float = 0.0
    stopped: bool = False
    last_batch: int = field(default=-1, repr=False)
    left: int = field(default=0, repr=False)
    late_events: LateEvents = field(factory=LateEvents, repr=False)
    events_out: dict[int, int] = field(factory=dict, repr=False)

    def as_json(self) -> dict[str, Any]:
        """The report without internal counters."""
        return asdict(self, filter=lambda each, _: each.repr is not False)


def run_query(
    spark: SparkSession, query: QueryDefinition, outputs: Sequence[Output], running: QuerySettings, watch: JobControl
) -> QueryReport:
    """
    Run a query until all is read, or it is asked to stop. It stops between two batches.

    :raise OptionError: an output lacks a column, or the checkpoint belongs to another query.
    :raise TooManyLate: more events were late than allowed, in this run or the previous one.
    :raise CountsDiffer: the counts of the run do not add up.
    :raise PipelineError: the query failed; nothing is lost, and the next run continues.
    """
    if not outputs:
        raise OptionError("a query needs an output: a topic or a table")
    _note(spark, query, running.checkpoint)
    files = file_system_at(spark, running.checkpoint)
    _check_last_run(files, query, running)
    for output in outputs:
        output.open(spark)
    began = time.monotonic()
    run = _Run(spark=spark, query=query, outputs=outputs, running=running, watch=watch, files=files)
    report = run.report
    if query.events and query.open_state is not None:
        report.counted, report.open_before = 0, query.open_state(spark, files).events
    with report_progress(spark, watch):
        run.all()
    report.stopped = watch.is_stopping
    report.seconds = round(time.monotonic() - began, 3)
    if run.is_too_late(is_over=running.every is None and not report.stopped):
        files.create(LATE_FILE, json.dumps(asdict(report.late_events)).encode())
        raise query.too_many_late(report.late_events, running.max_late_share, report.as_json(), earlier=False)
    if problem := _count_problem(spark, files, query, report, watch):
        raise CountsDiffer(problem, report.as_json())
    return report


@define(kw_only=True)
class _Run:
    """A run of a query, of one or more starts with the same checkpoint."""

    spark: SparkSession
    query: QueryDefinition
    outputs: Sequence[Output]
    running: QuerySettings
    watch: JobControl
    files: FileSystem
    report: QueryReport = field(factory=QueryReport)
    is_held: bool = False
    failures: list[str] = field(factory=list)

    def all(self) -> None:
        """Read the backlog with a held watermark, if it takes several batches; then run the query."""
        plans = plans_of(self.files, self.query.streams)
        for plan in plans:
            self.watch.tell(str(plan))
        self.watch.begin(sum(plan.left for plan in plans))
        query, every = self.query, self.running.every
        self.is_held = query.held is not None and (self._has_begun or any(plan.is_long for plan in plans))
        if self.is_held:
            self.watch.tell("the watermark is held until all of this is read, so that none of it is late")
            self._read_backlog(plans)
        if (every is not None or not self.is_held) and not self._is_ending:
            self._start(query.rows, every)
        if self.running.close_open:
            self._punctuate(query.closed_at)

    @property
    def _has_begun(self) -> bool:
        """Whether an earlier run has begun with a held watermark."""
        return BACKLOG_FILE in self.files.names("")

    @property
    def _is_ending(self) -> bool:
        return self.watch.is_stopping or self.is_too_late()

    def is_too_late(self, *, is_over: bool = False) -> bool:
        """Whether too many events were late."""
        return self.report.late_events.are_too_many(self.running.max_late_share, self.report.left, is_over)

    def _read_backlog(self, plans: Sequence[StreamPlan]) -> None:
        assert self.query.held is not None
        if not self._has_begun:
            self.files.create(BACKLOG_FILE, b"")
        rows = self.query.held()
        while True:
            left = sum(plan.left for plan in plans)
            self._start(rows, None)
            if self.running.every is None or self._is_ending:
                break
            # What has come meanwhile is a backlog too, as long as that ends.
            plans = plans_of(self.files, self.query.streams)
            if not any(plan.is_long for plan in plans) or sum(plan.left for plan in plans) > left / 2:
                break
        self._punctuate(_itself)
        if not self._is_ending:
            self.files.delete(BACKLOG_FILE)

    def _punctuate(self, closed_at: Callable[[int], int]) -> None:
        """Advance the watermark, as if there were an event at the time of the latest that is open, or later."""
        query = self.query
        if self._is_ending or query.late is None or query.open_state is None:
            return
        latest = query.open_state(self.spark, self.files).latest
        if not any(each is not None for each in latest):
            return
        one = max(each for each in latest if each is not None)
        files = [query.late.punctuation(name) for name in query.names]
        delays = [stream.delay for stream in query.streams]
        try:
            for file, delay, micros in zip(files, delays, latest, strict=True):
                if closed_at is not _itself:
                    file.set(_whole_ms(closed_at(one)) + _whole_ms(delay))
                else:
                    file.set(micros or 0)  # A stream without events advances no watermark.
            self._start(query.rows, None)
        finally:
            for file in files:
                file.clear()

    def _start(self, rows: DataFrame, every: float | None) -> None:
        """Start the query and wait for its end."""
        checkpoint = self.running.checkpoint
        writer = rows.writeStream.queryName(f"{self.query.name}: {checkpoint}").foreachBatch(self._write)
        writer = writer.option("checkpointLocation", checkpoint)
        if every is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{round(every * 1000)} milliseconds")
        prepare = (lambda: None) if self.query.late is None else partial(self.query.late.look, self.files)
        with _state_on_disk(self.spark) if self.is_held else nullcontext():
            run_writer(writer, self.report, self.watch, self.failures, prepare=prepare, ends_early=self.is_too_late)

    def _write(self, batch: DataFrame, number: int) -> None:
        """Write a batch to all outputs."""
        if self._is_ending:
            raise PipelineError(_ASKED_TO_STOP)
        query = self.query
        kept = query.each(batch).persist()
        try:
            rows, events = _size(kept, query.events)
            if query.events:
                self.report.events_out[number] = events
            if rows:
                of = query_id(self.spark, self.running.checkpoint)
                for output in self.outputs:
                    output.write(kept.drop(*query.hidden), of, number)
            self.report.rows_out += rows
            if query.late is not None:
                query.late.after(self.files, number)
        except Exception as e:
            self.failures.append(f"batch {number}: {short_message(str(e) or repr(e))}")  # Spark's error would hide it.
            raise
        finally:
            kept.unpersist()


@contextmanager
def _state_on_disk(spark: SparkSession) -> Iterator[None]:
    """
    A context in which new queries keep their state on local disks, unless the session was told where: Spark's default
    is the memory of the workers, which the windows of a long backlog may exceed. A checkpoint keeps to what it has.
    """
    if spark.sparkContext.getConf().contains(_STATE_STORE):
        yield
        return
    before = spark.conf.get(_STATE_STORE)
    spark.conf.set(_STATE_STORE, _ON_DISK)
    try:
        yield
    finally:
        spark.conf.set(_STATE_STORE, str(before))


def _whole_ms(micros: int) -> int:
    """Microseconds, rounded up to what a watermark can be."""
    return -(-micros // 1000) * 1000


def _size(rows: DataFrame, events: str) -> tuple[int, int]:
    """The number of rows, and the sum of a column of them."""
    from pyspark.sql import functions as f

    if not events:
        return rows.count(), 0
    found = rows.agg(f.count(f.lit(1)).alias("rows"), f.coalesce(f.sum(events), f.lit(0)).alias("events")).first()
    assert found is not None, "an aggregate without groups has a row"
    return found["rows"], found["events"]


def _count_problem(
    spark: SparkSession, files: FileSystem, query: QueryDefinition, report: QueryReport, watch: JobControl
) -> str:
    """The error message if the counts of a run do not add up."""
    problem = parsed_problem(report.rows_in, report.readable, report.unreadable)
    if problem or report.counted is None or report.open_before is None or query.open_state is None:
        return problem
    if report.batches and report.last_batch != last_commit(files):
        watch.tell("the run ended within a batch: whether its counts add up is not known")
        return ""
    report.still_open = (query.open_state(spark, files).events or 0) if report.batches else report.open_before
    return windows_problem(report.readable, report.late, report.counted, (report.open_before, report.still_open))


def run_writer(
    writer: DataStreamWriter,
    report: QueryReport,
    watch: JobControl,
    failures: Sequence[str],
    *,
    prepare: Callable[[], None] = lambda: None,
    ends_early: Callable[[], bool] = lambda: False,
) -> None:
    """
    Start a query and wait for its end. Start it again if a Python process did not start in time.

    :param failures: the errors of batches.
    :param prepare: is called before each start.
    :param ends_early: whether to end the query between two batches, although nobody asked it to stop.
    :raise PipelineError: the query failed.
    """
    from pyspark.errors import PySparkException

    for left in reversed(range(_STARTS)):
        try:
            prepare()
            started = writer.start()
            try:
                while not started.awaitTermination(_LOOK):  # type: ignore[arg-type]
                    _count(report, started.recentProgress, watch)
                    if (watch.is_stopping or ends_early()) and not started.status["isTriggerActive"]:
                        break
            finally:
                started.stop()
                _count(report, started.recentProgress, watch)
            return
        except PySparkException as e:
            if _ASKED_TO_STOP in str(e):
                return
            if watch.is_stopping:
                # A supervisor may stop Spark's processes together with the job.
                watch.tell(f"the batch under way was given up, and is left to the next run: {_problem(e, failures)}")
                return
            if _IMPATIENT not in str(e) or failures or not left:
                raise PipelineError(_problem(e, failures)) from e
            watch.tell("a Python process did not start in time; starting it again")


def _problem(error: Exception, failures: Sequence[str]) -> str:
    return failures[-1] if failures else short_message(str(error))


def _check_last_run(files: FileSystem, query: QueryDefinition, running: QuerySettings) -> None:
    """
    Check whether the last run failed with too many late events: the next would continue as if nothing were missing.

    :raise TooManyLate: it did, and no greater share is allowed now.
    """
    try:
        found = LateEvents(**json.loads(files.read(LATE_FILE)))
    except FileNotFoundError:
        return
    except (ValueError, TypeError) as e:
        raise PipelineError(f"{files.url}/{LATE_FILE} is damaged: {e}") from e
    if found.share > running.max_late_share:
        raise query.too_many_late(found, running.max_late_share, asdict(found), earlier=True)
    files.delete(LATE_FILE)


def _note(spark: SparkSession, query: QueryDefinition, checkpoint: str) -> None:
    """
    Write the query's identity to the checkpoint, or compare it with the one there.

    :raise OptionError: the checkpoint belongs to another query.
    """
    other = f"{checkpoint} is the checkpoint of another query"
    mine = {"job": query.name, **query.identity}
    files = file_system_at(spark, checkpoint)
    try:
        known = json.loads(files.read(IDENTITY_FILE))
    except FileNotFoundError:
        if "metadata" in files.names(""):
            raise OptionError(f"{other}, which is no job of logbus: give this one a directory of its own") from None
        files.create(IDENTITY_FILE, json.dumps(mine, indent=1).encode())
        return
    except ValueError as e:
        raise PipelineError(f"{checkpoint}/{IDENTITY_FILE} is damaged: {e}") from e
    if not isinstance(known, dict):
        raise PipelineError(f"{checkpoint}/{IDENTITY_FILE} is damaged: it is no object")
    if known != mine and not files.names("offsets"):
        # Nothing was read yet: a mistyped setting may be corrected.
        files.delete(IDENTITY_FILE)
        files.create(IDENTITY_FILE, json.dumps(mine, indent=1).encode())
        return
    for name in {**known, **mine}:
        if known.get(name) != mine.get(name):
            raise OptionError(
                f"{other}: its {name} is {known.get(name)!r}, and now it is {mine.get(name)!r}; give this one a "
                "directory of its own"
            )


def query_id(spark: SparkSession, checkpoint: str) -> str:
    """
    Spark's id of a query, which is the same after restarts; Spark writes it to a new checkpoint first.

    :raise PipelineError: the checkpoint is damaged.
    """
    try:
        return str(json.loads(file_system_at(spark, checkpoint).read("metadata"))["id"])
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise PipelineError(f"{checkpoint}/metadata does not say which query it is of: {e!r}") from e


def _count(report: QueryReport, progress: Sequence[Mapping[str, Any]], watch: JobControl) -> None:
    """Add the progress of new batches to the report. Batches without rows count if they advance the watermark."""
    for each in progress:
        number = each["batchId"]
        if number <= report.last_batch or (not each["numInputRows"] and not each.get("stateOperators")):
            continue
        report.last_batch = number
        report.batches += 1
        observed = (each.get("observedMetrics") or {}).values()
        rows = each["numInputRows"] - sum(of["punctuations"] for of in observed)
        report.rows_in += rows
        unreadable = sum(of["unreadable"] for of in observed)
        dropped = sum(of["numRowsDroppedByWatermark"] for of in each.get("stateOperators", ()))
        late = late_count(sum(of["late"] for of in observed), dropped)
        report.unreadable += unreadable
        report.readable += sum(of["readable"] for of in observed)
        if report.counted is not None:
            report.counted += report.events_out.pop(number, 0)
        report.late_events.add(
            rows - unreadable, late, max((of["behind"] for of in observed), default=0) if late else 0
        )
        report.late, report.late_share = report.late_events.late, round(report.late_events.share, 6)
        report.left = sum(offsets_left(of.get("endOffset"), of.get("latestOffset")) for of in each.get("sources", ()))
        message = f"batch {number}: {rows} rows read"
        rate = each.get("processedRowsPerSecond")
        message += f", {rate:,.1f} rows/s" if rate else ""
        message += f", {unreadable} unreadable" if unreadable else ""
        message += f", {late} late" if late else ""
        message += f"; {report.left} offsets are left" if report.left else ""
        watch.tell_batch(message, rows, report.left)


def offsets_left(end: Any, latest: Any) -> int:
    """
    The number of offsets of a source that are not read yet.

    :param end, latest: the end of a batch and of the topics, in the form of
        :mod:`logbus.pipeline.source.stream_offset`, decoded or as JSON text; None: unknown.
    """
    read, there = (json.loads(each) if isinstance(each, str) else each for each in (end, latest))
    if not read or not there:
        return 0
    return sum(
        max(0, offset - read.get(topic, {}).get(partition, offset))
        for topic, partitions in there.items()
        if not topic.startswith(":")
        for partition, offset in partitions.items()
    )
