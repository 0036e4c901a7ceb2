"""A topic as a streaming DataFrame of events, with an event time and a watermark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from logbus.pipeline.errors import OptionError
from logbus.pipeline.jobs.broker_check import check_topics
from logbus.pipeline.jobs.durations import MAX_DURATION, duration_micros, spark_duration
from logbus.pipeline.jobs.late_watermark import LATE_WATERMARK, LateWatermark
from logbus.pipeline.jobs.punctuation import LOST, OWN, PUNCTUATION
from logbus.pipeline.payloads.payload import Payload, RawPayload, quoted_name
from logbus.pipeline.source.offset_reader import OffsetReader, topic_ids
from logbus.pipeline.source.offsets_json import PartitionOffsets
from logbus.pipeline.source.options import read_source_options as read_options
from logbus.pipeline.source.stream_offset import StreamOffset, resume_offsets

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EVENT_TIME = "event_time"

PLACE = f"{OWN}place"
"""The column with the topic, partition and offset of an event's record, for joins that tell events apart."""

_TOPICS = ("subscribe", "subscribepattern", "assign")


def _records(rows: DataFrame) -> DataFrame:
    """The rows without punctuations, which have advanced the watermark."""
    from pyspark.sql import functions as f

    # A condition that is not deterministic stays behind the operator of the watermark, and others behind it. Otherwise
    # Spark would leave out punctuations, also as rows with null keys, before they have advanced the watermark.
    return rows.where(f.col(PUNCTUATION).isNull() | (-f.rand() > 0)).drop(PUNCTUATION)


def _itself(time: Column) -> Column:
    return time


@frozen(kw_only=True)
class EventStream:
    """
    A stream of events.

    :ivar source: options of ``format("logbus")``; by default a new query starts at ``earliest`` and reads committed
        records only.
    :ivar payload: how values are parsed; values that cannot be read are counted and left out.
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
        duration_micros("the watermark", self.watermark, least=0)
        check_columns(self.payload, self.payload.own_columns)

    @property
    def topics(self) -> str:
        """The topics, as the options name them."""
        return topics_of(self.source)

    @property
    def time(self) -> str:
        """The source of the events' time, for messages."""
        field_of_event = getattr(self.payload, "event_time", "")
        return f"in {field_of_event!r}" if field_of_event else "the record's"

    @property
    def columns(self) -> Sequence[str] | None:
        """The columns of :meth:`events`; None: only Spark knows them."""
        return columns_of(self.payload)

    @property
    def delay(self) -> int:
        """The watermark in microseconds."""
        return duration_micros("the watermark", self.watermark, least=0)

    @property
    def batch_offsets(self) -> int | None:
        """The most offsets of a batch; None: no limit."""
        return read_options(self.source, streaming=True).max_offsets_per_trigger

    def check(self, tell: Callable[[str], None], *, is_new: bool) -> None:
        """See :func:`.check_topics`."""
        check_topics(read_options(self.source, streaming=True), tell, is_new=is_new)

    def offsets(self, begun: StreamOffset | None) -> tuple[PartitionOffsets, PartitionOffsets]:
        """
        The start and end offsets of what is to be read now.

        :param begun: the position in the checkpoint; None: the query is new.
        :raise LogbusError: the topics do not exist, or no broker can be reached.
        """
        options = read_options(self.source, streaming=True)
        offset_reader = OffsetReader(options)
        topics = offset_reader.topics(() if begun is None else {each.topic for each in begun.offsets})
        partitions = offset_reader.partitions(topics)
        ends = offset_reader.latest(partitions, allow_deleted=True)
        if begun is None:
            return offset_reader.resolve(options.starting, partitions, ending=False), ends
        # Of a topic that was made anew, or whose oldest records are gone, all is read that is there.
        first, ids = offset_reader.earliest(ends, allow_deleted=True), topic_ids(topics)
        return resume_offsets(begun, StreamOffset(ends, ids), ids, first)[0], ends

    def events(
        self,
        spark: SparkSession,
        metrics: str = "rows",
        late: LateWatermark | None = None,
        needed_until: Callable[[Column], Column] = _itself,
        *,
        held: bool = False,
        place: bool = False,
    ) -> DataFrame:
        """
        The events: the columns of the payload, and ``event_time``.

        :param metrics: the stream's name in the query, and that of the observed metrics in its progress:
            ``readable``, ``unreadable``, ``punctuations``, ``lost``, which are offsets that were gone, ``late``, and
            ``behind``, the most microseconds by which an event was late.
        :param late: has the watermark by which events are late; None: late events are not counted.
        :param needed_until: maps an event's time to the first watermark at which it is late, which is the end of its
            window; both in microseconds.
        :param held: hold the watermark where it is.
        :param place: also have :data:`PLACE`.
        :raise OptionError: the payload's schema is wrong.
        """
        from pyspark.sql import functions as f

        self.payload.check()
        parsed = self.payload.parsed(self._read(spark, metrics, late))
        reason = f.col(self.payload.reason)
        is_record = f.col(PUNCTUATION).isNull()
        behind = f.lit(None).cast("long")
        if late is not None:
            over = f.col(LATE_WATERMARK) - needed_until(f.unix_micros(f.col(self.payload.time)))
            behind = f.when(is_record & reason.isNull() & (over >= 0), over)
        counted = parsed.observe(
            metrics,
            f.count(f.when(is_record & reason.isNull(), f.lit(1))).alias("readable"),
            f.count(f.when(is_record, reason)).alias("unreadable"),
            f.count(f.when(~is_record, f.lit(1))).alias("punctuations"),
            f.coalesce(f.sum(LOST), f.lit(0)).alias("lost"),
            f.count(behind).alias("late"),
            f.coalesce(f.max(behind), f.lit(0)).alias("behind"),
        )
        time = f.coalesce(f.timestamp_micros(PUNCTUATION), f.col(self.payload.time))
        counted = counted.withColumn(self.payload.time, time)
        # An event's own fields may have the names of the record's columns, so that these are not to be asked behind it.
        others = [f.struct("topic", "partition", "offset").alias(PLACE)] if place else []
        others.append(f.col(PUNCTUATION))
        events = with_time(self.payload, counted.where(reason.isNull() | ~is_record), others)
        delay = MAX_DURATION if held else self.delay
        return _records(events.withWatermark(EVENT_TIME, spark_duration(delay)))

    def _read(self, spark: SparkSession, metrics: str, late: LateWatermark | None) -> DataFrame:
        from logbus.pipeline.jobs.event_source import FORMAT, LATE_OPTION, PUNCTUATION_OPTION, EventSource

        spark.dataSource.register(EventSource)
        files: dict[str, str] = {}
        if late is not None:
            files = {LATE_OPTION: str(late.path), PUNCTUATION_OPTION: str(late.punctuation(metrics).path)}
        return spark.readStream.format(FORMAT).options(**self.source).options(**files).load()


def topics_of(source: Mapping[str, str]) -> str:
    """The topics that options of ``format("logbus")`` name."""
    return ", ".join(value for name, value in source.items() if name.lower() in _TOPICS)


def columns_of(payload: Payload) -> Sequence[str] | None:
    """The columns of events, also those that only some options give them; None: only Spark knows them."""
    fields = payload.table_fields(headers=True)
    return None if fields is None else [*(str(each["name"]) for each in fields), EVENT_TIME]


def check_columns(payload: Payload, names: Iterable[str]) -> str:
    """
    Check that no column of a payload has the name of one of a job's.

    :returns: see :func:`time_column`.
    :raise OptionError: one has.
    """
    taken = time_column(payload, names)
    if own := [name for name in names if name.lower().startswith(OWN)]:
        raise OptionError(
            f"the column {own[0]!r} has the name of a job's own ({OWN}...): put the event into a column of its own, "
            "such as --into event (of joins --left-into, --right-into)"
        )
    return taken


def time_column(payload: Payload, names: Iterable[str]) -> str:
    """
    The name of the payload's column ``event_time``, in its own case, if that is the event's time; "": there is none.

    :raise OptionError: another column has this name.
    """
    taken = next((name for name in names if name.lower() == EVENT_TIME), "")
    if taken and getattr(payload, "event_time", "") != taken:
        raise OptionError(
            f"the column {taken!r} is the event's time: say that it is (--event-time {taken}; of joins --left-time, "
            "--right-time), or put the event into a column of its own, such as --into event"
        )
    return taken


def with_time(payload: Payload, readable: DataFrame, others: Sequence[Column] = ()) -> DataFrame:
    """
    The columns of a payload, and ``event_time``.

    :param readable: the parsed rows without unreadable ones.
    :param others: further columns, of these rows.
    :raise OptionError: another column of the payload has this name.
    """
    from pyspark.sql import functions as f

    columns: list[Any] = payload.columns(readable)
    events = readable.select(*columns)
    if taken := check_columns(payload, events.columns):
        columns = [f.col(f"_all.{quoted_name(name)}").alias(name) for name in events.columns if name != taken]
        readable = readable.withColumn("_all", f.struct(*payload.columns(readable)))
    return readable.select(*columns, f.col(payload.time).alias(EVENT_TIME), *others)


def expression(events: DataFrame, text: str, name: str) -> Column:
    """
    A column of an expression, which may be the event's time. A copy of that would have a watermark of its own in
    Spark, which rejects queries with two.
    """
    from pyspark.sql import functions as f

    column = f.expr(text)
    if "spark.watermarkDelayMs" in events.select(column.alias(name)).schema[0].metadata:
        column = f.timestamp_micros(f.unix_micros(column))
    return column.alias(name)
