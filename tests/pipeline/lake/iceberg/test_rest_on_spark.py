"""Tests what Spark's own client of a REST catalog reads of a table while a load commits to it."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyiceberg")
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.testing import Broker
from tests.pipeline.conftest import CACHE
from tests.pipeline.engine_spark import EngineSpark, rest_settings
from tests.pipeline.kills.load_rounds import is_good, value
from tests.pipeline.lake.iceberg.fixtures import NAME, catalog_in
from tests.pipeline.lake.iceberg.rest_server import rest_server
from tests.pipeline.load_fixtures import fill, load, make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long
COUNT, BATCH = 400, 20
GOOD = [number for number in range(COUNT) if is_good(number)]
WHOLE = {sum(each < end for each in GOOD) for end in range(0, COUNT + 1, BATCH)}
"""Numbers of rows after whole batches."""

SELECT = f"SELECT `offset` FROM test.{NAME}"
_SECONDS = 240.0


def test_reads_between_commits(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """It sees whole batches, and nothing twice; then it compacts the table, and a load goes on after that."""
    topic = make(broker)
    fill(broker, topic, [value(number) for number in range(COUNT)])
    into: dict[str, Any] = {"payload": JsonPayload(schema="number INT"), "format": "iceberg", "catalog": "test"}
    into["partition_by"] = "none"
    seen: list[list[int]] = []
    is_there, has_seen, is_done = threading.Event(), threading.Event(), threading.Event()

    def told(line: str) -> None:
        """Have the first commit wait for the reader: from there on both do as they like."""
        if line.startswith("commit "):
            is_there.set()
            assert has_seen.wait(_SECONDS)

    def look() -> None:
        assert is_there.wait(_SECONDS)
        while not is_done.is_set():
            seen.append(reader.column(SELECT))
            has_seen.set()

    with ExitStack() as stack:
        port = stack.enter_context(rest_server(tmp_path))
        stack.enter_context(catalog_in(tmp_path, uri=f"http://127.0.0.1:{port}"))
        try:
            reader = stack.enter_context(EngineSpark(rest_settings(port), CACHE))
        except RuntimeError as e:
            pytest.skip(f"it cannot be fetched: {e}")
        looks = threading.Thread(target=look, daemon=True)
        looks.start()
        try:
            report = load(spark, broker, Path(NAME), topic, JobControl(told), batch_offsets=BATCH, **into)
        finally:
            is_done.set()
        looks.join(_SECONDS)
        assert report.batches == COUNT // BATCH
        assert len({len(each) for each in seen}) > 2, "it looked at several states"
        for each in seen:
            assert each == GOOD[: len(each)]
            assert len(each) in WHOLE
        assert reader.column(SELECT) == GOOD
        (versions,) = reader.column(f"SELECT count(*) FROM test.{NAME}.snapshots")
        assert versions >= report.batches
        ((before, after, *_),) = reader.ask(f"CALL test.system.rewrite_data_files('{NAME}')")
        assert before >= report.batches > after
        fill(broker, topic, [value(number) for number in range(COUNT, COUNT + 2)])
        assert load(spark, broker, Path(NAME), topic, **into).batches == 1
        found = reader.column(SELECT)
        assert found == [*GOOD, *(each for each in range(COUNT, COUNT + 2) if is_good(each))]
