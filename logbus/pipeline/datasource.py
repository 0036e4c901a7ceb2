"""What Spark calls ``format("logbus")``."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from logbus.pipeline.errors import OptionError
from logbus.pipeline.sink import options as sink_options
from logbus.pipeline.sink.columns import Columns, columns_of
from logbus.pipeline.sink.writing import BatchWriter, StreamWriter, check_topic
from logbus.pipeline.source import options as source_options
from logbus.pipeline.source.batch import LogbusBatchReader
from logbus.pipeline.source.schema import check_schema, source_schema
from logbus.pipeline.source.stream import LogbusStreamReader


class LogbusDataSource(DataSource):
    """Topics as a table or a stream."""

    @classmethod
    def name(cls) -> str:
        """As in ``format("logbus")``."""
        return "logbus"

    def schema(self) -> StructType:
        """Of what is read."""
        return source_schema(source_options.include_headers(self.options))

    def reader(self, schema: StructType) -> LogbusBatchReader:
        """
        For ``spark.read``.

        :raises OptionError: names the option that is wrong, and what it takes.
        """
        options = source_options.read(self.options, streaming=False)
        check_schema(schema, options.include_headers)
        return LogbusBatchReader(options)

    def streamReader(self, schema: StructType) -> LogbusStreamReader:
        """
        For ``spark.readStream``.

        :raises OptionError: names the option that is wrong, and what it takes.
        """
        options = source_options.read(self.options, streaming=True)
        check_schema(schema, options.include_headers)
        return LogbusStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """
        For ``DataFrame.write``.

        :raises OptionError: names the option that is wrong, and what it takes.
        :raises ColumnError: names the column that is missing or wrong, and what it takes.
        :raises PipelineError: there is no such topic.
        """
        if overwrite:
            raise OptionError("a topic cannot be overwritten: rows are only added to it; use mode('append')")
        return BatchWriter(*self._sink(schema, streaming=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """
        For ``DataFrame.writeStream``: raises what :meth:`writer` raises. In output mode ``complete`` the rows of each
        batch are added like any others.
        """
        return StreamWriter(*self._sink(schema, streaming=True))

    def _sink(self, schema: StructType, *, streaming: bool) -> tuple[sink_options.SinkOptions, Columns]:
        options = sink_options.read(self.options, streaming=streaming)
        columns = columns_of(((each.name, each.dataType.simpleString()) for each in schema.fields), options.topic)
        check_topic(options)
        return options, columns
