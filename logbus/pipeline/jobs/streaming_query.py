"""Runs a streaming query with a checkpoint, and writes each of its batches once to the outputs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from attrs import define, field

from logbus.pipeline.error_text import short_message
from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.backlog import BACKLOG_FILE, StreamPlan, empty_side, plans_of
from logbus.pipeline.jobs.full_disk import is_full, places_of, with_free_space
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.outputs import Output
from logbus.pipeline.jobs.progress import report_progress
from logbus.pipeline.jobs.query_checkpoint import (
    check_identity,
    check_last_run,
    check_not_set_back,
    note_late,
    note_written,
    query_id,
)
from logbus.pipeline.jobs.query_definition import QueryDefinition, QuerySettings, itself
from logbus.pipeline.jobs.query_report import QueryReport
from logbus.pipeline.jobs.query_starts import ASKED_TO_STOP, run_writer, state_on_disk
from logbus.pipeline.jobs.record_counts import CountsDiffer, count_problem
from logbus.pipeline.jobs.slow_workers import IMPATIENT
from logbus.pipeline.jobs.state_damage import state_damage
from logbus.pipeline.lake.file_system import FileSystem, file_system_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["QueryDefinition", "QueryReport", "QuerySettings", "run_query"]


def run_query(
    spark: SparkSession, query: QueryDefinition, outputs: Sequence[Output], running: QuerySettings, watch: JobControl
) -> QueryReport:
    """
    Run a query until all is read, or it is asked to stop. It stops between two batches.

    :raise OptionError: an output lacks a column, or the checkpoint belongs to another query.
    :raise TooManyLate: more events were late than allowed, in this run or the previous one.
    :raise CountsDiffer: the counts of the run do not add up.
    :raise PipelineError: the query failed; nothing is lost, and the next run continues. Or the checkpoint is damaged,
        or older than an output.
    """
    if not outputs:
        raise OptionError("a query needs an output: a topic or a table")
    check_identity(spark, query, running.checkpoint)
    files = file_system_at(spark, running.checkpoint)
    check_last_run(files, query, running)
    for output in outputs:
        output.open(spark)
    check_not_set_back(files, running.checkpoint, outputs)
    began = time.monotonic()
    run = _Run(spark=spark, query=query, outputs=outputs, running=running, watch=watch, files=files)
    report = run.report
    try:
        if query.events and query.open_state is not None:
            report.counted, report.open_before = 0, query.open_state(spark, files).events
        with report_progress(spark, watch):
            run.all()
    except PipelineError as e:
        if is_full(str(e)):
            raise PipelineError(with_free_space(str(e), places_of(spark, running.checkpoint))) from e
        if (damaged := state_damage(files, running.checkpoint, str(e))) is not None:
            raise damaged from e
        raise
    report.stopped = watch.is_stopping
    report.seconds = round(time.monotonic() - began, 3)
    if run.is_too_late(is_over=running.every is None and not report.stopped):
        note_late(files, report.late_events)
        raise query.too_many_late(report.late_events, running.max_late_share, report.as_json(), earlier=False)
    if problem := count_problem(spark, files, query, report, watch):
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
        if problem := empty_side(plans):
            self.watch.tell(problem)
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
        self._punctuate(itself)
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
                if closed_at is not itself:
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
        with state_on_disk(self.spark) if self.is_held else nullcontext():
            run_writer(writer, self.report, self.watch, self.failures, prepare=prepare, ends_early=self.is_too_late)

    def _write(self, batch: DataFrame, number: int) -> None:
        """
        Write a batch to all outputs.

        :raise PipelineError: it failed; the message is short. If the query is stopped meanwhile, Spark searches the
            message for a cause, by a regular expression that overflows Java's stack on the text of a Java error.
        """
        if self._is_ending:
            raise PipelineError(ASKED_TO_STOP)
        try:
            self._write_rows(batch, number)
        except Exception as e:
            text = str(e) or repr(e)
            debugged = e if os.environ.get("LOGBUS_DEBUG") else None
            raise PipelineError(IMPATIENT if IMPATIENT in text else short_message(text)) from debugged

    def _write_rows(self, batch: DataFrame, number: int) -> None:
        query = self.query
        kept = query.each(batch).persist()
        try:
            rows, events = _size(kept, query.events)
            if query.events:
                self.report.events_out[number] = events
            if rows:
                of = query_id(self.files, self.running.checkpoint)
                for output in self.outputs:
                    output.write(kept.drop(*query.hidden), of, number)
                note_written(self.files, number, self.outputs)
            self.report.rows_out += rows
            if query.late is not None:
                query.late.after(self.files, number)
        except Exception as e:
            self.failures.append(f"batch {number}: {short_message(str(e) or repr(e))}")  # Spark's error would hide it.
            raise
        finally:
            kept.unpersist()


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
