"""
Join a stream with another, or with a table that a compacted topic is.

Two streams are joined by key and time: an event of the right one belongs to an event of the left one if their keys are
equal and it is not more than some time before or after. How long either side is remembered follows from that and from
the watermarks.

The table is the newest value of each key of a topic; a key without a value was deleted. It is read anew for each batch
of the stream, up to its end at that time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from logbus.pipeline.errors import OptionError
from logbus.pipeline.jobs.events import EVENT_TIME, Stream
from logbus.pipeline.jobs.outputs import Output
from logbus.pipeline.jobs.payloads import Payload, RawPayload
from logbus.pipeline.jobs.streaming import Running, StreamReport, run_query
from logbus.pipeline.jobs.watching import Watch
from logbus.pipeline.source.options import read as read_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEFT, RIGHT = "l", "r"
"""How the sides are called in expressions: ``l.user``, ``r.amount``."""

KINDS = ("inner", "left")


@frozen(kw_only=True)
class TableTopic:
    """
    A topic as a table.

    :ivar source: options of ``format("logbus")`` for a batch: all of the topic is read.
    :ivar payload: what to make of the values.
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

    def rows(self, spark: SparkSession) -> DataFrame:
        """The newest event of each key, with the columns of the payload."""
        from pyspark.sql import functions as f

        records = spark.read.format("logbus").options(**self.source).load().where(f.col("key").isNotNull())
        # Keys are in one partition each, and what is newer has the higher offset there.
        whole = f.struct(*(f.col(name) for name in records.columns))
        newest = records.groupBy("topic", "key").agg(f.max_by(whole, f.col("offset")).alias("_newest"))
        live = newest.select("_newest.*").where(f.col("value").isNotNull())
        parsed = self.payload.parsed(live).where(f.col(self.payload.reason).isNull())
        return parsed.select(*self.payload.columns(parsed), f.col(self.payload.time).alias(EVENT_TIME))


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


def joined(spark: SparkSession, options: JoinOptions) -> DataFrame:
    """
    The join as a stream.

    :raise OptionError: an expression or a duration is wrong.
    """
    from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
    from pyspark.sql import functions as f

    left = options.left.events(spark)
    right = options.right
    other = right.events(spark, "right") if isinstance(right, Stream) else right.rows(spark)
    try:
        keys = [f"_key{number}" for number in range(len(options.on))]
        for key, (mine, theirs) in zip(keys, options.on.items(), strict=True):
            left, other = left.withColumn(key, f.expr(mine)), other.withColumn(key, f.expr(theirs))
        left, other = left.alias(LEFT), other.alias(RIGHT)
        condition: Any = f.lit(True)
        for key in keys:
            condition = condition & (f.col(f"{LEFT}.{key}") == f.col(f"{RIGHT}.{key}"))
        if isinstance(right, Stream):
            mine, theirs = f"{LEFT}.{EVENT_TIME}", f"{RIGHT}.{EVENT_TIME}"
            condition = condition & f.expr(
                f"{theirs} >= {mine} - INTERVAL {options.before} AND {theirs} <= {mine} + INTERVAL {options.after}"
            )
        both = left.join(other, condition, "inner" if options.kind == "inner" else "left_outer")
        return both.select(*(f.expr(text).alias(name) for name, text in options.select.items()))
    except (AnalysisException, IllegalArgumentException, ParseException) as e:
        raise OptionError(f"the join cannot be computed: {str(e).splitlines()[0]}") from e


def run(spark: SparkSession, options: JoinOptions, watch: Watch | None = None) -> StreamReport:
    """
    Write what belongs together.

    :raise PipelineError: the query failed; the next run goes on.
    """
    return run_query(spark, "join", joined(spark, options), options.outputs, options.running, watch or Watch())
