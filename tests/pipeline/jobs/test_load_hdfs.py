"""Tests loads to a real HDFS: claims, commits, compaction and checkpoints by a namenode's own renames."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from logbus.pipeline.errors import ClaimLost, LakeError
from logbus.pipeline.jobs.event_stream import EventStream
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.outputs import ToTable
from logbus.pipeline.jobs.streaming_query import QuerySettings
from logbus.pipeline.jobs.windows import TumblingWindow, WindowsOptions
from logbus.pipeline.jobs.windows import run as run_windows
from logbus.pipeline.lake.formats import table_at
from logbus.pipeline.lake.table import Table
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.testing import Broker
from tests.pipeline.conftest import CACHE
from tests.pipeline.hdfs_server import HdfsServer
from tests.pipeline.load_fixtures import BASE, HOUR, fill, load, make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long
PAYLOAD = JsonPayload(schema="e INT")


@pytest.fixture(scope="module")
def hdfs() -> Iterator[str]:
    """Its URL."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(HdfsServer(CACHE))
        except RuntimeError as e:
            pytest.skip(f"Hadoop's servers are not there: {e}")
        yield server.url


def _places(spark: SparkSession, url: str) -> list[tuple[int, int]]:
    """What any reader of Parquet finds, with what is there twice."""
    return sorted(tuple(row) for row in spark.read.parquet(url).select("partition", "offset").collect())


def test_parquet(spark: SparkSession, broker: Broker, hdfs: str) -> None:
    """Batches, a quarantine, a job that has lost its claim, and a compaction; each record once."""
    url: Any = f"{hdfs}/lake/views"
    topic = make(broker, 2)
    values = [b'{"e": %d}' % number if number % 5 else b"odd" for number in range(20)]
    for partition in range(2):
        fill(broker, topic, values, partition, lambda number: BASE + number % 2 * HOUR)
    good = [(partition, offset) for partition in range(2) for offset in range(20) if offset % 5]
    into: dict[str, Any] = {"payload": PAYLOAD, "batch_offsets": 10}

    def overtake(line: str) -> None:
        if line.startswith("commit "):
            Table.at(spark, url).claim()

    with pytest.raises(ClaimLost, match="two jobs write to one table"):
        load(spark, broker, url, topic, JobControl(overtake), **into)
    first = len(_places(spark, url))
    assert 0 < first < len(good)
    report = load(spark, broker, url, topic, compact=2, **into)
    assert report.offsets == 30
    assert report.compacted
    assert _places(spark, url) == good
    table = table_at(spark, url)
    assert sorted(row["offset"] for row in table.read_quarantine().collect()) == [0, 0, 5, 5, 10, 10, 15, 15]
    assert load(spark, broker, url, topic, **into).batches == 0
    with pytest.raises(LakeError, match="to hdfs: directly"):
        load(spark, broker, f"{hdfs}/lake/delta", topic, format="delta", **into)  # type: ignore[arg-type]


def test_windows(spark: SparkSession, broker: Broker, hdfs: str) -> None:
    """With a checkpoint and a table there, in two runs."""
    topic = make(broker)
    source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}
    options = WindowsOptions(
        stream=EventStream(source=source, payload=PAYLOAD),
        window=TumblingWindow("1 hour"),
        outputs=[ToTable(f"{hdfs}/lake/hourly")],
        running=QuerySettings(f"{hdfs}/checkpoints/hourly", None, 0.01, True),
    )
    for first in (0, 5):
        fill(broker, topic, [b'{"e": 1}'] * 5, times=lambda number, first=first: BASE + (first + number) * HOUR)  # type: ignore[misc]
        run_windows(spark, options)
    counts = [row["count"] for row in table_at(spark, f"{hdfs}/lake/hourly").read().collect()]
    assert counts == [1] * 10
