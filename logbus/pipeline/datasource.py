"""What Spark calls ``format("logbus")``."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

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
