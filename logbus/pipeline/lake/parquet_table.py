"""The format "parquet": a table of Parquet files with a commit log of our own, as jobs use it with Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import define

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.commit_log import CommitKind, TableState
from logbus.pipeline.lake.compaction import compact
from logbus.pipeline.lake.layout import QUARANTINE, directories_of
from logbus.pipeline.lake.load_state import LoadChange, LoadState
from logbus.pipeline.lake.parquet import staged_rows, write_parquet
from logbus.pipeline.lake.table import Table
from logbus.pipeline.lake.target import CommitReport, CompactionReport, VacuumReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@define(eq=False)
class ParquetTable:
    """
    A :class:`.LoadTarget`.

    :param table: its directory and log.
    """

    spark: SparkSession | None
    table: Table

    @classmethod
    def at(cls, spark: SparkSession | None, url: str) -> ParquetTable:
        """See :meth:`.Table.at`."""
        return cls(spark, Table.at(spark, url))

    @property
    def url(self) -> str:
        return self.table.files.url

    @property
    def number(self) -> int:
        return self.table.state.number

    @property
    def state(self) -> LoadState:
        return self.table.state.load

    @property
    def directories(self) -> tuple[str, ...] | None:
        return directories_of(self.table.state.files)

    @property
    def has_rows(self) -> bool:
        return bool(_paths(self.table.state, quarantine=False))

    @property
    def has_quarantine(self) -> bool:
        return bool(_paths(self.table.state, quarantine=True))

    @property
    def optimizes_by_claim(self) -> bool:
        return True

    def refresh(self) -> LoadState:
        """See :class:`.LoadTarget`."""
        return self.table.refresh().load

    def claim(self, schema: Any = None, directories: Sequence[str] = ()) -> Sequence[str]:
        """See :class:`.LoadTarget`: there is nothing to create, and no other program knows the log."""
        self.table.claim()
        return ()

    def discard(self) -> None:
        """See :class:`.LoadTarget`."""
        self.table.files.delete(self.table.staging)

    def stage(self, rows: DataFrame, directories: Sequence[str] = (), *, quarantine: bool = False) -> int:
        """See :class:`.LoadTarget`."""
        base = QUARANTINE if quarantine else ""
        write_parquet(rows, f"{self.table.staging_url}/{base}".rstrip("/"), directories)
        assert self.spark is not None
        return staged_rows(self.spark, self.table, base)

    def commit(self, change: LoadChange) -> CommitReport:
        """See :class:`.LoadTarget`."""
        if change.lost:
            done = self.table.commit(CommitKind.LOSS, offsets=change.lost)
        else:
            done = self.table.commit(
                CommitKind.LOAD,
                self.table.staged(),
                offsets=change.offsets,
                records=change.records,
                quarantined=change.quarantined,
                schema=change.schema,
                batch=change.batch,
            )
        return CommitReport(done.number, len(done.added), sum(each.size for each in done.added))

    def read(self) -> DataFrame:
        """See :class:`.LoadTarget`: it fails as well if a commit has not moved its files yet."""
        return self._read_files(_paths(self.table.state, quarantine=False), "")

    def read_quarantine(self) -> DataFrame:
        """See :class:`.LoadTarget`."""
        return self._read_files(_paths(self.table.state, quarantine=True), f"/{QUARANTINE}")

    def _read_files(self, paths: list[str], base: str) -> DataFrame:
        if not paths:
            raise LakeError(f"{self.url}{base} has no records")
        assert self.spark is not None
        reader = self.spark.read.option("basePath", f"{self.url}{base}").option("mergeSchema", "true")
        return reader.parquet(*(f"{self.url}/{path}" for path in paths))

    def optimize(self, *, min_files: int, target_bytes: int) -> CompactionReport:
        """See :func:`.compact`."""
        assert self.spark is not None
        return compact(self.spark, self.table, min_files=min_files, target_bytes=target_bytes)

    def replaced(self, *, before_ms: int) -> VacuumReport:
        """See :class:`.LoadTarget`: there is nothing."""
        return VacuumReport()

    def vacuum(self, *, before_ms: int) -> VacuumReport:
        """See :class:`.LoadTarget`: there is nothing to do, as commits and claims delete what they replace."""
        return VacuumReport()


def _paths(state: TableState, *, quarantine: bool) -> list[str]:
    return [path for path in state.files if path.startswith(f"{QUARANTINE}/") == quarantine]
