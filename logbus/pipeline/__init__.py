"""
The Spark pipeline: a data source for topics, and jobs that load, count, join and check them.

.. code-block:: python

    from logbus.pipeline import register

    register(spark)
    events = spark.read.format("logbus").option("kafka.bootstrap.servers", "127.0.0.1:9092") \\
        .option("subscribe", "events").load()

Rows go from brokers through ``blocking`` and ``source`` to Spark, and from Spark through ``sink`` and ``blocking`` to
brokers, or, by ``jobs``, to tables of the ``lake``.

* ``session``: creates the Spark session of a job
* ``class_archive``: the archive from which Spark's Java starts in half the time
* ``spark_home``: a home directory of Spark from which Python starts in a third of the time
* ``worker_sockets``: connects Spark's Java and Python by Unix domain sockets
* ``worker_daemon``: Spark's daemon of Python workers, quieter
* ``hang_ups``: keeps Spark's Python processes quiet when Java has gone
* ``users_settings``: the settings of Spark that the user has made outside of the program
* ``datasource``: the data source ``format("logbus")``
* ``source``: its readers
* ``sink``: its writers
* ``blocking``: a blocking client of brokers
* ``functions``: from_avro, to_protobuf and others with a schema registry, for columns
* ``payloads``: formats of record values: bytes, JSON or Avro columns
* ``lake``: tables of Parquet files with the offsets in them
* ``jobs``: load, windows, joins, audit, mirror
* ``worker_memory``: keeps garbage collections of Spark's workers short
* ``options``: parses options
* ``arrow_types``: Spark's types as Arrow's, by any version of Spark
* ``errors``: the exceptions
* ``error_text``: makes errors short for users

It needs the extra ``spark`` and a Java runtime of version 17 or newer: ``pip install '.[spark]'`` in a
checkout.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from logbus.errors import LogbusError
from logbus.extras import install_hint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Missing", "check_packages", "register"]

_PACKAGES = ("pyspark", "pandas", "pyarrow")
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class Missing(LogbusError):
    """Something that the pipeline needs is not installed; the message says how to install it."""


def check_packages() -> None:
    """
    See whether the extra ``spark`` is installed.

    :raise Missing: it is not.
    """
    for name in _PACKAGES:
        if find_spec(name) is None:
            raise Missing(f"the pipeline needs {name}, which is not installed: {install_hint('spark')}")


def register(spark: SparkSession) -> None:
    """
    Make ``format("logbus")`` known to a session, for batches and streams, in both directions.

    Filters are pushed down to it: ``spark.sql.python.filterPushdown.enabled`` is set, unless the session has it as
    false.

    :raise Missing: a package is not installed.
    """
    check_packages()
    from logbus.pipeline.datasource import LogbusDataSource, PlainLogbusDataSource

    pushes = spark.conf.getAll.get(_PUSHDOWN, "true") == "true"
    if pushes:
        spark.conf.set(_PUSHDOWN, "true")
    # Spark reports an error for a source that takes filters in a session that does not push them down.
    spark.dataSource.register(LogbusDataSource if pushes else PlainLogbusDataSource)
