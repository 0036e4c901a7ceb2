"""
The data pipeline on Spark: topics as tables and streams, and jobs that load, count, join and check them.

.. code-block:: python

    from logbus.pipeline import register

    register(spark)
    events = spark.read.format("logbus").option("kafka.bootstrap.servers", "127.0.0.1:9092") \\
        .option("subscribe", "events").load()

::

    session.py    a Spark session, and what is missing for one
    datasource.py what Spark calls ``format("logbus")``;  source/ reads,  sink/ writes
    blocking/     the client that both use: sockets, no reactor
    lake/         Parquet tables that know which offsets are in them
    jobs/         load, windows, joins, audit, mirror check

It needs the extra ``spark`` and a Java runtime of version 17 or newer: ``pip install 'logbus[spark]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make ``format("logbus")`` known to a session, for batches and streams, in both directions."""
    from logbus.pipeline.datasource import LogbusDataSource

    spark.dataSource.register(LogbusDataSource)
