"""A topic as a stream of events: columns, a time, and a watermark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from logbus.pipeline.errors import OptionError
from logbus.pipeline.jobs.payloads import Payload, RawPayload
from logbus.pipeline.source.options import read as read_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENT_TIME = "event_time"


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

    def events(self, spark: SparkSession, metrics: str = "rows") -> DataFrame:
        """
        The events: the columns of the payload, and ``event_time``.

        :param metrics: the name under which the query's progress counts what is read.
        :raise OptionError: the watermark is no duration.
        """
        from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
        from pyspark.sql import functions as f

        payload = self.payload
        parsed = payload.parsed(spark.readStream.format("logbus").options(**self.source).load())
        parsed = parsed.observe(
            metrics, f.count(f.lit(1)).alias("read"), f.count(f.col(payload.reason)).alias("unreadable")
        )
        readable = parsed.where(f.col(payload.reason).isNull())
        columns: list[Any] = payload.columns(readable)
        events = readable.select(*columns, f.col(payload.time).alias(EVENT_TIME))
        try:
            return events.withWatermark(EVENT_TIME, self.watermark)
        except (AnalysisException, IllegalArgumentException, ParseException) as e:
            raise OptionError(f"the watermark {self.watermark!r} is no duration such as '10 minutes'") from e
