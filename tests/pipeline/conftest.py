"""One Spark for all tests that need one: it takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from logbus.pipeline.session import session
from logbus.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark of two cores, which knows ``format("logbus")``."""
    spark = session("tests", master="local[2]", settings=SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.stop()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker for the tests of a module: each test has topics of its own."""
    with Broker() as broker:
        yield broker
