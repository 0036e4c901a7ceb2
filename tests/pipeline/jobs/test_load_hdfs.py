"""Tests loads to a real HDFS: claims, commits, compaction and checkpoints by a namenode's own renames."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from logbus.pipeline.errors import ClaimLost
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
from tests.pipeline.lake.claims import check_claims
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


def _places(spark: SparkSession, urls: Any) -> list[tuple[int, int]]:
    """What any reader of Parquet finds, with what is there twice."""
    paths = [urls] if isinstance(urls, str) else urls
    return sorted(tuple(row) for row in spark.read.parquet(*paths).select("partition", "offset").collect())


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


def test_delta(spark: SparkSession, broker: Broker, hdfs: str) -> None:
    """The same of Delta Lake, which delta-rs commits and Spark's tasks write without Hadoop's library."""
    pytest.importorskip("deltalake")
    pytest.importorskip("hdfs_native")
    from deltalake import DeltaTable

    url: Any = f"{hdfs}/lake/delta"
    topic = make(broker)
    fill(broker, topic, [b'{"e": %d}' % number if number % 5 else b"odd" for number in range(20)])
    into: dict[str, Any] = {"payload": PAYLOAD, "batch_offsets": 10, "format": "delta"}

    def overtake(line: str) -> None:
        if line.startswith("commit "):
            table_at(spark, url).claim()

    with pytest.raises(ClaimLost, match="two jobs write to one table"):
        load(spark, broker, url, topic, JobControl(overtake), **into)
    report = load(spark, broker, url, topic, **into)
    assert (report.offsets, report.batches) == (10, 1)
    good, odd = ([each for each in range(20) if bool(each % 5) is wanted] for wanted in (True, False))
    table = table_at(spark, url)
    assert sorted(row["offset"] for row in table.read().collect()) == good
    assert sorted(row["offset"] for row in table.read_quarantine().collect()) == odd
    assert table.optimize(min_files=2, target_bytes=1 << 20).files_after == 2, "with the quarantine's"
    assert _places(spark, DeltaTable(url).file_uris()) == [(0, each) for each in good]
    assert table.vacuum(before_ms=0).files == 0


def test_one_commit_of_a_number(hdfs: str) -> None:
    """Jobs that claim a table of Delta Lake at the same moment each get a number of their own."""
    pytest.importorskip("deltalake")
    pytest.importorskip("hdfs_native")
    check_claims(f"{hdfs}/lake/claims")


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
