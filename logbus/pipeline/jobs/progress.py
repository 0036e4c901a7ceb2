"""Progress messages of jobs: what is to be read, and how many tasks Spark has done."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from logbus.model import TopicPartition
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.progress_bar import ProgressBar
from logbus.wording import counted

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

TELL = 10.0
"""Seconds between messages."""

_LOOK = 1.0
"""Seconds between looks at the tasks for a bar."""


@contextmanager
def report_progress(spark: SparkSession, watch: JobControl, every: float = TELL) -> Iterator[None]:
    """
    A context in which the number of finished tasks is reported for long stages; on a terminal, by its bar.

    :param every: seconds: stages that take less are not reported.
    """
    context = spark.sparkContext
    over = threading.Event()

    def look_for_bar(bar: ProgressBar) -> None:
        shown = ""
        while not over.wait(_LOOK):
            line = tasks_done(context)[1]
            if line != shown:
                bar.tasks(line)
                shown = line

    def look() -> None:
        before: set[int] = set()
        last = ""
        while not over.wait(every):
            stages, line = tasks_done(context)
            if line and line != last and stages & before:
                watch.tell(line)
                last = line
            before = stages

    target = look if watch.bar is None else partial(look_for_bar, watch.bar)
    looking = threading.Thread(target=target, name="progress", daemon=True)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()


def tasks_done(context: SparkContext) -> tuple[set[int], str]:
    """The active stages of Spark, and a message with the number of their finished tasks; "": there are none."""
    from py4j.protocol import Py4JError

    try:
        tracker = context.statusTracker()
        stages = [found for each in tracker.getActiveStageIds() if (found := tracker.getStageInfo(each)) is not None]
    except (Py4JError, ConnectionError):
        return set(), ""
    if not stages:
        return set(), ""
    done, tasks = sum(each.numCompletedTasks for each in stages), sum(each.numTasks for each in stages)
    return {each.stageId for each in stages}, f"{done} of {tasks} tasks are done"


def plan_line(
    topics: str, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], most: int | None, then: str
) -> str:
    """
    A message about what is to be read.

    :param topics: as the options name them.
    :param starts: a partition that is not in it is read from the start, which counts as 0 here.
    :param most: offsets of a batch; None: no limit.
    :param then: the end of the message, such as "from the beginning".
    """
    left = sum(max(0, end - starts.get(each, 0)) for each, end in ends.items())
    batches = "" if most is None or left <= most else f", in {-(-left // most)} batches or more"
    return f"{topics}: {left} offsets of {counted(len(ends), 'partition')} to read{batches}, {then}"


def rates(records: int, size: int, seconds: float) -> str:
    """``2.0 s, 5,000 records/s, 1.2 MB/s``; ``size`` is in bytes."""
    each = 1 / max(seconds, 0.001)  # Clocks may not have moved.
    return f"{seconds:.1f} s, {records * each:,.0f} records/s, {size * each / 1e6:,.1f} MB/s"


def offset_lines(content: bytes, sources: int) -> Sequence[Any]:
    """
    The sources' offsets in a file of Spark's ``OffsetSeqLog``: one a line, after the version and the metadata.

    :param sources: their number.
    :returns: None for a source without offsets, and for all if the file has another format.
    """
    lines = content.decode(errors="replace").splitlines()[2:]
    try:
        found = [None if line == "-" else json.loads(line) for line in lines]
    except ValueError:
        found = []
    return found if len(found) == sources else [None] * sources
