"""
Checks whether the record counts of a query's run add up.

Spark reports how many records a source delivered, and the query counts them itself when it has parsed them. Each must
be readable or unreadable. Tumbling windows have a hidden count of their events, so of these each readable event must be
late, in a window that was written, or in one that is open, which is read from Spark's state store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logbus.pipeline.errors import RunFailed
from logbus.pipeline.lake.file_system import FileSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from logbus.pipeline.jobs.job_control import JobControl
    from logbus.pipeline.jobs.query_definition import QueryDefinition
    from logbus.pipeline.jobs.query_report import QueryReport

_CAUSES = (
    "Records are lost, or counted twice: Spark does that if it repeats a stage, as after the loss of an executor. "
    "Compare what is written with the topics; if it is wrong, start over with another checkpoint and other outputs"
)


class CountsDiffer(RunFailed):
    """The record counts of a run do not add up; its results may be wrong."""


def count_problem(
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


def parsed_problem(rows_in: int, readable: int, unreadable: int) -> str:
    """The error message if records were read that were not parsed, or the other way round; "": there are none."""
    if rows_in == readable + unreadable:
        return ""
    return (
        f"the counts do not add up: {rows_in} records were read, and {readable + unreadable} parsed "
        f"({readable} readable, {unreadable} unreadable). {_CAUSES}"
    )


def windows_problem(readable: int, late: int, counted: int, opened: tuple[int, int]) -> str:
    """
    The error message if events are missing in windows, or are in several; "": there are none.

    :param counted: events in windows that were written.
    :param opened: events in open windows before the run, and after it.
    """
    before, after = opened
    if before + readable == late + counted + after:
        return ""
    return (
        f"the counts do not add up: {before} events were in open windows, and {readable} came in; {late} were late, "
        f"{counted} are in the windows written, and {after} in those still open: {before + readable} are not "
        f"{late + counted + after}. {_CAUSES}"
    )


def last_commit(checkpoint: FileSystem) -> int:
    """The number of the last finished batch of a checkpoint; -1: there is none."""
    return max((int(name) for name in checkpoint.names("commits") if name.isdigit()), default=-1)
