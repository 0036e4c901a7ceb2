"""Tests that other programs can read a table at any time of a load and its compactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.testing import Broker
from tests.pipeline.jobs.table_readers import Onlookers, Reader, delta_readers, iceberg_readers, looking_on
from tests.pipeline.lake.iceberg.fixtures import NAME, catalog_in
from tests.pipeline.load_fixtures import fill, load, make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES, PER_BATCH = 4, 10
_VALUES = [b'{"e": %d}' % number if number % 5 else b"odd" for number in range(BATCHES * PER_BATCH)]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_readers_meanwhile(spark: SparkSession, broker: Broker, tmp_path: Path, kind: str) -> None:
    """
    Readers that do nothing but read, from the first commit on, find whole batches in order, each record once, and never
    fewer than before; in the end they find all.
    """
    topic = make(broker)
    fill(broker, topic, _VALUES)
    with catalog_in(tmp_path / "catalog") as catalog, ExitStack() as stack:
        table, into = tmp_path / "lake", {}
        begin: Callable[[], Mapping[str, Reader]] = partial(delta_readers, spark, table)
        if kind == "iceberg":
            table, into = Path(NAME), {"catalog": catalog}
            begin = partial(iceberg_readers, spark, catalog)
        onlookers: list[Onlookers] = []

        def tell(line: str) -> None:
            if line.startswith("commit "):
                if not onlookers:
                    onlookers.append(stack.enter_context(looking_on(begin())))
                onlookers[0].wait()

        more: dict[str, Any] = {**into, "payload": JsonPayload(schema="e INT"), "format": kind, "partition_by": ""}
        report = load(spark, broker, table, topic, JobControl(tell), batch_offsets=PER_BATCH, compact=2, **more)
        assert (report.batches, report.quarantined) == (BATCHES, len(_VALUES) // 5)
        # One may have begun before the last commit.
        for _ in range(2):
            onlookers[0].wait()
    good = [(0, number) for number in range(len(_VALUES)) if number % 5]
    whole = [good[: count * len(good) // BATCHES] for count in range(1, BATCHES + 1)]
    for name, found in onlookers[0].seen.items():
        states = [whole.index(each) for each in found]
        assert states == sorted(states), name
        assert states[-1] == BATCHES - 1, name
        assert len(set(states)) > 1, name
