"""
Join a stream with another, or with a table that a compacted topic is.

Two streams are joined by key and time: an event of the right one belongs to an event of the left one if their keys are
equal and it is not more than some time before or after. How long either side is remembered follows from that and from
the watermarks.

The table is the newest value of each key of a topic; a key without a value was deleted. It is read anew for each batch
of the stream, up to its end at that time: Spark by itself would read it as it was when the query began. Joined is batch
by batch, so no event waits for one that comes into the table later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from logbus.errors import ApiError
from logbus.pipeline.errors import OptionError, PipelineError, gist
from logbus.pipeline.jobs.durations import in_words, micros, spelled
from logbus.pipeline.jobs.events import EVENT_TIME, Stream, expression, time_column, topics_of, with_time
from logbus.pipeline.jobs.outputs import Output
from logbus.pipeline.jobs.payloads import Payload, RawPayload
from logbus.pipeline.jobs.streaming import Query, Running, StreamReport, run_query
from logbus.pipeline.jobs.watching import Watch
from logbus.pipeline.source.lookup import Lookup
from logbus.pipeline.source.options import read as read_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from logbus.pipeline.jobs.late_watermark import LateWatermark

LEFT, RIGHT = "l", "r"
"""How the sides are called in expressions: ``l.user``, ``r.amount``."""

KINDS = ("inner", "left")


@frozen(kw_only=True)
class TableTopic:
    """
    A topic as a table.

    :ivar source: options of ``format("logbus")`` for a batch: all of the topic is read.
    :ivar payload: what to make of the values; a key whose newest value cannot be read is not in the table.
    :raise OptionError: an option is wrong, or says where to begin or end.
    """

    source: Mapping[str, str]
    payload: Payload = field(factory=RawPayload)

    def __attrs_post_init__(self) -> None:
        for name in self.source:
            if name.lower().startswith(("starting", "ending")):
                raise OptionError(f"option {name!r}: a table is all of its topic")
        given = {name.lower() for name in self.source}
        if "kafka.isolation.level" not in given:
            object.__setattr__(self, "source", {"kafka.isolation.level": "read_committed", **self.source})
        read_options(self.source, streaming=False)
        time_column(self.payload, self.payload.own_columns)

    def rows(self, spark: SparkSession) -> DataFrame:
        """The newest event of each key, with the columns of the payload."""
        from pyspark.sql import functions as f

        records = spark.read.format("logbus").options(**self.source).load().where(f.col("key").isNotNull())
        # A key is in one partition, where what is newer has the higher offset.
        whole = f.struct(*(f.col(name) for name in records.columns))
        newest = records.groupBy("topic", "key").agg(f.max_by(whole, f.col("offset")).alias("_newest"))
        live = newest.select("_newest.*").where(f.col("value").isNotNull())
        self.payload.check()
        return with_time(self.payload, self.payload.parsed(live).where(f.col(self.payload.reason).isNull()))


@frozen(kw_only=True)
class JoinOptions:
    """
    What to join, and where to.

    :ivar left: the stream.
    :ivar right: another, or a table.
    :ivar on: what must be equal: expressions of the left side and of the right side, such as ``{"user": "id"}``.
    :ivar before, after: of streams: how much earlier or later the right event may be, such as ``1 hour``.
    :ivar kind: ``inner``; ``left`` has events without a partner too, of streams when none can come any more.
    :ivar select: the columns, expressions by name, of ``l`` and ``r``: ``{"user": "l.user", "paid": "r.amount"}``.
    :raise OptionError: something is wrong or missing.
    """

    left: Stream
    right: Stream | TableTopic
    on: Mapping[str, str]
    select: Mapping[str, str]
    before: str = "0 seconds"
    after: str = "1 hour"
    kind: str = "inner"
    outputs: Sequence[Output]
    running: Running

    def __attrs_post_init__(self) -> None:
        if self.kind not in KINDS:
            raise OptionError(f"the kind of a join is {' or '.join(KINDS)}, not {self.kind!r}")
        if not self.on:
            raise OptionError("say what must be equal on both sides, such as user=user")
        if not self.select:
            raise OptionError("say which columns the join has, such as user=l.user")
        names = [each.lower() for each in self.select]
        if twice := [each for each in self.select if names.count(each.lower()) > 1]:
            raise OptionError(f"the column {twice[-1]!r} is there twice: names differ in more than case")
        for name in ("before", "after"):
            micros(name, getattr(self, name), least=0)

    @property
    def identity(self) -> dict[str, str]:
        """What events that wait for a partner depend on; with a table, none waits."""
        if isinstance(self.right, TableTopic):
            return {"topics": self.left.topics, "table": topics_of(self.right.source)}
        return {
            "topics": self.left.topics,
            "other topics": self.right.topics,
            "time": self.left.time,
            "other time": self.right.time,
            "kind": self.kind,
            "keys": json.dumps(dict(self.on)),
            "columns": json.dumps(dict(self.select)),
            "times": f"{in_words(micros('', self.before, least=0))} before, "
            f"{in_words(micros('', self.after, least=0))} after",
        }


def joined(left: DataFrame, right: DataFrame, options: JoinOptions) -> DataFrame:
    """
    The join of two streams, or of a stream, or a batch of it, and a table.

    :raise OptionError: an expression is wrong.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    try:
        condition: Any = f.lit(True)
        for number, (mine, theirs) in enumerate(options.on.items()):
            key = f"_key{number}"
            left = left.select("*", expression(left, mine, key))
            right = right.select("*", expression(right, theirs, key))
            condition = condition & (f.col(f"{LEFT}.{key}") == f.col(f"{RIGHT}.{key}"))
        if isinstance(options.right, Stream):
            before, after = (spelled(micros("", each, least=0)) for each in (options.before, options.after))
            mine, theirs = f"{LEFT}.{EVENT_TIME}", f"{RIGHT}.{EVENT_TIME}"
            condition = condition & f.expr(
                f"{theirs} >= {mine} - INTERVAL {before} AND {theirs} <= {mine} + INTERVAL {after}"
            )
        how = "inner" if options.kind == "inner" else "left_outer"
        both = left.alias(LEFT).join(right.alias(RIGHT), condition, how)
        return both.select(*(f.expr(text).alias(name) for name, text in options.select.items()))
    except PySparkException as e:
        raise OptionError(f"the join cannot be computed: {gist(str(e))}") from e


def query_of(spark: SparkSession, options: JoinOptions, late: LateWatermark | None = None) -> Query:
    """
    The join as a query.

    :param late: counts events that are too late to be joined with another stream.
    :raise OptionError: an expression is wrong.
    :raise PipelineError: the topic that is the table is not there.
    """
    right = options.right
    if isinstance(right, Stream):
        rows = joined(options.left.events(spark, late=late), right.events(spark, "right", late), options)
        # Of other types, events that wait could not be read.
        identity = {**options.identity, "result": rows.schema.simpleString()}
        return Query(
            name="join",
            rows=rows,
            identity=identity,
            columns=list(options.select),
            streams=[options.left, right],
            late=late,
        )
    left, table = options.left.events(spark), right
    try:
        Lookup(read_options(table.source, streaming=False)).topics()
    except ApiError as e:
        raise PipelineError(f"the table cannot be read: {e}") from e
    joined(left, table.rows(spark), options)  # What is wrong is said before the first batch.

    def each(batch: DataFrame) -> DataFrame:
        return joined(batch, table.rows(batch.sparkSession), options)

    return Query(
        name="join",
        rows=left,
        identity=options.identity,
        columns=list(options.select),
        each=each,
        streams=[options.left],
    )


def run(spark: SparkSession, options: JoinOptions, watch: Watch | None = None) -> StreamReport:
    """
    Write what belongs together.

    :raise OptionError: an option is wrong.
    :raise TooManyLate: more events were late than may be.
    :raise PipelineError: the query failed; the next run goes on.
    """
    from logbus.pipeline.jobs.late_watermark import LateWatermark

    with LateWatermark.made() as late:
        query = query_of(spark, options, late)
        return run_query(spark, query, options.outputs, options.running, watch or Watch())
