"""
The data source of event streams: ``format("logbus")`` with three more columns.

``_late_watermark`` is the watermark by which late events are counted (:mod:`~logbus.pipeline.jobs.late_watermark`).
``_logbus_punctuation`` is set in rows that only advance the watermark (:mod:`~logbus.pipeline.jobs.punctuation`). The
time of the last one is in the stream's offsets, so that Spark's checkpoint has it, and a repeated batch has it again.
``_logbus_lost`` is set in punctuations that count offsets which were gone, where that is no error
(``failOnDataLoss=false``): Spark's metrics of a batch are of its rows, wherever tasks run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from logbus.errors import LogbusError
from logbus.pipeline.datasource import LogbusDataSource
from logbus.pipeline.jobs.late_watermark import LATE_WATERMARK
from logbus.pipeline.jobs.punctuation import BEFORE_ALL, LOST, NO_TOPIC, PUNCTUATION, PunctuationFile
from logbus.pipeline.source.arrow import SCHEMA, SCHEMA_WITH_HEADERS
from logbus.pipeline.source.data_loss import DataLossReport
from logbus.pipeline.source.options import SourceOptions
from logbus.pipeline.source.options import read_source_options as read_options
from logbus.pipeline.source.partition_reader import read_partition
from logbus.pipeline.source.stream_offset import StreamOffset, offsets_between
from logbus.pipeline.source.stream_reader import FailingStreamReader, LogbusStreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "logbus-events"
LATE_OPTION = "latewatermarkfile"
PUNCTUATION_OPTION = "punctuationfile"

_PUNCTUATED = ":punctuated"
"""The key of offsets with the time of the last punctuation, which cannot be the name of a topic."""


class EventSource(DataSource):
    """
    ``format("logbus")`` for streams, with the columns :data:`LATE_WATERMARK` and :data:`PUNCTUATION`, both in
    microseconds since 1970, and :data:`LOST`. The options :data:`LATE_OPTION` and :data:`PUNCTUATION_OPTION` name
    files; without them there is no watermark and no punctuation.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        given = {name.lower(): name for name in options}
        own = (LATE_OPTION, PUNCTUATION_OPTION)
        self._late, self._punctuation = (Path(options[given[each]]) if each in given else None for each in own)
        self._given = {name: options[name] for low, name in given.items() if low not in own}

    @classmethod
    def name(cls) -> str:
        """See the class."""
        return FORMAT

    def schema(self) -> StructType:
        """See :meth:`.LogbusDataSource.schema`."""
        from pyspark.sql.types import LongType

        schema = LogbusDataSource(self._given).schema()
        for name in (LATE_WATERMARK, PUNCTUATION, LOST):
            schema = schema.add(name, LongType())
        return schema

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """See :meth:`.LogbusDataSource.streamReader`."""
        try:
            file = None if self._punctuation is None else PunctuationFile(self._punctuation)
            return EventStreamReader(read_options(self._given, streaming=True), self._late, file)
        except LogbusError as e:
            return FailingStreamReader(e)


class EventStreamReader(LogbusStreamReader):
    """
    The reader of an :class:`EventSource`.

    :param late: the file with the watermark; None: it is 0.
    :param punctuation: if there is one, batches have it and no records.
    """

    def __init__(self, options: SourceOptions, late: Path | None, punctuation: PunctuationFile | None) -> None:
        super().__init__(options)
        self._losses = DataLossReport(options.fail_on_data_loss, "--source failOnDataLoss=false")
        self._late, self._punctuation = late, punctuation

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch: a punctuation, or records. ``start`` if there is neither."""
        wanted = None if self._punctuation is None else self._punctuation.read()
        if wanted is not None:
            return start if start.get(_PUNCTUATED) == wanted else punctuated(start, wanted)
        begun = _of_records(start)
        end = super().latestOffset(begun, limit)
        if end == begun:
            return start
        return {**end, _PUNCTUATED: start[_PUNCTUATED]} if _PUNCTUATED in start else end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Read the watermark, in the process that plans, and pass it to the tasks; one more counts what is gone."""
        micros = 0 if self._late is None else int(self._late.read_text()) * 1000
        time = end.get(_PUNCTUATED)
        if time != start.get(_PUNCTUATED):
            return [InputPartition((None, micros, time, None))]
        begun, stop = _of_records(start), _of_records(end)
        ranges = super().partitions(begun, stop)
        parts = [InputPartition((each.value, micros, None, None)) for each in ranges]
        there = sum(each.value.size for each in ranges)
        if lost := offsets_between(StreamOffset.read(begun), StreamOffset.read(stop)) - there:
            parts.append(InputPartition((None, micros, BEFORE_ALL, lost)))
        return parts

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read rows in a worker, and add the columns."""
        wanted, micros, time, lost = partition.value
        options = self._options
        if wanted is not None:
            losses: list[int] = []
            for rows in read_partition(options, wanted, losses.append):
                yield _with_columns(rows, micros, None, None)
            if not losses:
                return
            time, lost = BEFORE_ALL, sum(losses)
        yield _with_columns(punctuation(options.include_headers, time), micros, time, lost)


def punctuated(start: Mapping[str, Any], micros: int) -> dict[str, Any]:
    """The offsets behind a punctuation: those at which it begins, without the beginning of the first batch."""
    begun = StreamOffset.read(_of_records(start))
    return {**StreamOffset(begun.offsets, begun.ids).as_json(), _PUNCTUATED: micros}


def stream_offset(offset: Mapping[str, Any]) -> StreamOffset:
    """
    The position of the records in an offset of Spark's checkpoint.

    :raises PipelineError: it is not a position of this source.
    """
    return StreamOffset.read(_of_records(offset))


def punctuation(headers: bool, micros: int) -> Any:
    """
    The row of a punctuation as ``pyarrow.RecordBatch``.

    :param headers: with the column ``headers``.
    :param micros: its event time in microseconds since 1970.
    """
    row = {"topic": NO_TOPIC, "timestamp": micros}
    schema = SCHEMA_WITH_HEADERS if headers else SCHEMA
    columns = [pa.array([row.get(each.name)], each.type) for each in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_columns(rows: Any, late: int, time: int | None, lost: int | None) -> Any:
    """Add the columns of this source, the same in all rows."""
    for name, value in ((LATE_WATERMARK, late), (PUNCTUATION, time), (LOST, lost)):
        rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.int64()), rows.num_rows))
    return rows


def _of_records(offset: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in offset.items() if name != _PUNCTUATED}
