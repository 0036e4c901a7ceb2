"""A topic as a stream of events: columns, a time, and a watermark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from logbus.pipeline.errors import OptionError
from logbus.pipeline.jobs.durations import micros, spelled
from logbus.pipeline.jobs.payloads import Payload, RawPayload, ticked
from logbus.pipeline.source.lookup import Lookup
from logbus.pipeline.source.options import read as read_options
from logbus.pipeline.source.spelling import Offsets

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from logbus.pipeline.jobs.late_watermark import LateWatermark

EVENT_TIME = "event_time"
LATE_WATERMARK = "_late_watermark"
"""A column of what is read: see :mod:`.late_watermark`."""

_TOPICS = ("subscribe", "subscribepattern", "assign")


def _itself(time: Column) -> Column:
    return time


@frozen(kw_only=True)
class Stream:
    """
    :ivar source: options of ``format("logbus")``; unless they say otherwise, a new query begins at ``earliest`` and
        reads what is committed.
    :ivar payload: what to make of the values; what cannot be read is counted and left out.
    :ivar watermark: how late events may be, such as ``10 minutes``.
    :raise OptionError: an option is wrong.
    """

    source: Mapping[str, str]
    payload: Payload = field(factory=RawPayload)
    watermark: str = "10 minutes"

    def __attrs_post_init__(self) -> None:
        given = {name.lower() for name in self.source}
        defaults = {"kafka.isolation.level": "read_committed"}
        if not any(name.startswith("starting") for name in given):
            defaults["startingOffsets"] = "earliest"
        missing = {name: value for name, value in defaults.items() if name.lower() not in given}
        object.__setattr__(self, "source", {**missing, **self.source})
        read_options(self.source, streaming=True)
        micros("the watermark", self.watermark, least=0)
        time_column(self.payload, self.payload.own_columns)

    @property
    def topics(self) -> str:
        """Which topics, as the options spell them."""
        return topics_of(self.source)

    @property
    def time(self) -> str:
        """What the events' time is, for people."""
        field_of_event = getattr(self.payload, "event_time", "")
        return f"in {field_of_event!r}" if field_of_event else "the record's"

    @property
    def delay(self) -> int:
        """The watermark in microseconds."""
        return micros("the watermark", self.watermark, least=0)

    @property
    def batch_offsets(self) -> int | None:
        """How many offsets a batch has at most; None: all that there are."""
        return read_options(self.source, streaming=True).max_offsets_per_trigger

    def offsets(self, begun: Offsets | None) -> tuple[Offsets, Offsets]:
        """
        What is to be read now: where each partition begins, and where it ends.

        :param begun: what the checkpoint has; None: the query is a new one.
        :raise LogbusError: the topics are not there, or no broker can be reached.
        """
        options = read_options(self.source, streaming=True)
        lookup = Lookup(options)
        partitions = lookup.partitions(lookup.topics(() if begun is None else {each.topic for each in begun}))
        starts = lookup.resolve(options.starting, partitions, ending=False) if begun is None else begun
        return starts, lookup.last(partitions, may_go=True)

    def events(
        self,
        spark: SparkSession,
        metrics: str = "rows",
        late: LateWatermark | None = None,
        needed_until: Callable[[Column], Column] = _itself,
    ) -> DataFrame:
        """
        The events: the columns of the payload, and ``event_time``.

        :param metrics: the name under which the query's progress counts what is read: ``read``, ``unreadable``, and
            ``late`` with ``behind``, the most microseconds by which an event was late.
        :param late: what decides which events are late; None: none are.
        :param needed_until: makes of an event's time in microseconds the first watermark at which it is late: the end
            of its window.
        :raise OptionError: the payload cannot be what it says.
        """
        from pyspark.sql import functions as f

        self.payload.check()
        parsed = self.payload.parsed(self._read(spark, late))
        reason = f.col(self.payload.reason)
        behind = f.lit(None).cast("long")
        if late is not None:
            over = f.col(LATE_WATERMARK) - needed_until(f.unix_micros(f.col(self.payload.time)))
            behind = f.when(reason.isNull() & (over >= 0), over)
        counted = parsed.observe(
            metrics,
            f.count(f.lit(1)).alias("read"),
            f.count(reason).alias("unreadable"),
            f.count(behind).alias("late"),
            f.coalesce(f.max(behind), f.lit(0)).alias("behind"),
        )
        events = with_time(self.payload, counted.where(reason.isNull()).drop(LATE_WATERMARK))
        return events.withWatermark(EVENT_TIME, spelled(self.delay))

    def _read(self, spark: SparkSession, late: LateWatermark | None) -> DataFrame:
        if late is None:
            return spark.readStream.format("logbus").options(**self.source).load()
        from logbus.pipeline.jobs.late_watermark import FORMAT, OPTION, LateWatermarkSource

        spark.dataSource.register(LateWatermarkSource)
        return spark.readStream.format(FORMAT).options(**self.source).option(OPTION, str(late.path)).load()


def topics_of(source: Mapping[str, str]) -> str:
    """Which topics options of ``format("logbus")`` say."""
    return ", ".join(value for name, value in source.items() if name.lower() in _TOPICS)


def time_column(payload: Payload, names: Iterable[str]) -> str:
    """
    The column of a payload that is the event's time under the name that it has here; "": there is none.

    :raise OptionError: there is another of this name.
    """
    taken = next((name for name in names if name.lower() == EVENT_TIME), "")
    if taken and getattr(payload, "event_time", "") != taken:
        raise OptionError(
            f"the column {taken!r} is the event's time: say that it is (--event-time {taken}; of joins --left-time, "
            "--right-time), or put the event into a column of its own, such as --into event"
        )
    return taken


def with_time(payload: Payload, readable: DataFrame) -> DataFrame:
    """
    The columns of a payload, and ``event_time``.

    :param readable: parsed rows, those that could be read.
    :raise OptionError: the payload has another column of this name.
    """
    from pyspark.sql import functions as f

    columns: list[Any] = payload.columns(readable)
    events = readable.select(*columns)
    if taken := time_column(payload, events.columns):
        columns = [f.col(f"_all.{ticked(name)}").alias(name) for name in events.columns if name != taken]
        readable = readable.withColumn("_all", f.struct(*payload.columns(readable)))
    return readable.select(*columns, f.col(payload.time).alias(EVENT_TIME))


def expression(events: DataFrame, text: str, name: str) -> Column:
    """
    A column of an expression that may be the event's time. Spark takes a copy of that for a second time of the
    stream, and runs no query that has two.
    """
    from pyspark.sql import functions as f

    column = f.expr(text)
    if "spark.watermarkDelayMs" in events.select(column.alias(name)).schema[0].metadata:
        column = f.timestamp_micros(f.unix_micros(column))
    return column.alias(name)
