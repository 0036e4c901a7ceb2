"""Tests windows that are written to tables which other programs have changed, dropped or made, on a real Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, Transform
from pyiceberg.types import NestedField, StringType, TimestamptzType

from logbus.pipeline.errors import LakeError, PipelineError
from logbus.pipeline.jobs.outputs import ToTable
from logbus.pipeline.jobs.streaming_query import QuerySettings
from logbus.pipeline.jobs.windows import TumblingWindow, WindowsOptions, run
from logbus.pipeline.lake.formats import DELTA, ICEBERG, PARQUET
from logbus.testing import Broker
from tests.pipeline.lake.iceberg.fixtures import catalog_in
from tests.pipeline.query_fixtures import event, put, stream, topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[str]:
    """A catalog of Iceberg."""
    with catalog_in(tmp_path / "catalog") as name:
        yield name


def _hours(broker: Broker, topic: str, output: ToTable, checkpoint: Path, **more: Any) -> WindowsOptions:
    given: dict[str, Any] = {"by": {"page": "page"}, **more}
    return WindowsOptions(
        stream=stream(broker, topic),
        window=TumblingWindow("1 hour"),
        outputs=[output],
        running=QuerySettings(str(checkpoint)),
        **given,
    )


def _rolled_back(catalog: str) -> None:
    table = load_catalog(catalog).load_table("lake.hours")
    first = next(each for each in table.snapshots() if each.summary and each.summary["total-records"] == "1")
    table.manage_snapshots().set_current_snapshot(first.snapshot_id).commit()


@pytest.mark.parametrize(
    ("kind", "name", "change", "last"),
    [
        (ICEBERG, "lake.hours", _rolled_back, "1"),
        (ICEBERG, "lake.hours", lambda catalog: load_catalog(catalog).drop_table("lake.hours"), "none"),
        (DELTA, "hours", None, "none"),
        (PARQUET, "hours", None, "none"),
    ],
    ids=["rolled back", "dropped", "delta", "parquet"],
)
def test_lost_windows(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    catalog: str,
    kind: str,
    name: str,
    change: Callable[[str], None] | None,
    last: str,
) -> None:
    """A table that lacks what was written to it is refused, since the query would not write it again."""
    topic = f"lost-{kind}-{change is _rolled_back}"
    topics(broker, topic)
    url = name if kind == ICEBERG else str(tmp_path / name)
    output = ToTable(url, format=kind, catalog=catalog if kind == ICEBERG else "")
    asked = _hours(broker, topic, output, tmp_path / "checkpoint")
    put(broker, topic, [event("00:10", page="/tea"), event("03:00", page="/end")])
    assert run(spark, asked).rows_out == 1
    put(broker, topic, [event("03:10", page="/tea"), event("06:00", page="/end")])
    assert run(spark, asked).rows_out == 2
    if change is None:
        shutil.rmtree(url)
    else:
        change(catalog)
    put(broker, topic, [event("09:00", page="/end")])
    words = rf"the table .*hours was set back, or made anew: batch 3 .*, and the last one that it has is {last}\."
    for _ in range(2):
        with pytest.raises(PipelineError, match=words):
            run(spark, asked)
    # It can go on in a table of another name.
    other = ToTable(f"{url}2", format=kind, catalog=catalog if kind == ICEBERG else "")
    assert run(spark, _hours(broker, topic, other, tmp_path / "checkpoint")).rows_out == 1


@pytest.mark.parametrize("kind", [PARQUET, DELTA, ICEBERG])
def test_directories(spark: SparkSession, broker: Broker, tmp_path: Path, catalog: str, kind: str) -> None:
    """A table keeps the directories that it has, and others are refused."""
    topic = f"directories-{kind}"
    topics(broker, topic)
    url = "lake.hours" if kind == ICEBERG else str(tmp_path / "hours")
    of_catalog = catalog if kind == ICEBERG else ""
    by_page = ToTable(url, ("page",), kind, catalog=of_catalog)
    put(broker, topic, [event("00:10", page="/tea"), event("03:00", page="/end")])
    assert run(spark, _hours(broker, topic, by_page, tmp_path / "checkpoint")).rows_out == 1
    put(broker, topic, [event("03:10", page="/tea"), event("06:00", page="/end")])
    words = "its files are divided by page, and --partition-by is count; leave it out"
    by_count = ToTable(url, ("count",), kind, catalog=of_catalog)
    with pytest.raises(LakeError, match=words):
        by_count.check_columns(["page", "count"])
        by_count.check()
    with pytest.raises(LakeError, match=words):
        run(spark, _hours(broker, topic, by_count, tmp_path / "checkpoint"))
    as_it_is = ToTable(url, (), kind, catalog=of_catalog)
    assert run(spark, _hours(broker, topic, as_it_is, tmp_path / "checkpoint")).rows_out == 2
    assert as_it_is._table is not None
    assert as_it_is._table.directories == ("page",)
    assert sorted((row["page"], row["count"]) for row in as_it_is._table.read().collect()) == [
        ("/end", 1),
        ("/tea", 1),
        ("/tea", 1),
    ]


@pytest.mark.parametrize("kind", [PARQUET, DELTA, ICEBERG])
def test_odd_names(spark: SparkSession, broker: Broker, tmp_path: Path, catalog: str, kind: str) -> None:
    """A column's name may have a dot, which is no way into a struct, and what names of directories cannot have."""
    topic = f"odd-{kind}"
    topics(broker, topic)
    url = "lake.hours" if kind == ICEBERG else str(tmp_path / "hours")
    output = ToTable(url, ("by.page:",), kind, catalog=catalog if kind == ICEBERG else "")
    names = {"by": {"by.page:": "page"}, "aggregates": {"views.all": "count(*)"}}
    asked = _hours(broker, topic, output, tmp_path / "checkpoint", **names)
    for hour in (0, 3):
        put(broker, topic, [event(f"{hour:02}:{minute}", page="/tea") for minute in (10, 20)])
        put(broker, topic, [event(f"{hour + 2:02}:30", page="/tea")])
        run(spark, asked)
    assert output._table is not None
    found = [row.asDict() for row in output._table.read().collect()]
    assert sorted((row["by.page:"], row["views.all"]) for row in found) == [("/tea", 1), ("/tea", 2), ("/tea", 2)]


@pytest.mark.parametrize(
    ("source", "transform", "words"),
    [
        (1, DayTransform(), "its files are divided by date, and the rows have no column date"),
        (2, BucketTransform(4), "is partitioned by .*bucket"),
        (3, IdentityTransform(), "its files are divided by tenant, and the rows have no column tenant"),
    ],
    ids=["day", "bucket", "a column that the rows lack"],
)
def test_partitions_of_others(catalog: str, source: int, transform: Transform, words: str) -> None:  # type: ignore[type-arg]
    """Partitions of a table of Iceberg that these rows cannot be in are said before Spark is started."""
    fields = (
        NestedField(1, "window_start", TimestamptzType()),
        NestedField(2, "page", StringType()),
        NestedField(3, "tenant", StringType()),
    )
    found = load_catalog(catalog)
    found.create_namespace("lake")
    found.create_table(
        "lake.hours", Schema(*fields), partition_spec=PartitionSpec(PartitionField(source, 1000, transform, "of"))
    )
    output = ToTable("lake.hours", format=ICEBERG, catalog=catalog)
    output.check_columns(["window_start", "window_end", "page", "count"])
    with pytest.raises(LakeError, match=words):
        output.check()
