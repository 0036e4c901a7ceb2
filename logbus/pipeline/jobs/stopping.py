"""Ends what Spark is at when a job that cannot stop half-way is asked to."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from logbus.pipeline.errors import PipelineError
from logbus.pipeline.jobs.progress import TELL, progress_told
from logbus.pipeline.jobs.watching import Watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK = 0.2


class Stopped(PipelineError):
    """A job was asked to stop before it knew anything."""


@contextmanager
def stoppable(spark: SparkSession, watch: Watch, every: float = TELL) -> Iterator[None]:
    """
    While it lasts, a request to stop ends what this thread has Spark do, and it is told how far that is.

    :param every: seconds between two times.
    :raise Stopped: it was asked to stop.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    tag = f"logbus-{uuid.uuid4().hex}"
    context = spark.sparkContext
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK):
            if watch.is_stopping:
                # Again and again: a job may begin just behind the first time. The tag is one of the context's: a
                # session finds its own only in the thread that gave them.
                context.cancelJobsWithTag(tag)

    context.addJobTag(tag)
    looking = threading.Thread(target=look, name="stopping", daemon=True)
    looking.start()
    try:
        with progress_told(spark, watch, every):
            yield
    except (PySparkException, Py4JError):
        if watch.is_stopping:
            raise Stopped("stopped before it was done: there is nothing to report") from None
        raise
    finally:
        over.set()
        looking.join()
        context.removeJobTag(tag)
    if watch.is_stopping:
        raise Stopped("stopped before it was done: there is nothing to report")
