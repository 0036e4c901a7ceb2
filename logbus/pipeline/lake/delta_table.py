"""The format "delta": a Delta Lake table, as jobs use it with Spark."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from logbus.pipeline.errors import LakeError, OptionError
from logbus.pipeline.lake.delta_actions import KIND, AddedFile, Quarantined
from logbus.pipeline.lake.delta_log import DeltaLog, now_ms
from logbus.pipeline.lake.delta_writes import failure_text, failures
from logbus.pipeline.lake.layout import QUARANTINE
from logbus.pipeline.lake.load_state import LoadChange, LoadState
from logbus.pipeline.lake.object_store import ArrowStore
from logbus.pipeline.lake.part_files import PartFile, delete_parts
from logbus.pipeline.lake.part_writer import PartWriter, write_parts
from logbus.pipeline.lake.target import CommitReport, CompactionReport, VacuumReport

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

_HOUR_MS = 3_600_000

_READING_TASKS = 4
"""For each of Spark's cores."""


@frozen
class _Staged:
    """Files that are not committed; the schema of their rows as Spark's JSON, and their directories."""

    parts: Sequence[PartFile] = ()
    schema: Any = None
    directories: Sequence[str] = ()


@define(eq=False)
class DeltaLakeTable:
    """
    A :class:`.LoadTarget`.

    :param log: of the table.
    """

    spark: SparkSession | None
    log: DeltaLog
    _good: _Staged = field(factory=_Staged, init=False)
    _odd: _Staged = field(factory=_Staged, init=False)

    @classmethod
    def at(cls, spark: SparkSession | None, url: str, options: Mapping[str, str] | None = None) -> DeltaLakeTable:
        """
        The table at a URL or a local path; a directory that does not exist is an empty table.

        :param options: of the store (:mod:`.object_store`).
        :raise LakeError: it is another program's, or is damaged.
        """
        table = cls(spark, DeltaLog(url, options or {}))
        table.refresh()
        return table

    @property
    def url(self) -> str:
        return self.log.url

    @property
    def number(self) -> int:
        return self.log.number

    @property
    def state(self) -> LoadState:
        return self.log.load_state()

    @property
    def directories(self) -> tuple[str, ...] | None:
        return self.log.directories

    @property
    def has_rows(self) -> bool:
        return self.log.table is not None and bool(self.log.table.file_uris())

    @property
    def has_quarantine(self) -> bool:
        table = self.log.quarantine()
        return table is not None or bool(self.log.unsettled(table))

    @property
    def optimizes_by_claim(self) -> bool:
        return False

    def refresh(self) -> LoadState:
        """See :class:`.LoadTarget`."""
        return self.log.refresh()

    def claim(self, schema: Any = None, directories: Sequence[str] = ()) -> Sequence[str]:
        """See :class:`.LoadTarget`."""
        return self.log.claim(schema, directories)

    def discard(self) -> None:
        """See :class:`.LoadTarget`."""
        delete_parts(self.log.store, self._good.parts)
        delete_parts(self._quarantine_store, self._odd.parts)
        self._forget()

    def _forget(self) -> None:
        self._good, self._odd = _Staged(), _Staged()

    @property
    def _quarantine_store(self) -> ArrowStore:
        return ArrowStore(f"{self.url}/{QUARANTINE}", self.log.given)

    def stage(self, rows: DataFrame, directories: Sequence[str] = (), *, quarantine: bool = False) -> int:
        """See :class:`.LoadTarget`."""
        store = self._quarantine_store if quarantine else self.log.store
        parts = write_parts(rows, PartWriter(store=store, directories=tuple(directories)))
        staged = _Staged(parts, json.loads(rows.schema.json()), tuple(directories))
        if quarantine:
            self._odd = staged
        else:
            self._good = staged
        return sum(each.records for each in parts)

    def commit(self, change: LoadChange) -> CommitReport:
        """See :class:`.LoadTarget`."""
        good, odd = self._good, self._odd
        self._forget()  # Even if this fails the files may be in the table: VACUUM deletes them if they are not.
        notes = self.log.commit(
            change,
            [AddedFile.of(each) for each in good.parts],
            Quarantined(
                schema=odd.schema, directories=odd.directories, files=tuple(AddedFile.of(each) for each in odd.parts)
            ),
            good.directories if good.parts else None,
        )
        parts = [*good.parts, *odd.parts]
        return CommitReport(self.number, len(parts), sum(each.size for each in parts), notes)

    def read(self) -> DataFrame:
        """See :class:`.LoadTarget`."""
        if self.log.table is None or not self.has_rows:
            raise LakeError(f"{self.url} has no records")
        assert self.spark is not None
        return read_table(self.spark, self.log.table, self.log.store)

    def read_quarantine(self) -> DataFrame:
        """See :class:`.LoadTarget`."""
        table = self.log.quarantine()
        if self.log.unsettled(table):
            raise LakeError(f"{self.url}: records of the last commit are not in its quarantine yet; refresh and retry")
        if table is None:
            raise LakeError(f"{self.url}/{QUARANTINE} has no records")
        assert self.spark is not None
        return read_table(self.spark, table, self._quarantine_store)

    def optimize(self, *, min_files: int, target_bytes: int) -> CompactionReport:
        """See :class:`.LoadTarget`: it is delta-rs' ``optimize``, which disturbs no load that goes on."""
        if min_files < 2 or target_bytes < 1:
            raise OptionError(f"compaction takes at least 2 files and 1 byte, not {min_files} and {target_bytes}")
        report = CompactionReport(self.url, 0, 0, 0, 0, 0)
        self.refresh()
        for table in (self.log.table, self.log.quarantine()):
            if table is not None and has_small_files(table, min_files, target_bytes):
                try:
                    report = _added(report, _compacted(table, target_bytes))
                except failures() as e:
                    raise LakeError(f"{self.url} cannot be compacted: {failure_text(e)}") from e
        self.refresh()
        return report

    def replaced(self, *, before_ms: int) -> VacuumReport:
        """See :class:`.LoadTarget`: these are files that the log names as removed."""
        from deltalake.exceptions import DeltaError

        try:
            return VacuumReport(
                files=sum(
                    len(table.vacuum(_hours(before_ms), dry_run=True, enforce_retention_duration=False))
                    for table in (self.log.table, self.log.quarantine())
                    if table is not None
                )
            )
        except (DeltaError, OSError) as e:
            raise LakeError(f"{self.url}: old files cannot be counted: {failure_text(e)}") from e

    def vacuum(self, *, before_ms: int) -> VacuumReport:
        """See :class:`.LoadTarget`: it is delta-rs' ``vacuum``, which leaves files of the last hour alone."""
        from deltalake import CommitProperties
        from deltalake.exceptions import DeltaError

        self.refresh()
        odd = self.log.quarantine()
        if self.log.unsettled(odd):
            odd = None  # It lacks files that the table's last commit names.
        properties = CommitProperties(custom_metadata={KIND: "vacuum"})
        files = 0
        try:
            for table in (self.log.table, odd):
                if table is not None:
                    gone = table.vacuum(
                        _hours(before_ms),
                        dry_run=False,
                        enforce_retention_duration=False,
                        commit_properties=properties,
                        full=True,  # Also what jobs left that were killed before the last checkpoint.
                    )
                    files += len(gone)
        except (DeltaError, OSError) as e:
            raise LakeError(f"{self.url}: old files cannot be deleted: {failure_text(e)}") from e
        self.refresh()
        return VacuumReport(files=files)


def _hours(before_ms: int) -> int:
    """How long ago a time is, rounded up; at least one."""
    return max(1, -(-(now_ms() - before_ms) // _HOUR_MS))


def has_small_files(table: DeltaTable, min_files: int, target_bytes: int) -> bool:
    """Whether there are so many files of less than half the target size, with the same partition values."""
    import pyarrow as pa

    counts: dict[str, int] = {}
    for each in pa.table(table.get_add_actions(flatten=False)).to_pylist():
        if each["size_bytes"] < target_bytes // 2:
            place = str(each.get("partition") or each.get("partition_values"))
            counts[place] = counts.get(place, 0) + 1
    return max(counts.values(), default=0) >= min_files


def _compacted(table: DeltaTable, target_bytes: int) -> Mapping[str, Any]:
    from deltalake import CommitProperties

    return table.optimize.compact(
        target_size=target_bytes, commit_properties=CommitProperties(custom_metadata={KIND: "compact"})
    )


def _added(report: CompactionReport, metrics: Mapping[str, Any]) -> CompactionReport:
    before, after = (json.loads(metrics[name])["totalSize"] for name in ("filesRemoved", "filesAdded"))
    return CompactionReport(
        report.table,
        report.directories + int(metrics["partitionsOptimized"]),
        report.files_before + int(metrics["numFilesRemoved"]),
        report.files_after + int(metrics["numFilesAdded"]),
        report.bytes_before + int(before),
        report.bytes_after + int(after),
    )


def read_table(spark: SparkSession, table: DeltaTable, store: ArrowStore) -> DataFrame:
    """
    The rows of a version of a table, read by Spark's tasks with Arrow: from any store, and whatever columns older files
    lack.

    :raise LakeError: another program gave it a feature that Arrow cannot read, such as deletion vectors.
    """
    from deltalake.exceptions import DeltaProtocolError
    from pyarrow import fs
    from pyspark.sql.types import StructType

    files = fs.SubTreeFileSystem(store.root(), store.file_system())
    try:
        dataset = table.to_pyarrow_dataset(filesystem=files)
    except DeltaProtocolError as e:
        raise LakeError(f"{store.url} cannot be read here: {e}") from e
    fragments = list(dataset.get_fragments())
    count = max(1, min(len(fragments), _READING_TASKS * spark.sparkContext.defaultParallelism))
    reader = _Reader(pickle.dumps([fragments[number::count] for number in range(count)]), dataset.schema)
    return spark.range(0, count, 1, count).mapInArrow(reader, StructType.fromJson(json.loads(table.schema().to_json())))


@frozen
class _Reader:
    """Reads fragments of a dataset in a task, for ``mapInArrow``: the rows are numbers in the list of fragments."""

    fragments: bytes
    schema: Any

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        from pyarrow import dataset

        for batch in batches:
            for number in batch.column(0).to_pylist():
                for each in pickle.loads(self.fragments)[number]:
                    yield from dataset.FileSystemDataset([each], self.schema, each.format, each.filesystem).to_batches()
