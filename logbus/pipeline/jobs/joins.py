"""
The join job: joins a stream with another stream, or with a compacted topic as a table.

Two streams are joined by key and time: events match if their keys are equal and the right one is within an interval
before or after the left one. Spark derives from the interval and the watermarks how long it keeps either side. In an
as-of join the left event matches only the latest of the right ones before it: an aggregate behind the join chooses it.

The table is the latest value of each key of a topic; a null value deletes the key. It is read again for each batch of
the stream, up to its end at that time: Spark by itself would read it as it was when the query started. Events are
joined batch by batch, so they do not wait for later rows of the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

from attrs import frozen

from logbus.errors import LogbusError
from logbus.pipeline.error_text import short_message
from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.durations import duration_micros, readable_duration, spark_duration
from logbus.pipeline.jobs.event_stream import (
    EVENT_TIME,
    PLACE,
    EventStream,
    columns_of,
    expression,
    topics_of,
    with_time,
)
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.join_estimate import LEAST_PAIRS, range_options, sample_of, sample_ranges, warning
from logbus.pipeline.jobs.join_keys import check_key, type_of, types_of
from logbus.pipeline.jobs.late_watermark import LateWatermark
from logbus.pipeline.jobs.open_state import waiting_events
from logbus.pipeline.jobs.outputs import Output
from logbus.pipeline.jobs.punctuation import OWN
from logbus.pipeline.jobs.query_checkpoint import RESULT, check_before_spark
from logbus.pipeline.jobs.sql_check import Columns, check_expressions, check_single, known_functions
from logbus.pipeline.jobs.streaming_query import QueryDefinition, QueryReport, QuerySettings, run_query
from logbus.pipeline.jobs.table_topic import TableTopic
from logbus.pipeline.jobs.time_buckets import TimeBuckets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "join"
"""The name of the job, which is in checkpoints."""

LEFT, RIGHT = "l", "r"
"""The names of the sides in expressions: ``l.user``, ``r.amount``."""

KINDS = {"inner": "inner", "left": "left_outer", "right": "right_outer", "full": "full_outer"}
"""The kinds of joins, as Spark names them."""

_FOR_TABLES = ("inner", "left")

_BUCKET = f"{OWN}bucket"


@frozen(kw_only=True)
class JoinOptions:
    """
    The options of a join: the streams and the outputs.

    :ivar left: the stream.
    :ivar right: another stream, or a table.
    :ivar on: the keys: expressions of the left and of the right side, such as ``{"user": "id"}``.
    :ivar before, after: for streams: how much earlier or later the right event may be, such as ``1 hour``.
    :ivar as_of: for streams, instead of ``before`` and ``after``: only the latest right event matches that is not
        later than the left one, and at most this much earlier, such as ``1 hour``. "": all within the interval do.
    :ivar kind: ``inner``; ``left`` also has left events without a match, ``right`` right ones, and ``full`` both; for
        streams, once none can come any more. A table takes the first two, and so does ``as_of``.
    :ivar select: the columns, expressions by name, of ``l`` and ``r``: ``{"user": "l.user", "paid": "r.amount"}``.
    :raise OptionError: something is wrong or missing.
    """

    left: EventStream
    right: EventStream | TableTopic
    on: Mapping[str, str]
    select: Mapping[str, str]
    before: str = "0 seconds"
    after: str = "1 hour"
    as_of: str = ""
    kind: str = "inner"
    outputs: Sequence[Output]
    running: QuerySettings

    def __attrs_post_init__(self) -> None:
        if self.kind not in KINDS:
            raise OptionError(f"the kind of a join is {', '.join(KINDS)}, not {self.kind!r}")
        if isinstance(self.right, TableTopic):
            if self.as_of:
                raise OptionError("an as-of join is one of two streams: a table has only the latest row of each key")
            if self.kind not in _FOR_TABLES:
                raise OptionError(
                    f"the kind of a join with a table is {' or '.join(_FOR_TABLES)}, not {self.kind!r}: the table's "
                    "rows without a match would be those of each batch"
                )
        if self.as_of and self.kind not in _FOR_TABLES:
            raise OptionError(f"the kind of an as-of join is {' or '.join(_FOR_TABLES)}, not {self.kind!r}")
        if not self.on:
            raise OptionError("say what must be equal on both sides, such as user=user")
        if not self.select:
            raise OptionError("say which columns the join has, such as user=l.user")
        names = [each.lower() for each in self.select]
        if twice := [each for each in self.select if names.count(each.lower()) > 1]:
            raise OptionError(f"the column {twice[-1]!r} is there twice: names differ in more than case")
        for name in ("before", "after"):
            duration_micros(name, getattr(self, name), least=0)
        if self.as_of:
            duration_micros("as_of", self.as_of)
        for output in self.outputs:
            output.check_columns(list(self.select))

    @property
    def interval(self) -> tuple[int, int]:
        """The time by which the right event may be earlier and later than the left one, in microseconds."""
        if self.as_of:
            return duration_micros("", self.as_of), 0
        return duration_micros("", self.before, least=0), duration_micros("", self.after, least=0)

    def check(self, tell: Callable[[str], None]) -> None:
        """
        Check expressions, topics and offsets without Spark; see :func:`.check_topics`.

        :raise OptionError: an expression or a key is certainly wrong, or the checkpoint belongs to another query.
        :raise PipelineError: the checkpoint is damaged.
        """
        functions = known_functions()
        sides = {LEFT: columns_of(self.left.payload), RIGHT: columns_of(self.right.payload)}
        for what, side, keys in (("left", LEFT, self.on), ("right", RIGHT, self.on.values())):
            check_expressions(f"the {what} key", {key: key for key in keys}, Columns(sides[side]), functions)
            check_single(f"the {what} key", {key: key for key in keys})
        types = [types_of(side.payload) for side in (self.left, self.right)]
        for mine, theirs in self.on.items():
            check_key(mine, type_of(mine, types[0]), theirs, type_of(theirs, types[1]))
        known = [each for each in sides.values() if each is not None]
        either = list(dict.fromkeys(chain(*known))) if len(known) == len(sides) else None
        check_expressions("the column", self.select, Columns(either, sides), functions)
        check_single("the column", self.select)
        self.running.check()
        check_before_spark(NAME, self.identity, self.running.checkpoint)
        self.left.check(tell, is_new=self.running.is_new)
        if isinstance(self.right, TableTopic):
            self.right.check(tell)
        else:
            self.right.check(tell, is_new=self.running.is_new)
        for output in self.outputs:
            output.check()

    def done_at(self, time: int) -> int:
        """The watermark that completes the matches of an event; both in microseconds since 1970."""
        return time + max(self.interval) + 2000  # Spark compares whole milliseconds, some of them less one.

    @property
    def identity(self) -> dict[str, str]:
        """The settings that Spark's state of waiting events depends on; with a table there is none."""
        if isinstance(self.right, TableTopic):
            return {"topics": self.left.topics, "table": topics_of(self.right.source)}
        return {
            "topics": self.left.topics,
            "other topics": self.right.topics,
            "time": self.left.time,
            "other time": self.right.time,
            "kind": f"{self.kind}{', as of' if self.as_of else ''}",
            "keys": json.dumps(dict(self.on)),
            "columns": json.dumps(dict(self.select)),
            "times": f"{readable_duration(self.interval[0])} before, {readable_duration(self.interval[1])} after",
        }


def joined(left: DataFrame, right: DataFrame, options: JoinOptions) -> DataFrame:
    """
    The join of two streams, or of a stream (or one of its batches) and a table.

    :raise OptionError: an expression is wrong, or a key is text on one side only.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    try:
        condition: Any = f.lit(True)
        if options.kind == "full":
            null_of = f"{OWN}null_of"
            # Spark looks up waiting events by equal bytes of keys, and null is equal to null there. Other kinds leave
            # out null keys of a side before.
            left, right = (
                side.select("*", f.when(_has_null(keys), f.lit(name)).otherwise(f.lit("")).alias(null_of))
                for side, name, keys in ((left, LEFT, options.on.keys()), (right, RIGHT, options.on.values()))
            )
            condition = f.col(f"{LEFT}.{null_of}") == f.col(f"{RIGHT}.{null_of}")
        for number, (mine, theirs) in enumerate(options.on.items()):
            key = f"{OWN}key{number}"
            left = left.select("*", expression(left, mine, key))
            right = right.select("*", expression(right, theirs, key))
            check_key(mine, left.schema[key].dataType.jsonValue(), theirs, right.schema[key].dataType.jsonValue())
            condition = condition & (f.col(f"{LEFT}.{key}") == f.col(f"{RIGHT}.{key}"))
        if isinstance(options.right, EventStream):
            before, after = map(spark_duration, options.interval)
            mine, theirs = f"{LEFT}.{EVENT_TIME}", f"{RIGHT}.{EVENT_TIME}"
            condition = condition & f.expr(
                f"{theirs} >= {mine} - INTERVAL {before} AND {theirs} <= {mine} + INTERVAL {after}"
            )
            if options.kind != "full":
                left, right = _in_buckets(left, right, options)
                condition = condition & (f.col(f"{LEFT}.{_BUCKET}") == f.col(f"{RIGHT}.{_BUCKET}"))
        both = left.alias(LEFT).join(right.alias(RIGHT), condition, KINDS[options.kind])
        if options.as_of:
            both = _latest_matches(both)
        return both.select(*(f.expr(text).alias(name) for name, text in options.select.items()))
    except PySparkException as e:
        raise OptionError(f"the join cannot be computed: {short_message(str(e))}") from e


def _in_buckets(left: DataFrame, right: DataFrame, options: JoinOptions) -> tuple[DataFrame, DataFrame]:
    """
    Both sides with the bucket of the time: an event of a side whose events without a match are kept is there once.

    With those of both sides kept, no event can be in two buckets.
    """
    from pyspark.sql import functions as f

    time = f"unix_micros({EVENT_TIME})"
    before, after = options.interval
    buckets = TimeBuckets(after, before) if options.kind == "right" else TimeBuckets(before, after)
    own, reached = f.expr(buckets.own(time)), f.explode(f.expr(buckets.reached(time)))
    mine, theirs = (reached, own) if options.kind == "right" else (own, reached)
    return left.select("*", mine.alias(_BUCKET)), right.select("*", theirs.alias(_BUCKET))


def _has_null(keys: Iterable[str]) -> Any:
    """Whether an expression is null; a row where one is matches nothing."""
    from pyspark.sql import functions as f

    return reduce(lambda one, other: one | other, (f.expr(text).isNull() for text in keys))


def _latest_matches(both: DataFrame) -> DataFrame:
    """Each left event once, with the latest of the right events that it matches; both are structs."""
    from pyspark.sql import functions as f

    sides = [f.struct(f"{side}.*").alias(side) for side in (LEFT, RIGHT)]
    rows = both.select(f.col(f"{LEFT}.{EVENT_TIME}").alias(EVENT_TIME), *sides)
    newest = f.struct(f"{RIGHT}.{EVENT_TIME}", f"{RIGHT}.{PLACE}")
    # By the event's time, so that Spark knows when there will be no more matches of an event.
    groups = rows.groupBy(EVENT_TIME, f"{LEFT}.{PLACE}")
    return groups.agg(f.first(LEFT).alias(LEFT), f.max_by(RIGHT, newest).alias(RIGHT))


def cost_warning(spark: SparkSession, options: JoinOptions) -> str:
    """
    The warning about a join whose keys are not selective; "": there is nothing to warn of.

    :raise PipelineError: the topics cannot be read.
    """
    from pyspark.sql import functions as f

    sides = []
    for side, keys in ((options.left, list(options.on)), (options.right, list(options.on.values()))):
        # A new stream of the same topics; a table is all of its topic.
        whole = side if isinstance(side, EventStream) else EventStream(source=side.source, payload=side.payload)
        try:
            starts, ends = whole.offsets(None)
        except LogbusError as e:
            raise PipelineError(str(e)) from e
        total = sum(max(0, end - starts.get(each, 0)) for each, end in ends.items())
        sides.append((whole, keys, total, sample_ranges(starts, ends)))
    if sides[0][2] * sides[1][2] < LEAST_PAIRS:
        return ""
    samples = []
    for whole, keys, total, ranges in sides:
        frames = [spark.read.format("logbus").options(**range_options(whole.source, *each)).load() for each in ranges]
        parsed = whole.payload.parsed(reduce(lambda one, other: one.union(other), frames))
        events = with_time(whole.payload, parsed.where(f.col(whole.payload.reason).isNull()))
        key = f.to_json(f.struct(*(f.expr(text).alias(f"_{number}") for number, text in enumerate(keys))))
        samples.append(
            sample_of(events.select(f.when(~_has_null(keys), key).alias("key"), f.col(EVENT_TIME).alias("time")), total)
        )
    interval = sum(options.interval) if isinstance(options.right, EventStream) else None
    return warning(samples[0], samples[1], interval, [f"{mine}={theirs}" for mine, theirs in options.on.items()])


def query_of(
    spark: SparkSession, options: JoinOptions, late: LateWatermark | None, tell: Callable[[str], None]
) -> QueryDefinition:
    """
    The join as a query.

    :param late: has the watermark by which late events of two streams are counted.
    :param tell: is called with messages about the table.
    :raise OptionError: an expression is wrong.
    :raise PipelineError: the table's topic does not exist.
    """
    right = options.right
    if isinstance(right, EventStream):

        def both(*, held: bool) -> DataFrame:
            place = bool(options.as_of)
            mine = options.left.events(spark, late=late, held=held, place=place)
            return joined(mine, right.events(spark, "right", late, held=held, place=place), options)

        rows = both(held=False)
        # Waiting events could not be read with other types.
        identity = {**options.identity, RESULT: rows.schema.simpleString()}
        return QueryDefinition(
            name=NAME,
            rows=rows,
            identity=identity,
            columns=list(options.select),
            streams=[options.left, right],
            late=late,
            held=partial(both, held=True),
            names=("rows", "right"),
            open_state=lambda spark, files: waiting_events(spark, files, int(bool(options.as_of)), EVENT_TIME),
            closed_at=options.done_at,
        )
    left, table = options.left.events(spark), right
    starts = table.starts()
    starts.look(tell)
    joined(left, table.rows(spark), options)  # Finds wrong expressions before the first batch.

    def each(batch: DataFrame) -> DataFrame:
        starts.look(tell)
        return joined(batch, table.rows(batch.sparkSession), options)

    return QueryDefinition(
        name=NAME,
        rows=left,
        identity=options.identity,
        columns=list(options.select),
        each=each,
        streams=[options.left],
    )


def run(spark: SparkSession, options: JoinOptions, watch: JobControl | None = None) -> QueryReport:
    """
    Run the join, and write its rows to the outputs.

    :raise OptionError: an option is wrong.
    :raise TooManyLate: more events were late than allowed.
    :raise CountsDiffer: the counts of the run do not add up.
    :raise PipelineError: the query failed; the next run goes on.
    """
    with LateWatermark.made() as late:
        watch = watch or JobControl()
        query = query_of(spark, options, late, watch.tell)
        if warned := cost_warning(spark, options):
            watch.tell(f"warning: {warned}")
        return run_query(spark, query, options.outputs, options.running, watch)
