"""A topic as a stream of events: columns, a time, and a watermark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from logbus.pipeline.errors import OptionError
from logbus.pipeline.jobs.durations import micros, spelled
from logbus.pipeline.jobs.payloads import Payload, RawPayload, ticked
from logbus.pipeline.source.options import read as read_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENT_TIME = "event_time"
_TOPICS = ("subscribe", "subscribepattern", "assign")


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

    @property
    def topics(self) -> str:
        """Which topics, as the options spell them."""
        return topics_of(self.source)

    @property
    def time(self) -> str:
        """What the events' time is, for people."""
        field_of_event = getattr(self.payload, "event_time", "")
        return f"in {field_of_event!r}" if field_of_event else "the record's"

    def events(self, spark: SparkSession, metrics: str = "rows") -> DataFrame:
        """
        The events: the columns of the payload, and ``event_time``.

        :param metrics: the name under which the query's progress counts what is read.
        :raise OptionError: the payload cannot be what it says.
        """
        from pyspark.sql import functions as f

        self.payload.check()
        parsed = self.payload.parsed(spark.readStream.format("logbus").options(**self.source).load())
        reason = f.col(self.payload.reason)
        counted = parsed.observe(metrics, f.count(f.lit(1)).alias("read"), f.count(reason).alias("unreadable"))
        events = with_time(self.payload, counted.where(reason.isNull()))
        return events.withWatermark(EVENT_TIME, spelled(micros("the watermark", self.watermark, least=0)))


def topics_of(source: Mapping[str, str]) -> str:
    """Which topics options of ``format("logbus")`` say."""
    return ", ".join(value for name, value in source.items() if name.lower() in _TOPICS)


def with_time(payload: Payload, readable: DataFrame) -> DataFrame:
    """
    The columns of a payload, and ``event_time``.

    :param readable: parsed rows, those that could be read.
    :raise OptionError: the payload has another column of this name.
    """
    from pyspark.sql import functions as f

    columns: list[Any] = payload.columns(readable)
    events = readable.select(*columns)
    if taken := [name for name in events.columns if name.lower() == EVENT_TIME]:
        if getattr(payload, "event_time", "") != taken[0]:
            raise OptionError(
                f"the column {taken[0]!r} is the event's time: say that it is, or put the event into a column of its "
                "own, of another name"
            )
        columns = [f.col(f"_all.{ticked(name)}").alias(name) for name in events.columns if name not in taken]
        readable = readable.withColumn("_all", f.struct(*payload.columns(readable)))
    return readable.select(*columns, f.col(payload.time).alias(EVENT_TIME))
