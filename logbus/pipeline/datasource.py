"""
The Spark data source ``format("logbus")`` (pyspark's ``DataSource``).

Modules are imported inside the methods: Spark runs each method in another process, which needs few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from logbus.errors import LogbusError
from logbus.pipeline.brief import brief

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader
    from pyspark.sql.types import StructType

    from logbus.pipeline.sink.columns import Columns
    from logbus.pipeline.sink.options import SinkOptions
    from logbus.pipeline.sink.writing import BatchWriter, StreamWriter
    from logbus.pipeline.source.batch import LogbusBatchReader


class LogbusDataSource(DataSource):
    """Topics as a table or a stream."""

    @classmethod
    def name(cls) -> str:
        """As in ``format("logbus")``."""
        return "logbus"

    @brief
    def schema(self) -> StructType:
        """
        The schema of the rows read. Spark calls this first, so the options are checked here.

        :raises OptionError: names the option that is wrong, and what it takes.
        """
        from logbus.pipeline.source import options as source_options
        from logbus.pipeline.source.schema import source_schema

        return source_schema(source_options.check(self.options)["includeHeaders"])

    @brief
    def reader(self, schema: StructType) -> LogbusBatchReader:
        """
        The reader for ``spark.read``.

        :raises OptionError: names the option that is wrong, and what it takes.
        """
        from logbus.pipeline.source import options as source_options
        from logbus.pipeline.source.batch import LogbusBatchReader
        from logbus.pipeline.source.schema import check_schema

        options = source_options.read(self.options, streaming=False)
        check_schema(schema, options.include_headers)
        return LogbusBatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """
        The reader for ``spark.readStream``. A wrong option is reported when Spark asks the reader for offsets, before
        any task: Spark would hide an error raised here behind one of its own.
        """
        from logbus.pipeline.source import options as source_options
        from logbus.pipeline.source.schema import check_schema
        from logbus.pipeline.source.stream import LogbusStreamReader, RefusedReader

        try:
            options = source_options.read(self.options, streaming=True)
            check_schema(schema, options.include_headers)
        except LogbusError as e:
            return RefusedReader(e)
        return LogbusStreamReader(options)

    @brief
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """
        The writer for ``DataFrame.write``.

        :raises OptionError: names the option that is wrong, and what it takes.
        :raises ColumnError: names the column that is missing or wrong, and what it takes.
        :raises PipelineError: there is no such topic.
        """
        from logbus.pipeline.errors import OptionError
        from logbus.pipeline.sink.writing import BatchWriter

        if overwrite:
            raise OptionError("a topic cannot be overwritten: rows are only added to it; use mode('append')")
        return BatchWriter(*self._sink(schema, streaming=False))

    @brief
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """
        The writer for ``DataFrame.writeStream``; raises what :meth:`writer` raises. In output mode ``complete`` the
        rows of each batch are appended like any others.
        """
        from logbus.pipeline.sink.writing import StreamWriter

        return StreamWriter(*self._sink(schema, streaming=True))

    def _sink(self, schema: StructType, *, streaming: bool) -> tuple[SinkOptions, Columns]:
        from logbus.pipeline.sink import options as sink_options
        from logbus.pipeline.sink.columns import columns_of
        from logbus.pipeline.sink.writing import check_topic

        options = sink_options.read(self.options, streaming=streaming)
        columns = columns_of(((each.name, each.dataType.simpleString()) for each in schema.fields), options.topic)
        check_topic(options)
        return options, columns
