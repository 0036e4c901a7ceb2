"""
The Spark data source ``format("logbus")`` (pyspark's ``DataSource``).

Modules are imported inside the methods: Spark runs each method in another process, which needs few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve
from pyspark.sql.datasource import DataSource

from logbus.errors import LogbusError
from logbus.pipeline.error_text import without_traceback

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader
    from pyspark.sql.types import StructType

    from logbus.pipeline.sink.columns import SinkColumns
    from logbus.pipeline.sink.options import SinkOptions
    from logbus.pipeline.sink.writers import BatchWriter, StreamWriter
    from logbus.pipeline.source.batch_reader import PlainBatchReader
    from logbus.pipeline.source.options import SourceOptions


class LogbusDataSource(DataSource):
    """Topics as a table or a stream."""

    @classmethod
    def name(cls) -> str:
        """As in ``format("logbus")``."""
        return "logbus"

    @without_traceback
    def schema(self) -> StructType:
        """
        The schema of the rows read. Spark calls this first, so the options are checked here.

        :raises OptionError: names the option that is wrong, and what it takes.
        """
        from logbus.pipeline.source import options as source_options
        from logbus.pipeline.source.schema import source_schema
        from logbus.pipeline.worker_daemon import begin_work

        begin_work()
        values = source_options.check_source_options(self.options)
        return source_schema(values["includeHeaders"])

    @without_traceback
    def reader(self, schema: StructType) -> PlainBatchReader:
        """
        The reader for ``spark.read``.

        :raises OptionError: names the option that is wrong, and what it takes.
        """
        from logbus.pipeline.source.batch_reader import LogbusBatchReader

        return LogbusBatchReader(self._source(schema, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """
        The reader for ``spark.readStream``. A wrong option is reported when Spark asks the reader for offsets, before
        any task: Spark would hide an error raised here behind one of its own.
        """
        from logbus.pipeline.source.stream_reader import FailingStreamReader, stream_reader

        try:
            return stream_reader(self._source(schema, streaming=True))
        except LogbusError as e:
            return FailingStreamReader(e)

    @without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """
        The writer for ``DataFrame.write``.

        :raises OptionError: names the option that is wrong, and what it takes.
        :raises ColumnError: names the column that is missing or wrong, and what it takes.
        :raises PipelineError: there is no such topic.
        """
        from logbus.pipeline.errors import OptionError
        from logbus.pipeline.sink.writers import BatchWriter

        if overwrite:
            raise OptionError("a topic cannot be overwritten: rows are only added to it; use mode('append')")
        return BatchWriter(*self._sink(schema, streaming=False))

    @without_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """
        The writer for ``DataFrame.writeStream``; raises what :meth:`writer` raises. In output mode ``complete`` the
        rows of each batch are appended like any others.
        """
        from logbus.pipeline.sink.writers import StreamWriter

        return StreamWriter(*self._sink(schema, streaming=True))

    def _source(self, schema: StructType, *, streaming: bool) -> SourceOptions:
        from logbus.pipeline.source import options as source_options
        from logbus.pipeline.source.schema import wanted_columns
        from logbus.pipeline.worker_daemon import begin_work

        begin_work()
        options = source_options.read_source_options(self.options, streaming=streaming)
        return evolve(options, columns=wanted_columns(schema, options.include_headers))

    def _sink(self, schema: StructType, *, streaming: bool) -> tuple[SinkOptions, SinkColumns]:
        from logbus.pipeline.sink import options as sink_options
        from logbus.pipeline.sink.columns import sink_columns
        from logbus.pipeline.sink.writers import check_topic
        from logbus.pipeline.worker_daemon import begin_work

        begin_work()
        options = sink_options.read_sink_options(self.options, streaming=streaming)
        columns = sink_columns(((each.name, each.dataType.simpleString()) for each in schema.fields), options.topic)
        check_topic(options)
        return options, columns


class PlainLogbusDataSource(LogbusDataSource):
    """The same for sessions in which filters are not pushed down."""

    def reader(self, schema: StructType) -> PlainBatchReader:
        """See :class:`LogbusDataSource`."""
        from logbus.pipeline.source.batch_reader import PlainBatchReader

        return PlainBatchReader(self._source(schema, streaming=False))
