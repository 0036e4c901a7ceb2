"""
Starts a query on Spark, and waits for its end.

It is started again if a Python process did not start in time, and is ended between two batches upon a request to stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from logbus.pipeline.error_text import short_message
from logbus.pipeline.errors import PipelineError
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.query_report import QueryReport, count_batches
from logbus.pipeline.jobs.slow_workers import IMPATIENT, STARTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ASKED_TO_STOP = "this batch was not begun, since the job is asked to stop"
"""The error of a batch that ends its query without a failure."""

_STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
_ON_DISK = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_LOOK = 0.5
"""Seconds between checks of a running query."""


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

    for left in reversed(range(STARTS)):
        try:
            prepare()
            started = writer.start()
            try:
                while not started.awaitTermination(_LOOK):  # type: ignore[arg-type]
                    count_batches(report, started.recentProgress, watch)
                    if (watch.is_stopping or ends_early()) and not started.status["isTriggerActive"]:
                        break
            finally:
                started.stop()
                count_batches(report, started.recentProgress, watch)
            return
        except PySparkException as e:
            if ASKED_TO_STOP in str(e):
                return
            if watch.is_stopping:
                # A supervisor may stop Spark's processes together with the job.
                watch.tell(f"the batch under way was given up, and is left to the next run: {_problem(e, failures)}")
                return
            if IMPATIENT not in str(e) or failures or not left:
                raise PipelineError(_problem(e, failures)) from e
            watch.tell("a Python process did not start in time; starting it again")


def _problem(error: Exception, failures: Sequence[str]) -> str:
    return failures[-1] if failures else short_message(str(error))


@contextmanager
def state_on_disk(spark: SparkSession) -> Iterator[None]:
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
