"""
A data source that adds the watermark of :mod:`~logbus.pipeline.jobs.late_watermark` to its rows as a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from logbus.errors import LogbusError
from logbus.pipeline.datasource import LogbusDataSource
from logbus.pipeline.jobs.late_watermark import LATE_WATERMARK
from logbus.pipeline.source.options import SourceOptions
from logbus.pipeline.source.options import read_source_options as read_options
from logbus.pipeline.source.partition_reader import read_partition
from logbus.pipeline.source.stream_reader import FailingStreamReader, LogbusStreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "logbus-late-watermark"
OPTION = "latewatermarkfile"


class LateWatermarkSource(DataSource):
    """
    ``format("logbus")`` for streams with an additional column: the watermark in microseconds since 1970. The option
    :data:`OPTION` names the file.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        given = {name.lower(): name for name in options}
        self._file = options[given[OPTION]]
        self._given = {name: options[name] for low, name in given.items() if low != OPTION}

    @classmethod
    def name(cls) -> str:
        """See the class."""
        return FORMAT

    def schema(self) -> StructType:
        """See :meth:`.LogbusDataSource.schema`."""
        from pyspark.sql.types import LongType

        return LogbusDataSource(self._given).schema().add(LATE_WATERMARK, LongType())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """See :meth:`.LogbusDataSource.streamReader`."""
        try:
            return _Reader(read_options(self._given, streaming=True), self._file)
        except LogbusError as e:
            return FailingStreamReader(e)


class _Reader(LogbusStreamReader):
    def __init__(self, options: SourceOptions, file: str) -> None:
        super().__init__(options)
        self._file = file

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Read the watermark, in the process that plans, and pass it to the tasks."""
        micros = int(Path(self._file).read_text()) * 1000
        return [InputPartition((each.value, micros)) for each in super().partitions(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read rows in a worker, and add the column."""
        wanted, micros = partition.value
        for rows in read_partition(self._options, wanted):
            yield rows.append_column(LATE_WATERMARK, pa.repeat(pa.scalar(micros, pa.int64()), rows.num_rows))
