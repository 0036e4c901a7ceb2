"""The batch reader of the data source: reads the offsets between two positions (Spark: KafkaRelation)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from logbus.pipeline.error_text import without_traceback
from logbus.pipeline.source.data_loss import DataLossReport
from logbus.pipeline.source.offset_ranges import ranges_between, split
from logbus.pipeline.source.offset_reader import OffsetReader, topic_ids
from logbus.pipeline.source.options import SourceOptions
from logbus.pipeline.source.partition_reader import RangePartition, read_partition
from logbus.pipeline.source.pushdown import PushedFilters, push
from logbus.pipeline.worker_daemon import begin_work


class PlainBatchReader(DataSourceReader):
    """Plans and reads a batch (``spark.read``). Spark pickles it to the workers; it has no connections."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._pushed = PushedFilters()

    @without_traceback
    def partitions(self) -> Sequence[InputPartition]:
        """One task for each offset range. Latest offsets are resolved here."""
        begin_work()
        options = self._options
        offset_reader = OffsetReader(options)
        topics = offset_reader.topics()
        partitions = offset_reader.partitions(topics)
        start = offset_reader.resolve(options.starting, partitions, ending=False)
        end = offset_reader.resolve(options.ending, partitions, ending=True)
        start, end = self._pushed.bounded(start, end)
        if not start:
            return []
        first, last = offset_reader.earliest(start), offset_reader.latest(start)
        sentences = []
        for each in sorted(start):
            if start[each] < min(first[each], end[each]):
                sentences.append(f"{each} begins at {first[each]}, and {start[each]} was to be read")
            if max(start[each], end[each]) > last[each]:
                sentences.append(f"{each} ends at {last[each]}, and was to be read up to {max(start[each], end[each])}")
        DataLossReport(options.fail_on_data_loss).report(sentences)
        start = {each: max(offset, first[each]) for each, offset in start.items()}
        end = {each: min(offset, last[each]) for each, offset in end.items()}
        if self._pushed.since is not None:
            # Asked for after the ends are known: what is written later is not read in any case.
            since = offset_reader.at_or_after(self._pushed.since, start)
            start = {each: max(offset, since.get(each, end[each])) for each, offset in start.items()}
        ranges = ranges_between(start, end, topic_ids(topics))
        return [
            RangePartition(each) for each in split(ranges, options.min_partitions, options.max_records_per_partition)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the rows of a range, in a worker."""
        if isinstance(partition, RangePartition):
            yield from read_partition(self._options, partition.value)
        # If there is nothing to read, Spark passes a partition of its own.


class LogbusBatchReader(PlainBatchReader):
    """The same with filters, which Spark pushes down if ``spark.sql.python.filterPushdown.enabled`` is set."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Note what partitions and offsets are wanted; the filters that Spark has to apply as well are returned."""
        begin_work()
        self._pushed, left = push(filters)
        return left
