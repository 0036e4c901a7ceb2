"""
The join job: joins a stream with another stream, or with a compacted topic as a table.

Two streams are joined by key and time: events match if their keys are equal and the right one is within an interval
before or after the left one. Spark derives from the interval and the watermarks how long it keeps either side.

The table is the latest value of each key of a topic; a null value deletes the key. It is read again for each batch of
the stream, up to its end at that time: Spark by itself would read it as it was when the query started. Events are
joined batch by batch, so they do not wait for later rows of the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from logbus.errors import ApiError
from logbus.pipeline.error_text import short_message
from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.broker_check import check_topics
from logbus.pipeline.jobs.durations import duration_micros, readable_duration, spark_duration
from logbus.pipeline.jobs.event_stream import EVENT_TIME, EventStream, expression, time_column, topics_of, with_time
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.late_watermark import LateWatermark
from logbus.pipeline.jobs.outputs import Output
from logbus.pipeline.jobs.streaming_query import QueryDefinition, QueryReport, QuerySettings, run_query
from logbus.pipeline.payloads.payload import Payload, RawPayload
from logbus.pipeline.source.offset_reader import OffsetReader
from logbus.pipeline.source.options import read_source_options as read_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEFT, RIGHT = "l", "r"
"""The names of the sides in expressions: ``l.user``, ``r.amount``."""

KINDS = ("inner", "left")


@frozen(kw_only=True)
class TableTopic:
    """
    A topic as a table (Kafka Streams: KTable).

    :ivar source: options of ``format("logbus")`` for a batch: the whole topic is read.
    :ivar payload: how values are parsed; a key whose latest value cannot be read is not in the table.
    :raise OptionError: an option is wrong, or is a start or end position.
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

    def check(self, tell: Callable[[str], None]) -> None:
        """See :func:`.check_topics`."""
        check_topics(read_options(self.source, streaming=False), tell)

    def rows(self, spark: SparkSession) -> DataFrame:
        """The latest event of each key, with the columns of the payload."""
        from pyspark.sql import functions as f

        records = spark.read.format("logbus").options(**self.source).load().where(f.col("key").isNotNull())
        # All records of a key are in one partition, in the order of offsets.
        whole = f.struct(*(f.col(name) for name in records.columns))
        newest = records.groupBy("topic", "key").agg(f.max_by(whole, f.col("offset")).alias("_newest"))
        live = newest.select("_newest.*").where(f.col("value").isNotNull())
        self.payload.check()
        return with_time(self.payload, self.payload.parsed(live).where(f.col(self.payload.reason).isNull()))


@frozen(kw_only=True)
class JoinOptions:
    """
    What to join, and the outputs.

    :ivar left: the stream.
    :ivar right: another stream, or a table.
    :ivar on: the keys: expressions of the left and of the right side, such as ``{"user": "id"}``.
    :ivar before, after: for streams: how much earlier or later the right event may be, such as ``1 hour``.
    :ivar kind: ``inner``; ``left`` also has events without a match; for streams, once none can come any more.
    :ivar select: the columns, expressions by name, of ``l`` and ``r``: ``{"user": "l.user", "paid": "r.amount"}``.
    :raise OptionError: something is wrong or missing.
    """

    left: EventStream
    right: EventStream | TableTopic
    on: Mapping[str, str]
    select: Mapping[str, str]
    before: str = "0 seconds"
    after: str = "1 hour"
    kind: str = "inner"
    outputs: Sequence[Output]
    running: QuerySettings

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
            duration_micros(name, getattr(self, name), least=0)

    def check(self, tell: Callable[[str], None]) -> None:
        """Check topics and offsets without Spark; see :func:`.check_topics`."""
        self.left.check(tell, is_new=self.running.is_new)
        if isinstance(self.right, TableTopic):
            self.right.check(tell)
        else:
            self.right.check(tell, is_new=self.running.is_new)
        for output in self.outputs:
            output.check()

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
            "kind": self.kind,
            "keys": json.dumps(dict(self.on)),
            "columns": json.dumps(dict(self.select)),
            "times": f"{readable_duration(duration_micros('', self.before, least=0))} before, "
            f"{readable_duration(duration_micros('', self.after, least=0))} after",
        }


def joined(left: DataFrame, right: DataFrame, options: JoinOptions) -> DataFrame:
    """
    The join of two streams, or of a stream (or one of its batches) and a table.

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
        if isinstance(options.right, EventStream):
            before, after = (
                spark_duration(duration_micros("", each, least=0)) for each in (options.before, options.after)
            )
            mine, theirs = f"{LEFT}.{EVENT_TIME}", f"{RIGHT}.{EVENT_TIME}"
            condition = condition & f.expr(
                f"{theirs} >= {mine} - INTERVAL {before} AND {theirs} <= {mine} + INTERVAL {after}"
            )
        how = "inner" if options.kind == "inner" else "left_outer"
        both = left.alias(LEFT).join(right.alias(RIGHT), condition, how)
        return both.select(*(f.expr(text).alias(name) for name, text in options.select.items()))
    except PySparkException as e:
        raise OptionError(f"the join cannot be computed: {short_message(str(e))}") from e


def query_of(spark: SparkSession, options: JoinOptions, late: LateWatermark | None = None) -> QueryDefinition:
    """
    The join as a query.

    :param late: has the watermark by which late events of two streams are counted.
    :raise OptionError: an expression is wrong.
    :raise PipelineError: the table's topic does not exist.
    """
    right = options.right
    if isinstance(right, EventStream):
        rows = joined(options.left.events(spark, late=late), right.events(spark, "right", late), options)
        # Waiting events could not be read with other types.
        identity = {**options.identity, "result": rows.schema.simpleString()}
        return QueryDefinition(
            name="join",
            rows=rows,
            identity=identity,
            columns=list(options.select),
            streams=[options.left, right],
            late=late,
        )
    left, table = options.left.events(spark), right
    try:
        OffsetReader(read_options(table.source, streaming=False)).topics()
    except ApiError as e:
        raise PipelineError(f"the table cannot be read: {e}") from e
    joined(left, table.rows(spark), options)  # Finds wrong expressions before the first batch.

    def each(batch: DataFrame) -> DataFrame:
        return joined(batch, table.rows(batch.sparkSession), options)

    return QueryDefinition(
        name="join",
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
        query = query_of(spark, options, late)
        return run_query(spark, query, options.outputs, options.running, watch or JobControl())
