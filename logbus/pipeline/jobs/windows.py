"""
Count and aggregate a stream by windows of time: tumbling, sliding, or sessions.

Rows go into windows by the event's time. A window is written once, when the watermark has passed its end: the latest
time that was seen, less what events may be late. What comes later still is counted as late and left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from logbus.pipeline.errors import OptionError
from logbus.pipeline.jobs.events import EVENT_TIME, Stream
from logbus.pipeline.jobs.outputs import Output
from logbus.pipeline.jobs.streaming import Running, StreamReport, run_query
from logbus.pipeline.jobs.watching import Watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START, END = "window_start", "window_end"


@frozen
class Tumbling:
    """Windows of ``size``, such as ``1 hour``, one after the other."""

    size: str


@frozen
class Sliding:
    """Windows of ``size`` that begin every ``slide``: an event is in several."""

    size: str
    slide: str


@frozen
class Session:
    """Windows that end when for ``gap`` there was no event of the same group."""

    gap: str


Window = Tumbling | Sliding | Session


@frozen(kw_only=True)
class WindowsOptions:
    """
    What to count, and where to.

    :ivar stream: the events.
    :ivar by: expressions to group by beside the window, by the names of their columns: ``{"page": "page"}``.
    :ivar aggregates: what to compute, by names of columns: ``{"views": "count(*)", "paid": "sum(price)"}``.
    :ivar outputs: where the windows go.
    :raise OptionError: there is nothing to compute, or a name is taken.
    """

    stream: Stream
    window: Window
    by: Mapping[str, str] = field(factory=dict)
    aggregates: Mapping[str, str] = field(factory=lambda: {"count": "count(*)"})
    outputs: Sequence[Output]
    running: Running

    def __attrs_post_init__(self) -> None:
        if not self.aggregates:
            raise OptionError("there is nothing to compute: say at least one aggregate, such as count(*)")
        if isinstance(self.window, Session) and not self.by:
            raise OptionError("sessions are of something: say what to group by, such as the user")
        names = [START, END, *self.by, *self.aggregates]
        if twice := sorted({each for each in names if names.count(each) > 1}):
            raise OptionError(f"the column {twice[0]!r} is there twice; {START} and {END} are the window's own")


def windowed(spark: SparkSession, options: WindowsOptions) -> DataFrame:
    """
    The windows as a stream.

    :raise OptionError: an expression or a duration is wrong.
    """
    from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
    from pyspark.sql import functions as f

    events = options.stream.events(spark)
    try:
        match options.window:
            case Tumbling(size):
                window = f.window(EVENT_TIME, size)
            case Sliding(size, slide):
                window = f.window(EVENT_TIME, size, slide)
            case Session(gap):
                window = f.session_window(EVENT_TIME, gap)
        groups = [window.alias("_window"), *(f.expr(text).alias(name) for name, text in options.by.items())]
        computed = [f.expr(text).alias(name) for name, text in options.aggregates.items()]
        counted = events.groupBy(*groups).agg(*computed)
        columns: list[Any] = [f.col("_window.start").alias(START), f.col("_window.end").alias(END)]
        return counted.select(*columns, *options.by, *options.aggregates)
    except (AnalysisException, IllegalArgumentException, ParseException) as e:
        raise OptionError(f"the windows cannot be computed: {str(e).splitlines()[0]}") from e


def run(spark: SparkSession, options: WindowsOptions, watch: Watch | None = None) -> StreamReport:
    """
    Write the windows that are closed.

    :raise PipelineError: the query failed; the next run goes on.
    """
    return run_query(spark, "windows", windowed(spark, options), options.outputs, options.running, watch or Watch())
