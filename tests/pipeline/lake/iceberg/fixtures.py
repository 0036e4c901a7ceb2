"""Catalogs of tests, and rows without Spark."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from attrs import define
from pyiceberg.utils.config import Config
from pyspark.sql.types import Row, StructType

from logbus.pipeline.lake.load_state import LoadChange, TopicOffsets
from logbus.pipeline.lake.offset_set import OffsetSet

NAME = "lake.views"


@contextlib.contextmanager
def catalog_in(directory: Path, **more: str) -> Iterator[str]:
    """A catalog of one SQLite file, named ``test``, in the environment of this process and of those it starts."""
    directory.mkdir(exist_ok=True)
    found = {"uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"file://{directory}/warehouse", **more}
    variables = {f"PYICEBERG_CATALOG__TEST__{name.upper()}": value for name, value in found.items()}
    # PyIceberg reads its configuration once.
    with mock.patch.dict(os.environ, variables), mock.patch("pyiceberg.catalog._ENV_CONFIG", Config()):
        yield "test"


SCHEMA = (
    StructType()
    .add("topic", "string")
    .add("partition", "integer")
    .add("offset", "long")
    .add("at", "timestamp")
    .add("page", "string")
)


@define
class Rows:
    """What stands for a DataFrame: it has batches, and no Spark."""

    schema: StructType
    batches: Sequence[Any]
    work: Callable[[Any], Iterator[Any]] | None = None

    def mapInArrow(self, work: Any, _: str) -> Rows:
        return Rows(self.schema, self.batches, work)

    def collect(self) -> list[Row]:
        assert self.work is not None
        return [Row(**row) for made in self.work(iter(self.batches)) for row in made.to_pylist()]


def rows(start: int, end: int, schema: StructType = SCHEMA, **columns: Sequence[Any]) -> Rows:
    """Rows of a range of offsets of a partition."""
    count = end - start
    at = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
    values: dict[str, Any] = {
        "topic": ["views"] * count,
        "partition": pa.array([0] * count, pa.int32()),
        "offset": list(range(start, end)),
        "at": pa.array([at] * count, pa.timestamp("us", tz="UTC")),
        "page": ["/"] * count,
        **columns,
    }
    return Rows(schema, [pa.RecordBatch.from_pydict({name: values[name] for name in schema.names})])


def change(start: int, end: int, **more: Any) -> LoadChange:
    """The change that goes with :func:`rows`."""
    offsets = {"views": TopicOffsets("id", {0: OffsetSet.of((start, end))})}
    return LoadChange(**{"offsets": offsets, "records": end - start, **more})
