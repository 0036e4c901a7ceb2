"""The stream reader of the data source (Spark: KafkaMicroBatchStream)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from logbus.client.cluster.topic_metadata import TopicMetadata
from logbus.errors import LogbusError
from logbus.model import TopicPartition
from logbus.pipeline.error_text import without_traceback
from logbus.pipeline.errors import OptionError
from logbus.pipeline.hang_ups import expect_hang_up
from logbus.pipeline.source.data_loss import DataLossReport
from logbus.pipeline.source.offset_ranges import ranges_between, rate_limited, should_delay, split
from logbus.pipeline.source.offset_reader import OffsetReader, topic_ids
from logbus.pipeline.source.offsets_json import PartitionOffsets, offsets_to_json
from logbus.pipeline.source.options import SourceOptions
from logbus.pipeline.source.partition_reader import RangePartition, read_partition
from logbus.pipeline.source.read_limits import (
    HAS_LIMITS,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from logbus.pipeline.source.stream_offset import StreamOffset, resume_offsets


class LogbusStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """
    Plans and reads the batches of a stream (``spark.readStream``).

    One instance plans, in a Python process beside the driver; others are pickled to the workers and read.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._losses = DataLossReport(options.fail_on_data_loss)
        self._offset_reader = OffsetReader(options)
        self._initial: StreamOffset | None = None
        self._target: StreamOffset | None = None
        self._latest: PartitionOffsets | None = None
        self._last_batch: float | None = None

    # Planning.

    @without_traceback
    def initialOffset(self) -> dict[str, Any]:
        """The start of a new stream. Spark asks more than once, and gets the same."""
        if self._initial is None:
            topics = self._offset_reader.topics()
            partitions = self._offset_reader.partitions(topics)
            offsets = self._offset_reader.resolve(self._options.starting, partitions, ending=False)
            self._initial = StreamOffset(offsets, topic_ids(topics))
        return self._initial.as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit in the options; Spark passes it to :meth:`latestOffset`."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end at the present latest offsets, for ``trigger(availableNow=True)``."""
        self._target = self._latest_offsets(StreamOffset({}))

    @without_traceback
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """
        The end of the next batch; ``start`` if there is none.

        :raises DataLossFound: offsets are gone, and ``failOnDataLoss`` is set.
        """
        begun = StreamOffset.read(start)
        end = self._target or self._latest_offsets(begun)
        self._latest = end.offsets
        is_first = self._initial is not None and begun == self._initial
        offsets = self._batch_end(begun, end, limit)
        if offsets is None or (offsets == begun.offsets and end.ids == begun.ids and not is_first):
            return start
        return StreamOffset(offsets, end.ids, begun.offsets if is_first else None).as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The latest offsets of the topics, for progress reports."""
        return None if self._latest is None else offsets_to_json(self._latest)

    @without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """
        One task for each offset range.

        :raises DataLossFound: offsets are gone, and ``failOnDataLoss`` is set.
        """
        begun, stop = StreamOffset.read(start), StreamOffset.read(end)
        topics, there = self._described(stop.offsets.keys())
        first = self._offset_reader.earliest(sorted(there & stop.offsets.keys()), allow_deleted=True)
        offsets, sentences = resume_offsets(begun, stop, topic_ids(topics), first)
        self._losses.report(sentences)
        ranges = ranges_between(offsets, {each: stop.offsets[each] for each in offsets}, stop.ids)
        options = self._options
        return [
            RangePartition(each) for each in split(ranges, options.min_partitions, options.max_records_per_partition)
        ]

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: offsets are in Spark's checkpoint only."""

    def stop(self) -> None:
        """Close the connections at the end of the query."""
        expect_hang_up()
        self._offset_reader.brokers.close()

    # Reading.

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the rows of a range, in a worker."""
        yield from read_partition(self._options, partition.value)

    # Planning: offsets.

    def _latest_offsets(self, begun: StreamOffset) -> StreamOffset:
        """
        The latest offsets of the selected partitions. One that is before the offset read so far may come from a stale
        leader, and a partition that is gone may not be known yet to a broker that has just started, so these are
        requested again a few times.
        """
        known = {each.topic for each in begun.offsets} if self._options.fail_on_data_loss else None
        for attempt in range(self._options.end_retries + 1):
            topics = self._offset_reader.topics(known)
            ends = StreamOffset(
                self._offset_reader.latest(self._offset_reader.partitions(topics), allow_deleted=True),
                topic_ids(topics),
            )
            back = [
                each
                for each, offset in ends.offsets.items()
                if offset < begun.offsets.get(each, 0) and ends.ids.get(each.topic) == begun.ids.get(each.topic)
            ]
            if not (back or begun.offsets.keys() - ends.offsets.keys()) or attempt == self._options.end_retries:
                break
            time.sleep(self._options.end_retry_interval)
        return ends

    def _described(self, wanted: Collection[TopicPartition]) -> tuple[dict[str, TopicMetadata], set[TopicPartition]]:
        """The topics of partitions, and all partitions of these; if one is missing, they are requested again."""
        names = {each.topic for each in wanted}
        for attempt in range(self._options.end_retries + 1):
            topics = self._offset_reader.brokers.metadata(names)
            there = {TopicPartition(name, index) for name, topic in topics.items() for index in topic.partitions}
            if there.issuperset(wanted) or attempt == self._options.end_retries:
                break
            time.sleep(self._options.end_retry_interval)
        return topics, there

    def _batch_end(self, begun: StreamOffset, end: StreamOffset, limit: ReadLimit) -> PartitionOffsets | None:
        """The end offsets of the next batch; None: there is none yet."""
        options = self._options
        first = self._offset_reader.earliest(end.offsets, allow_deleted=True)
        start, sentences = resume_offsets(begun, end, end.ids, first)
        if self._target is None and isinstance(limit, (ReadMinRows, ReadMaxRows)):
            at_least = options.min_offsets_per_trigger
            since = float("inf") if self._last_batch is None else time.monotonic() - self._last_batch
            if at_least is not None and should_delay(start, end.offsets, at_least, since, options.max_trigger_delay):
                return None
        # Reported here, since Spark does not plan a batch without offsets.
        self._losses.report(sentences)
        self._last_batch = time.monotonic()
        if isinstance(limit, ReadMaxRows):
            return rate_limited(start, end.offsets, limit.max_rows)
        return end.offsets


class UnlimitedStreamReader(LogbusStreamReader):
    """
    The reader for Spark 4.1, which does not say where the last batch ended: this remembers what it said.

    :raises OptionError: batches are to be limited.
    """

    def __init__(self, options: SourceOptions) -> None:
        for name, value in (
            ("maxOffsetsPerTrigger", options.max_offsets_per_trigger),
            ("minOffsetsPerTrigger", options.min_offsets_per_trigger),
        ):
            if value is not None:
                raise OptionError(f"option {name!r} needs Spark 4.2, and this is an older one; leave it out")
        super().__init__(options)
        self._said: dict[str, Any] | None = None

    @without_traceback
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """The end of the next batch; the last one if there is none."""
        start = self._said or (None if self._initial is None else self._initial.as_json())
        if start is None:
            # After a restart the start is not known here: partitions() compares it with the log.
            self._said = self._latest_offsets(StreamOffset({})).as_json()
        else:
            self._said = super().latestOffset(start, ReadAllAvailable())
        return self._said


def stream_reader(options: SourceOptions) -> LogbusStreamReader:
    """
    The reader that this Spark can use.

    :raises OptionError: it cannot limit batches, and they are to be limited.
    """
    return LogbusStreamReader(options) if HAS_LIMITS else UnlimitedStreamReader(options)


class FailingStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """
    The reader of a stream with wrong options.

    :param problem: the error, raised when Spark asks for offsets.
    """

    def __init__(self, problem: LogbusError) -> None:
        self._problem = problem

    @without_traceback
    def initialOffset(self) -> dict[str, Any]:
        """See the class."""
        raise self._problem

    @without_traceback
    def latestOffset(self, *_: Any) -> dict[str, Any]:
        """See the class."""
        raise self._problem

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        """See the class."""
        raise self._problem

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read nothing."""
        return iter(())
