"""
The windows job: counts and aggregates a stream by tumbling, sliding or session windows.

Events are assigned to windows by event time. A window is written once, when the watermark (the latest event time less
the allowed delay) has passed its end. Later events are counted as late and left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from attrs import field, frozen

from logbus.pipeline.error_text import short_message
from logbus.pipeline.errors import OptionError
from logbus.pipeline.jobs.durations import duration_micros, readable_duration, spark_duration
from logbus.pipeline.jobs.event_stream import EVENT_TIME, EventStream, expression
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.late_watermark import LateWatermark
from logbus.pipeline.jobs.open_state import OpenState, open_sessions, open_windows
from logbus.pipeline.jobs.outputs import Output, column
from logbus.pipeline.jobs.query_checkpoint import RESULT, check_before_spark
from logbus.pipeline.jobs.sql_check import Columns, check_aggregates, check_expressions, check_single, known_functions
from logbus.pipeline.jobs.streaming_query import QueryDefinition, QueryReport, QuerySettings, run_query
from logbus.pipeline.lake.file_system import FileSystem

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NAME = "windows"
"""The name of the job, which is in checkpoints."""

START, END = "window_start", "window_end"
_WINDOW = "_the_window"
_EVENTS, _LATEST = "_events", "_latest"
"""
Hidden columns of a window: the number of its events, by which the counts of a run are checked, and the time of the
latest in microseconds. Sessions have neither.
"""
MAX_WINDOWS = 1000
"""The most windows that one event may be in: each is a row."""


@frozen
class TumblingWindow:
    """Windows of ``size``, such as ``1 hour``, one after the other."""

    size: str

    def __attrs_post_init__(self) -> None:
        duration_micros("the size of a window", self.size)

    def column(self) -> Column:
        """As Spark has it."""
        from pyspark.sql import functions as f

        return f.window(EVENT_TIME, spark_duration(duration_micros("", self.size)))

    def first_end(self, time: Column) -> Column:
        """The end of the window of an event; both in microseconds since 1970."""
        return _first_end(time, duration_micros("", self.size), duration_micros("", self.size))

    def last_end(self, time: int) -> int:
        """The end of the last window of an event; both in microseconds since 1970."""
        size = duration_micros("", self.size)
        return time // size * size + size

    def __str__(self) -> str:
        return f"of {readable_duration(duration_micros('', self.size))}"


@frozen
class SlidingWindow:
    """Windows of ``size`` that begin every ``slide``: an event is in several."""

    size: str
    slide: str

    def __attrs_post_init__(self) -> None:
        size, slide = (
            duration_micros("the size of a window", self.size),
            duration_micros("the slide of windows", self.slide),
        )
        if slide > size:
            raise OptionError(
                f"windows of {self.size} every {self.slide} leave out what is between: the slide is at most the size"
            )
        if size > MAX_WINDOWS * slide:
            raise OptionError(
                f"with windows of {self.size} every {self.slide} each event is in {size // slide} of them; at most "
                f"{MAX_WINDOWS} are"
            )

    def column(self) -> Column:
        """As Spark has it."""
        from pyspark.sql import functions as f

        return f.window(
            EVENT_TIME, spark_duration(duration_micros("", self.size)), spark_duration(duration_micros("", self.slide))
        )

    def first_end(self, time: Column) -> Column:
        """The end of the first window of an event; both in microseconds since 1970."""
        return _first_end(time, duration_micros("", self.size), duration_micros("", self.slide))

    def last_end(self, time: int) -> int:
        """The end of the last window of an event; both in microseconds since 1970."""
        slide = duration_micros("", self.slide)
        return time // slide * slide + duration_micros("", self.size)

    def __str__(self) -> str:
        size, slide = (readable_duration(duration_micros("", text)) for text in (self.size, self.slide))
        return f"of {size} every {slide}"


@frozen
class SessionWindow:
    """Windows that end after ``gap`` without an event of the same group."""

    gap: str

    def __attrs_post_init__(self) -> None:
        duration_micros("the gap of sessions", self.gap)

    def column(self) -> Column:
        """As Spark has it."""
        from pyspark.sql import functions as f

        return f.session_window(EVENT_TIME, spark_duration(duration_micros("", self.gap)))

    def first_end(self, time: Column) -> Column:
        """The end of a session of one event; both in microseconds since 1970."""
        return time + duration_micros("", self.gap)

    def last_end(self, time: int) -> int:
        """The end of a session whose last event has this time; both in microseconds since 1970."""
        return time + duration_micros("", self.gap)

    def __str__(self) -> str:
        return f"sessions with gaps of {readable_duration(duration_micros('', self.gap))}"


Window = TumblingWindow | SlidingWindow | SessionWindow


def _first_end(time: Column, size: int, slide: int) -> Column:
    from pyspark.sql import functions as f

    # Windows end at multiples of the slide, moved by the size.
    return time + slide - f.pmod(time - size, f.lit(slide))


@frozen(kw_only=True)
class WindowsOptions:
    """
    The options of windows: the computation and the outputs.

    :ivar stream: the events.
    :ivar by: expressions to group by besides the window, by column name: ``{"page": "page"}``.
    :ivar aggregates: expressions to compute, by column name: ``{"views": "count(*)", "paid": "sum(price)"}``.
    :ivar outputs: where the windows are written.
    :raise OptionError: there is nothing to compute, or two columns have the same name.
    """

    stream: EventStream
    window: Window
    by: Mapping[str, str] = field(factory=dict)
    aggregates: Mapping[str, str] = field(factory=lambda: {"count": "count(*)"})
    outputs: Sequence[Output]
    running: QuerySettings

    def __attrs_post_init__(self) -> None:
        if not self.aggregates:
            raise OptionError("there is nothing to compute: say at least one aggregate, such as count(*)")
        if isinstance(self.window, SessionWindow) and not self.by:
            raise OptionError("sessions are of something: say what to group by, such as the user")
        names = [each.lower() for each in self.columns]
        if own := {_EVENTS, _LATEST}.intersection(names):
            raise OptionError(f"the column {min(own)!r} is of this job's own: choose another name")
        if twice := [each for each in self.columns if names.count(each.lower()) > 1]:
            raise OptionError(
                f"the column {twice[-1]!r} is there twice; {START} and {END} are the window's own, and names differ "
                "in more than case"
            )
        for output in self.outputs:
            output.check_columns(self.columns)

    def check(self, tell: Callable[[str], None]) -> None:
        """
        Check expressions, topics and offsets without Spark; see :func:`.check_topics`.

        :raise OptionError: an expression is certainly wrong, or the checkpoint belongs to another query.
        :raise PipelineError: the checkpoint is damaged.
        """
        columns, functions = Columns(self.stream.columns), known_functions()
        check_expressions("the group", self.by, columns, functions)
        check_single("the group", self.by)
        check_expressions("the aggregate", self.aggregates, columns, functions)
        check_aggregates(self.aggregates, self.by.values(), columns)
        self.running.check()
        check_before_spark(NAME, self.identity, self.running.checkpoint)
        self.stream.check(tell, is_new=self.running.is_new)
        for output in self.outputs:
            output.check()

    @property
    def columns(self) -> list[str]:
        """The columns of the result."""
        return [START, END, *self.by, *self.aggregates]

    @property
    def identity(self) -> dict[str, str]:
        """The settings that Spark's state of open windows depends on."""
        return {
            "topics": self.stream.topics,
            "time": self.stream.time,
            "windows": str(self.window),
            "groups": json.dumps(dict(self.by)),
            "aggregates": json.dumps(dict(self.aggregates)),
        }


def window_rows(
    spark: SparkSession, options: WindowsOptions, late: LateWatermark | None = None, *, held: bool = False
) -> DataFrame:
    """
    The windows as a streaming DataFrame.

    :param late: has the watermark by which late events are counted.
    :param held: hold the watermark where it is.
    :raise OptionError: an expression is wrong.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    events = options.stream.events(spark, late=late, needed_until=options.window.first_end, held=held)
    try:
        groups = [expression(events, text, name) for name, text in options.by.items()]
        computed = [f.expr(text).alias(name) for name, text in options.aggregates.items()]
        own = {_EVENTS: f.count(f.lit(1)), _LATEST: f.max(f.unix_micros(EVENT_TIME))}
        hidden = hidden_columns(options)
        windows = events.groupBy(options.window.column().alias(_WINDOW), *groups)
        counted = windows.agg(*(own[name].alias(name) for name in hidden), *computed)
        ends = [f.col(f"{_WINDOW}.start").alias(START), f.col(f"{_WINDOW}.end").alias(END)]
        names = [*hidden, *options.by, *options.aggregates]
        return counted.select(*ends, *map(column, names))
    except PySparkException as e:
        raise OptionError(f"the windows cannot be computed: {short_message(str(e))}") from e


def hidden_columns(options: WindowsOptions) -> tuple[str, ...]:
    """The hidden columns of the rows, which are the first aggregates of Spark's state of open windows."""
    return () if isinstance(options.window, SessionWindow) else (_EVENTS, _LATEST)


def open_state(options: WindowsOptions, spark: SparkSession, checkpoint: FileSystem) -> OpenState:
    """
    The open windows of a checkpoint.

    :raise PipelineError: the state cannot be read.
    """
    if isinstance(options.window, SessionWindow):
        return open_sessions(spark, checkpoint, duration_micros("", options.window.gap))
    return open_windows(spark, checkpoint)


def run(spark: SparkSession, options: WindowsOptions, watch: JobControl | None = None) -> QueryReport:
    """
    Run the query, and write closed windows to the outputs.

    :raise OptionError: an option is wrong.
    :raise TooManyLate: more events were late than allowed.
    :raise CountsDiffer: the counts of the run do not add up.
    :raise PipelineError: the query failed; the next run goes on.
    """
    with LateWatermark.made() as late:
        rows = window_rows(spark, options, late)
        # Open windows could not be read with other types.
        identity = {**options.identity, RESULT: rows.schema.simpleString()}
        query = QueryDefinition(
            name=NAME,
            rows=rows,
            identity=identity,
            columns=options.columns,
            streams=[options.stream],
            late=late,
            held=partial(window_rows, spark, options, late, held=True),
            open_state=partial(open_state, options),
            closed_at=options.window.last_end,
            hidden=hidden_columns(options),
            # Each event is in exactly one tumbling window.
            events=_EVENTS if isinstance(options.window, TumblingWindow) else "",
        )
        return run_query(spark, query, options.outputs, options.running, watch or JobControl())
