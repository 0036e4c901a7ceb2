"""Fixtures: a Spark session shared by all tests, brokers and commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.compare.jars import spark_kafka_jars
from logbus.cli.app import run_app
from logbus.pipeline.session import session
from logbus.testing import Broker
from tests.pipeline.standalone import Standalone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.driver.memory": "1g",
    # Most code is run a few times: compiling it well takes longer than it saves.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
CACHE = Path(os.environ.get("LOGBUS_JARS", "~/.cache/logbus-benchmarks")).expanduser()


NEEDS_SPARK = {"spark", "standalone"}
"""Fixtures: tests that have one of them are marked ``spark``."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before those are left out that are not wanted."""
    for each in items:
        if NEEDS_SPARK & set(getattr(each, "fixturenames", ())):
            each.add_marker("spark")


@pytest.fixture(scope="session")
def kafka_jars() -> list[Path] | str:
    """Spark's own connector for Kafka, which must be there when Spark starts; or why it is not there."""
    try:
        return sorted(spark_kafka_jars(CACHE).glob("*.jar"))
    except RuntimeError as e:
        return str(e)


@pytest.fixture(scope="session")
def spark(kafka_jars: list[Path] | str) -> Iterator[SparkSession]:
    """A local Spark of two cores, which knows ``format("logbus")``."""
    jars = {} if isinstance(kafka_jars, str) else {"spark.jars": ",".join(map(str, kafka_jars))}
    spark = session("tests", master="local[2]", settings={**SETTINGS, **jars})
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def standalone() -> Iterator[Standalone]:
    """A Spark of several processes, whose executors can be killed: a master and two workers of a core each."""
    with Standalone() as running:
        yield running


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker for the tests of a module: each test has topics of its own."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def spark_kafka(spark: SparkSession, kafka_jars: list[Path] | str) -> SparkSession:
    """The same, where it knows ``format("kafka")`` too."""
    if isinstance(kafka_jars, str):
        pytest.skip(f"Spark's connector for Kafka is not there: {kafka_jars}")
    return spark


class Kept:
    """A session that outlives the command that uses it."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        """It is needed by other tests."""


@pytest.fixture
def command(
    spark: SparkSession, broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs ``logbus pipeline ...`` on the Spark that is there; its status, and what it says on both outputs."""
    monkeypatch.setattr("logbus.pipeline.session.session", lambda *_, **__: Kept(spark))
    monkeypatch.setenv("LOGBUS_BOOTSTRAP", broker.bootstrap)

    def run(*arguments: object) -> tuple[int, str, str]:
        status = run_app(["pipeline", *map(str, arguments)])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def made(broker: Broker, **partitions: int) -> None:
    """Make topics that are not there yet, of so many partitions."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    wanted = {name.replace("_", "-"): count for name, count in partitions.items()}
    there = admin.list_topics(timeout=120).topics
    new = [NewTopic(name, count, 1) for name, count in wanted.items() if name not in there]
    if new:
        for made_one in admin.create_topics(new).values():
            made_one.result(timeout=120)
