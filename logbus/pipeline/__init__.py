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

    :raise Missing: a package is not installed.
    """
    check_packages()
    from logbus.pipeline.datasource import LogbusDataSource

    spark.dataSource.register(LogbusDataSource)
