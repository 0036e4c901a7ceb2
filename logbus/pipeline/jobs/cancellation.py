"""Cancels the Spark jobs of this thread when the pipeline job is asked to stop."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from logbus.pipeline.errors import PipelineError
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.progress import TELL, report_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK = 0.2


class JobStopped(PipelineError):
    """A job was stopped before it had a result."""


@contextmanager
def stoppable(spark: SparkSession, watch: JobControl, every: float = TELL) -> Iterator[None]:
    """
    A context in which a request to stop cancels this thread's Spark jobs, and their progress is reported.

    :param every: seconds between progress messages.
    :raise JobStopped: the job was asked to stop.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    tag = f"logbus-{uuid.uuid4().hex}"
    context = spark.sparkContext
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK):
            if watch.is_stopping:
                # Repeated, since a Spark job may start just after the first time. The tag is the context's: a
                # session's tags are visible only in the thread that added them.
                context.cancelJobsWithTag(tag)

    context.addJobTag(tag)
    looking = threading.Thread(target=look, name="stopping", daemon=True)
    looking.start()
    try:
        with report_progress(spark, watch, every):
            yield
    except (PySparkException, Py4JError):
        if watch.is_stopping:
            raise JobStopped("stopped before it was done: there is nothing to report") from None
        raise
    finally:
        over.set()
        looking.join()
        context.removeJobTag(tag)
    if watch.is_stopping:
        raise JobStopped("stopped before it was done: there is nothing to report")
