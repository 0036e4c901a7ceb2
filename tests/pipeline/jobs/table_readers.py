"""
Programs that read tables of Delta Lake and Iceberg in tests, also while a load writes them.

A reader returns the partitions and offsets that its program finds in the table's latest version, in order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import polars
from attrs import define, field

from logbus.pipeline.lake.formats import table_at
from tests.pipeline.lake.iceberg.fixtures import NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[tuple[int, int]]
Reader = Callable[[], Rows]
_SECONDS = 240.0
_PLACE = ("partition", "offset")


def delta_readers(spark: SparkSession, table: Path) -> dict[str, Reader]:
    """Readers of a table of Delta Lake; DuckDB and plain Spark read the files that delta-rs names."""
    from deltalake import DeltaTable

    from tests.pipeline.delta_rows import delta_rows

    def files() -> list[str]:
        return DeltaTable(str(table)).file_uris()

    return {
        "delta-rs": lambda: [(row["partition"], row["offset"]) for row in delta_rows(table, *_PLACE).to_pylist()],
        "duckdb": lambda: _by_duckdb(files()),
        "polars": lambda: polars.scan_delta(str(table)).select(*_PLACE).collect().rows(),
        "Spark": lambda: _places(spark.read.parquet(*files())),
        "logbus": lambda: _places(table_at(spark, str(table)).read()),
    }


def iceberg_readers(spark: SparkSession, catalog: str) -> dict[str, Reader]:
    """Readers of a table of Iceberg; DuckDB and plain Spark read what PyIceberg says that it has."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.table import Table

    from logbus.pipeline.lake.iceberg.table import IcebergTable

    def table() -> Table:
        return load_catalog(catalog).load_table(NAME)

    def pyiceberg() -> Rows:
        found = table().scan(selected_fields=_PLACE).to_arrow()
        return [(row["partition"], row["offset"]) for row in found.to_pylist()]

    def files() -> list[str]:
        return [task.file.file_path for task in table().scan().plan_files()]

    return {
        "pyiceberg": pyiceberg,
        "duckdb": lambda: table().scan().to_duckdb("rows").sql('SELECT "partition", "offset" FROM rows').fetchall(),
        "polars": lambda: polars.scan_iceberg(table()).select(*_PLACE).collect().rows(),
        "Spark": lambda: _places(spark.read.parquet(*files())),
        "logbus": lambda: _places(IcebergTable.at(spark, NAME, catalog).read()),
    }


def found_by(readers: Mapping[str, Reader]) -> dict[str, Rows]:
    """What each of them finds, one after the other."""
    return {name: sorted(read()) for name, read in readers.items()}


def _by_duckdb(files: list[str]) -> Rows:
    with duckdb.connect() as connection:
        return connection.read_parquet(files).project('"partition", "offset"').fetchall()


def _places(rows: DataFrame) -> Rows:
    return [(row[0], row[1]) for row in rows.select(*_PLACE).collect()]


@define(eq=False)
class Onlookers:
    """
    Readers that read again and again, each in a thread, until they are told to stop.

    :ivar seen: what each of them has found.
    """

    seen: dict[str, list[Rows]]
    _failures: list[BaseException] = field(factory=list)
    _stopping: bool = False
    _changed: threading.Condition = field(factory=threading.Condition)

    def look(self, name: str, read: Reader) -> None:
        """Read until it is enough."""
        while not self._stopping:
            try:
                found = sorted(read())
            except BaseException as e:
                with self._changed:
                    self._failures.append(e)
                    self._changed.notify_all()
                raise
            with self._changed:
                self.seen[name].append(found)
                self._changed.notify_all()

    def wait(self) -> None:
        """
        Wait until each has read once more; meanwhile all go on.

        :raise AssertionError: one failed, or is stuck.
        """
        with self._changed:
            before = {name: len(each) for name, each in self.seen.items()}

            def have_read() -> bool:
                return bool(self._failures) or all(len(self.seen[name]) > count for name, count in before.items())

            assert self._changed.wait_for(have_read, _SECONDS), {name: len(each) for name, each in self.seen.items()}
            assert not self._failures, self._failures

    def stop(self) -> None:
        """Let each end after what it reads."""
        self._stopping = True


@contextmanager
def looking_on(readers: Mapping[str, Reader]) -> Iterator[Onlookers]:
    """
    Have readers read a table, which is there already.

    :raise Exception: one of them failed.
    """
    onlookers = Onlookers({name: [] for name in readers})
    with ThreadPoolExecutor(len(readers)) as threads:
        running = [threads.submit(onlookers.look, name, read) for name, read in readers.items()]
        try:
            yield onlookers
        finally:
            onlookers.stop()
    for each in running:
        each.result()
