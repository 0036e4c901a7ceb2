"""One streaming query: rows in, outputs that take each batch once, and a checkpoint that remembers how far it is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field, frozen

from logbus.pipeline.errors import OptionError, PipelineError, gist
from logbus.pipeline.jobs.outputs import Output
from logbus.pipeline.jobs.watching import Watch
from logbus.pipeline.lake.files import files_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

NOTE = "logbus.json"
"""In a checkpoint: what the query is, so that no other goes on from there."""

_LOOK = 0.5
"""Seconds between looks at a query that runs."""

_STARTS = 5
_IMPATIENT = "failed to connect back"
"""Spark gives a Python process ten seconds to start, however busy the machine is."""

_ASKED_TO_STOP = "this batch was not begun, since the job is asked to stop"


@frozen
class Running:
    """
    How a query runs.

    :ivar checkpoint: a directory or URL, of this query alone: where it goes on after a restart.
    :ivar every: seconds between batches; None: take what there is, and end.
    :raise OptionError: one is wrong.
    """

    checkpoint: str
    every: float | None = None

    def __attrs_post_init__(self) -> None:
        if not self.checkpoint:
            raise OptionError("a query needs a checkpoint: a directory of its own, where it remembers how far it is")
        if self.every is not None and not 0 <= self.every < float("inf"):
            raise OptionError(f"every is {self.every}; it takes seconds")


def _as_it_is(batch: DataFrame) -> DataFrame:
    return batch


@frozen(kw_only=True)
class Query:
    """
    What is computed.

    :ivar name: of the job.
    :ivar rows: a stream, whose batches are complete: rows are added and never changed.
    :ivar identity: what has to stay as it is while a checkpoint lives, by names for people.
    :ivar each: makes of a batch of ``rows`` what is written, anew for each batch.
    :ivar columns: of what is written.
    """

    name: str
    rows: DataFrame
    identity: Mapping[str, str]
    columns: Sequence[str]
    each: Callable[[DataFrame], DataFrame] = _as_it_is


@define
class StreamReport:
    """
    What a run of a query has done.

    :ivar rows_in: rows read, also those that could not be used; ``rows_out``: rows of the result.
    :ivar unreadable: rows whose value was not what the payload says.
    :ivar late: rows that came after their window was closed, or too late to be joined. Spark adds up the rows of a
        window before it looks whether they are late: those of one batch, task, window and group count as one.
    :ivar stopped: whether it was asked to stop.
    """

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    unreadable: int = 0
    late: int = 0
    seconds: float = 0.0
    stopped: bool = False
    last_batch: int = field(default=-1, repr=False)

    def as_json(self) -> dict[str, Any]:
        """All of it, but where counting stands."""
        return asdict(self, filter=lambda each, _: each.name != "last_batch")


def run_query(
    spark: SparkSession, query: Query, outputs: Sequence[Output], running: Running, watch: Watch
) -> StreamReport:
    """
    Run a query until there is no more to read, or it is asked to stop, which it does between two batches.

    :raise OptionError: an output lacks a column, or the checkpoint is of another query.
    :raise PipelineError: the query failed; nothing is lost, and the next run goes on.
    """
    if not outputs:
        raise OptionError("a query needs an output: a topic or a table")
    _note(spark, query, running.checkpoint)
    for output in outputs:
        output.open(spark, query.columns)
    began = time.monotonic()
    report = StreamReport()
    failures: list[str] = []

    def take(batch: DataFrame, number: int) -> None:
        if watch.is_stopping:
            raise PipelineError(_ASKED_TO_STOP)
        kept = query.each(batch).persist()
        try:
            rows = kept.count()
            if rows:
                of = query_id(spark, running.checkpoint)
                for output in outputs:
                    output.write(kept, of, number)
            report.rows_out += rows
        except Exception as e:
            failures.append(f"batch {number}: {gist(str(e) or repr(e))}")  # Spark would bury it.
            raise
        finally:
            kept.unpersist()

    writer = query.rows.writeStream.queryName(f"{query.name}: {running.checkpoint}").foreachBatch(take)
    writer = writer.option("checkpointLocation", running.checkpoint)
    if running.every is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{round(running.every * 1000)} milliseconds")
    run_writer(writer, report, watch, failures)
    report.stopped = watch.is_stopping
    report.seconds = round(time.monotonic() - began, 3)
    return report


def run_writer(writer: DataStreamWriter, report: StreamReport, watch: Watch, failures: Sequence[str]) -> None:
    """
    Start a query, and again where Spark had too little patience, and wait for its end.

    :param failures: what batches have said of themselves.
    :raise PipelineError: the query failed.
    """
    from pyspark.errors import PySparkException

    for left in reversed(range(_STARTS)):
        try:
            started = writer.start()
            try:
                while not started.awaitTermination(_LOOK):  # type: ignore[arg-type]
                    _count(report, started.recentProgress, watch)
                    if watch.is_stopping and not started.status["isTriggerActive"]:
                        break
            finally:
                started.stop()
                _count(report, started.recentProgress, watch)
            return
        except PySparkException as e:
            if _ASKED_TO_STOP in str(e):
                return
            if _IMPATIENT not in str(e) or failures or not left:
                raise PipelineError(failures[-1] if failures else gist(str(e))) from e
            watch.tell("a Python process did not start in time; once more")


def _note(spark: SparkSession, query: Query, checkpoint: str) -> None:
    """
    Write down of which query a checkpoint is, or compare.

    :raise OptionError: it is of another.
    """
    other = f"{checkpoint} is the checkpoint of another query"
    mine = {"job": query.name, **query.identity}
    files = files_at(spark, checkpoint)
    try:
        known = json.loads(files.read(NOTE))
    except FileNotFoundError:
        if "metadata" in files.names(""):
            raise OptionError(f"{other}, which is no job of logbus: give this one a directory of its own") from None
        files.create(NOTE, json.dumps(mine, indent=1).encode())
        return
    except ValueError as e:
        raise PipelineError(f"{checkpoint}/{NOTE} is damaged: {e}") from e
    if not isinstance(known, dict):
        raise PipelineError(f"{checkpoint}/{NOTE} is damaged: it is no object")
    if known != mine and not files.names("offsets"):
        # Nothing was read yet: who has mistyped something can mend it.
        files.delete(NOTE)
        files.create(NOTE, json.dumps(mine, indent=1).encode())
        return
    for name in {**known, **mine}:
        if known.get(name) != mine.get(name):
            raise OptionError(
                f"{other}: its {name} is {known.get(name)!r}, and now it is {mine.get(name)!r}; give this one a "
                "directory of its own"
            )


def query_id(spark: SparkSession, checkpoint: str) -> str:
    """
    What Spark calls a query, over all restarts; its checkpoint begins with it.

    :raise PipelineError: the checkpoint is damaged.
    """
    try:
        return str(json.loads(files_at(spark, checkpoint).read("metadata"))["id"])
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise PipelineError(f"{checkpoint}/metadata does not say which query it is of: {e!r}") from e


def _count(report: StreamReport, progress: Sequence[Mapping[str, Any]], watch: Watch) -> None:
    """Add what batches have done since the last look. Those without rows count if they move windows on."""
    for each in progress:
        number = each["batchId"]
        if number <= report.last_batch or (not each["numInputRows"] and not each.get("stateOperators")):
            continue
        report.last_batch = number
        report.batches += 1
        report.rows_in += each["numInputRows"]
        report.late += sum(of["numRowsDroppedByWatermark"] for of in each.get("stateOperators", ()))
        report.unreadable += sum(of["unreadable"] for of in (each.get("observedMetrics") or {}).values())
        watch.tell(f"batch {number}: {each['numInputRows']} rows read")
