"""Runs a streaming query with a checkpoint, and writes each of its batches once to the outputs."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field, frozen

from logbus.errors import LogbusError
from logbus.pipeline.error_text import short_message
from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.durations import readable_duration
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
from logbus.pipeline.jobs.outputs import Output
from logbus.pipeline.jobs.progress import offset_lines, plan_line, report_progress
from logbus.pipeline.jobs.record_counts import (
    CountsDiffer,
    last_commit,
    open_events,
    parsed_problem,
    windows_problem,
)
from logbus.pipeline.lake.file_system import FileSystem, file_system_at
from logbus.pipeline.source.stream_offset import StreamOffset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

IDENTITY_FILE = "logbus.json"
"""A file in a checkpoint that describes the query, so that no other query continues from it."""

LATE_FILE = "logbus-late.json"
"""A file in a checkpoint: the last run failed, since too many events were late."""

_LOOK = 0.5
"""Seconds between checks of a running query."""

_STARTS = 5
_IMPATIENT = "failed to connect back"
"""Part of Spark's error if a Python process did not start in ten seconds, as on a busy machine."""

_LOCAL = re.compile(r"(?:file:(?://)?)?([^:]+)")
"""A path, or a URL of one."""

_ASKED_TO_STOP = "this batch was not begun, since the job is asked to stop"


@frozen
class QuerySettings:
    """
    How a query runs.

    :ivar checkpoint: a directory or URL for this query only, from which it continues after a restart.
    :ivar every: seconds between batches; None: process the available records, and end.
    :ivar max_late_share: the share of events that may be late; with more the query fails.
    :raise OptionError: a setting is wrong.
    """

    checkpoint: str
    every: float | None = None
    max_late_share: float = DEFAULT_SHARE

    def __attrs_post_init__(self) -> None:
        check_share(self.max_late_share)
        if not self.checkpoint:
            raise OptionError("a query needs a checkpoint: a directory of its own, where it remembers how far it is")
        if self.every is not None and not 0 <= self.every < float("inf"):
            raise OptionError(f"every is {self.every}; it takes seconds")

    @property
    def is_new(self) -> bool:
        """Whether it is certain, without Spark, that nothing was read yet: the checkpoint is local, and empty."""
        if os.environ.keys() & {"HADOOP_CONF_DIR", "PYSPARK_GATEWAY_PORT"}:
            return False  # Paths may be of another file system.
        local = _LOCAL.fullmatch(self.checkpoint)
        return local is not None and not Path(local[1], "offsets").exists()


def _as_it_is(batch: DataFrame) -> DataFrame:
    return batch


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
    :ivar late: gets the watermark of each batch, to count late events; None: events cannot be late.
    :ivar events: the column of ``rows`` with the number of events in a row, and the first aggregate of the query's
        state. It is not written. "": there is none, and events are not counted in the result.
    """

    name: str
    rows: DataFrame
    identity: Mapping[str, str]
    columns: Sequence[str]
    each: Callable[[DataFrame], DataFrame] = _as_it_is
    streams: Sequence[EventStream] = ()
    late: LateWatermark | None = None
    events: str = ""

    def too_many_late(self, found: LateEvents, most: float, report: Mapping[str, Any], *, earlier: bool) -> TooManyLate:
        """The error of a run with too many late events; ``earlier``: of the previous run."""
        watermark = max((each.delay for each in self.streams), default=0)
        is_limited = any(each.batch_offsets for each in self.streams)
        return TooManyLate(late_events_message(found, most, watermark, is_limited, earlier), report)


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
        output.open(spark, query.columns)
    began = time.monotonic()
    report = QueryReport()
    if query.events:
        report.counted, report.open_before = 0, open_events(spark, files)
    failures: list[str] = []

    def too_late(is_over: bool = False) -> bool:
        return report.late_events.are_too_many(running.max_late_share, report.left, is_over)

    def take(batch: DataFrame, number: int) -> None:
        if watch.is_stopping or too_late():
            raise PipelineError(_ASKED_TO_STOP)
        kept = query.each(batch).persist()
        try:
            rows, report.events_out[number] = _size(kept, query.events)
            if rows:
                of = query_id(spark, running.checkpoint)
                for output in outputs:
                    output.write(kept.drop(query.events), of, number)
            report.rows_out += rows
            if query.late is not None:
                query.late.after(files, number)
        except Exception as e:
            failures.append(f"batch {number}: {short_message(str(e) or repr(e))}")  # Spark's error would hide it.
            raise
        finally:
            kept.unpersist()

    writer = query.rows.writeStream.queryName(f"{query.name}: {running.checkpoint}").foreachBatch(take)
    writer = writer.option("checkpointLocation", running.checkpoint)
    if running.every is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{round(running.every * 1000)} milliseconds")
    for line in _plan(files, query):
        watch.tell(line)
    prepare = (lambda: None) if query.late is None else partial(query.late.look, files)
    with report_progress(spark, watch):
        run_writer(writer, report, watch, failures, prepare=prepare, ends_early=too_late)
    report.stopped = watch.is_stopping
    report.seconds = round(time.monotonic() - began, 3)
    if too_late(is_over=running.every is None and not report.stopped):
        files.create(LATE_FILE, json.dumps(asdict(report.late_events)).encode())
        raise query.too_many_late(report.late_events, running.max_late_share, report.as_json(), earlier=False)
    if problem := _count_problem(spark, files, report, watch):
        raise CountsDiffer(problem, report.as_json())
    return report


def _size(rows: DataFrame, events: str) -> tuple[int, int]:
    """The number of rows, and the sum of a column of them."""
    from pyspark.sql import functions as f

    if not events:
        return rows.count(), 0
    found = rows.agg(f.count(f.lit(1)).alias("rows"), f.coalesce(f.sum(events), f.lit(0)).alias("events")).first()
    assert found is not None, "an aggregate without groups has a row"
    return found["rows"], found["events"]


def _count_problem(spark: SparkSession, files: FileSystem, report: QueryReport, watch: JobControl) -> str:
    """The error message if the counts of a run do not add up."""
    problem = parsed_problem(report.rows_in, report.readable, report.unreadable)
    if problem or report.counted is None or report.open_before is None:
        return problem
    if report.batches and report.last_batch != last_commit(files):
        watch.tell("the run ended within a batch: whether its counts add up is not known")
        return ""
    report.still_open = open_events(spark, files) if report.batches else report.open_before
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


def _plan(files: FileSystem, query: QueryDefinition) -> list[str]:
    """
    Messages about what is to be read.

    :raise PipelineError: it cannot be read.
    """
    planned = [int(name) for name in files.names("offsets") if name.isdigit()]
    known = offset_lines(files.read(f"offsets/{max(planned)}"), len(query.streams)) if planned else []
    lines = []
    for stream, begun in zip_longest(query.streams, known):
        then = f"behind batch {max(planned)}" if begun else "from where a new query begins"
        try:
            starts, ends = stream.offsets(StreamOffset.read(begun).offsets if begun else None)
        except LogbusError as e:
            raise PipelineError(str(e)) from e
        lines.append(plan_line(stream.topics, starts, ends, stream.batch_offsets, then))
        if query.late is not None and stream.batch_offsets:
            lines.append(
                f"{stream.topics}: events are late that are older than those of earlier batches by more than the "
                f"watermark, {readable_duration(stream.delay)}"
            )
    return lines


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
        report.rows_in += each["numInputRows"]
        observed = (each.get("observedMetrics") or {}).values()
        unreadable = sum(of["unreadable"] for of in observed)
        dropped = sum(of["numRowsDroppedByWatermark"] for of in each.get("stateOperators", ()))
        late = late_count(sum(of["late"] for of in observed), dropped)
        report.unreadable += unreadable
        report.readable += sum(of["readable"] for of in observed)
        if report.counted is not None:
            report.counted += report.events_out.pop(number, 0)
        report.late_events.add(
            each["numInputRows"] - unreadable, late, max((of["behind"] for of in observed), default=0) if late else 0
        )
        report.late, report.late_share = report.late_events.late, round(report.late_events.share, 6)
        report.left = sum(offsets_left(of.get("endOffset"), of.get("latestOffset")) for of in each.get("sources", ()))
        message = f"batch {number}: {each['numInputRows']} rows read"
        message += f", {unreadable} unreadable" if unreadable else ""
        message += f", {late} late" if late else ""
        message += f"; {report.left} offsets are left" if report.left else ""
        watch.tell(message)


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
