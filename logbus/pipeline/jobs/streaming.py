"""One streaming query: rows in, outputs that take each batch once, and a checkpoint that remembers how far it is."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field, frozen

from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.outputs import Output
from logbus.pipeline.jobs.watching import Watch
from logbus.pipeline.lake.files import files_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOOK = 1
"""Seconds between looks at a query that runs."""


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
        if self.every is not None and not self.every >= 0:
            raise OptionError(f"every is {self.every}; it takes seconds")


@define
class StreamReport:
    """
    What a run of a query has done.

    :ivar rows_in: rows read, also those that could not be used;  ``rows_out``: rows written.
    :ivar unreadable: rows whose value was not what the payload says.
    :ivar late: rows that came after their window was closed, or too late to be joined.
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
        """All of it."""
        return asdict(self)


def run_query(
    spark: SparkSession, name: str, rows: DataFrame, outputs: Sequence[Output], running: Running, watch: Watch
) -> StreamReport:
    """
    Run a query until there is no more to read, or it is asked to stop.

    :param rows: a stream, whose batches are complete: rows are added and never changed.
    :raise PipelineError: the query failed; nothing is lost, and the next run goes on.
    """
    if not outputs:
        raise OptionError("a query needs an output: a topic or a table")
    for output in outputs:
        output.open(spark)
    began = time.monotonic()
    report = StreamReport()

    def take(batch: DataFrame, number: int) -> None:
        kept = batch.persist()
        try:
            query = query_id(spark, running.checkpoint)
            for output in outputs:
                output.write(kept, query, number)
            report.rows_out += kept.count()
        finally:
            kept.unpersist()

    writer = rows.writeStream.queryName(name).foreachBatch(take).option("checkpointLocation", running.checkpoint)
    if running.every is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{running.every} seconds")
    query = writer.start()
    try:
        while not query.awaitTermination(_LOOK):
            _count(report, query.recentProgress, watch)
            if watch.is_stopping:
                break
    finally:
        query.stop()
    _count(report, query.recentProgress, watch)
    if (failure := query.exception()) is not None:
        raise PipelineError(str(failure))
    report.stopped = watch.is_stopping
    report.seconds = round(time.monotonic() - began, 3)
    return report


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
    """Add what batches have done since the last look; an idle query tells of its last batch again."""
    for each in progress:
        number = each["batchId"]
        if number <= report.last_batch or (not each["numInputRows"] and not each.get("stateOperators")):
            continue
        report.last_batch = number
        report.batches += 1
        report.rows_in += each["numInputRows"]
        report.late += sum(of["numRowsDroppedByWatermark"] for of in each.get("stateOperators", ()))
        seen = (each.get("observedMetrics") or {}).get("rows")
        if seen is not None:
            report.unreadable += seen["unreadable"]
        watch.tell(f"batch {number}: {each['numInputRows']} rows read")
