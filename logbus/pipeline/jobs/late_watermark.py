"""
Adds the watermark by which Spark drops late events as a column, so that late events can be counted.

Spark drops rows older than the watermark of the previous batch, and counts them after partial aggregation: its
``numRowsDroppedByWatermark`` does not count events. No Spark expression returns that watermark. So the driver writes
it to a file before a batch is planned, the process that plans the batch passes it to the tasks, and they add it to the
rows.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from attrs import frozen
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from logbus.errors import LogbusError
from logbus.pipeline.datasource import LogbusDataSource
from logbus.pipeline.errors import PipelineError
from logbus.pipeline.jobs.event_stream import LATE_WATERMARK
from logbus.pipeline.source.options import SourceOptions
from logbus.pipeline.source.options import read_source_options as read_options
from logbus.pipeline.source.partition_reader import read_partition
from logbus.pipeline.source.stream_reader import FailingStreamReader, LogbusStreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from logbus.pipeline.lake.file_system import FileSystem

FORMAT = "logbus-late-watermark"
OPTION = "latewatermarkfile"


@frozen
class LateWatermark:
    """
    The file with the watermark of the next batch.

    :ivar path: a local file of the driver, where Spark plans batches.
    """

    path: Path

    @classmethod
    @contextmanager
    def made(cls) -> Iterator[LateWatermark]:
        """A temporary file for a run of a query."""
        with tempfile.TemporaryDirectory(prefix="logbus-") as directory:
            made = cls(Path(directory) / "watermark")
            made.set(0)
            yield made

    def set(self, ms: int) -> None:
        """Write the watermark for the next batch, in milliseconds since 1970."""
        draft = self.path.with_suffix(".draft")
        draft.write_text(str(ms))
        os.replace(draft, self.path)

    def look(self, checkpoint: FileSystem) -> None:
        """
        Take the watermark from the last finished batch in the checkpoint, before a query starts.

        :raise PipelineError: the checkpoint is damaged.
        """
        done = [int(name) for name in checkpoint.names("commits") if name.isdigit()]
        self.set(watermark_of(checkpoint, max(done)) if done else 0)

    def after(self, checkpoint: FileSystem, batch: int) -> None:
        """
        Take the watermark from a batch whose outputs are written.

        :raise PipelineError: the checkpoint is damaged.
        """
        self.set(watermark_of(checkpoint, batch))


def watermark_of(checkpoint: FileSystem, batch: int) -> int:
    """
    The watermark of a batch in milliseconds, from Spark's ``OffsetSeqLog``; 0 if there was none.

    :raise PipelineError: the file does not have it.
    """
    try:
        return int(json.loads(checkpoint.read(f"offsets/{batch}").splitlines()[1])["batchWatermarkMs"])
    except (OSError, ValueError, KeyError, TypeError, IndexError) as e:
        raise PipelineError(f"{checkpoint.url}/offsets/{batch} does not say which watermark it has: {e!r}") from e


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
