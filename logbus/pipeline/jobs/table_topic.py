"""A compacted topic as a table, as a side of a join."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from logbus.errors import ApiError
from logbus.model import TopicPartition
from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.broker_check import check_topics
from logbus.pipeline.jobs.event_stream import check_columns, with_time
from logbus.pipeline.payloads.payload import Payload, RawPayload
from logbus.pipeline.source.offset_reader import OffsetReader
from logbus.pipeline.source.options import read_source_options as read_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@define
class TableStarts:
    """
    Tells of partitions of a table whose first records are gone, and with them the keys that have no later one.

    Compaction leaves the log start offset where it is; DeleteRecords and retention advance it.
    """

    _offset_reader: OffsetReader
    _told: dict[TopicPartition, int] = field(factory=dict, init=False)

    def look(self, tell: Callable[[str], None]) -> None:
        """
        Look where the partitions begin now.

        :param tell: is called with a message for each partition that begins later than when last told.
        :raise PipelineError: the topic does not exist.
        """
        reader = self._offset_reader
        try:
            partitions = reader.partitions(reader.topics())
        except ApiError as e:
            raise PipelineError(f"the table cannot be read: {e}") from e
        for each, offset in sorted(reader.earliest(partitions, allow_deleted=True).items()):
            if offset > self._told.get(each, 0):
                self._told[each] = offset
                tell(
                    f"{each} begins at offset {offset}: keys whose last record was before it are not in the table; "
                    "records are deleted by DeleteRecords, or by retention where cleanup.policy is not compact alone"
                )


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
        check_columns(self.payload, self.payload.own_columns)

    def check(self, tell: Callable[[str], None]) -> None:
        """See :func:`.check_topics`."""
        check_topics(read_options(self.source, streaming=False), tell)

    def starts(self) -> TableStarts:
        """Finds which partitions do not begin at their first record."""
        return TableStarts(OffsetReader(read_options(self.source, streaming=False)))

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
