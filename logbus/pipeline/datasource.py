"""What Spark calls ``format("logbus")``."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource


class LogbusDataSource(DataSource):
    """Topics as a table or a stream."""

    @classmethod
    def name(cls) -> str:
        return "logbus"
