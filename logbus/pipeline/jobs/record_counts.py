"""
Checks whether the record counts of a query's run add up.

Spark reports how many records a source delivered, and the query counts them itself when it has parsed them. Each must
be readable or unreadable. Tumbling windows have a hidden count of their events, so of these each readable event must be
late, in a window that was written, or in one that is open, which is read from Spark's state store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logbus.pipeline.error_text import short_message
from logbus.pipeline.errors import PipelineError
from logbus.pipeline.lake.file_system import FileSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CAUSES = (
    "Records are lost, or counted twice: Spark does that if it repeats a stage, as after the loss of an executor. "
    "Compare what is written with the topics; if it is wrong, start over with another checkpoint and other outputs"
)


class CountsDiffer(PipelineError):
    """
    The record counts of a run do not add up; its results may be wrong.

    :ivar report: the report of the run, as JSON.
    """

    def __init__(self, problem: str, report: Mapping[str, Any]) -> None:
        super().__init__(problem, report)
        self.problem, self.report = problem, report

    def __str__(self) -> str:
        return self.problem


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


def open_events(spark: SparkSession, checkpoint: FileSystem) -> int:
    """
    The events in open windows, as of the last finished batch: the sum of the first aggregate in Spark's state.

    :raise PipelineError: the state cannot be read.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructField, StructType

    if last_commit(checkpoint) < 0:
        return 0
    try:
        state = spark.read.format("statestore").load(checkpoint.url).select("value")
        # Several aggregates may have the same name there, and Spark takes the last one for each of them: a cast
        # renames fields by position.
        aggregates = state.schema["value"].dataType
        assert isinstance(aggregates, StructType)
        renamed = StructType([StructField(f"_{number}", each.dataType) for number, each in enumerate(aggregates)])
        values = state.select(f.col("value").cast(renamed).alias("value"))
        row = values.agg(f.coalesce(f.sum("value._0"), f.lit(0)).alias("events")).first()
    except PySparkException as e:
        raise PipelineError(f"{checkpoint.url}: the open windows cannot be read: {short_message(str(e))}") from e
    assert row is not None, "an aggregate without groups has a row"
    return int(row["events"])
