"""A table of Iceberg, as jobs use it with Spark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from logbus.pipeline.errors import ClaimLost, LakeError, OptionError
from logbus.pipeline.lake.iceberg import ddl, scans, schemas
from logbus.pipeline.lake.iceberg import quarantine as quarantines
from logbus.pipeline.lake.iceberg.catalogs import catalog, check_identifier
from logbus.pipeline.lake.iceberg.commits import COMPACTION, STATE, TableState, resolve
from logbus.pipeline.lake.iceberg.expiry import old_snapshots, vacuum
from logbus.pipeline.lake.iceberg.files import IcebergStore, data_file, store_of
from logbus.pipeline.lake.iceberg.optimization import optimize
from logbus.pipeline.lake.iceberg.snapshots import (
    ATTEMPTS,
    Overtaken,
    current_of,
    files_of,
    first_line,
    make_snapshot,
    rows_of,
    snapshots_of,
)
from logbus.pipeline.lake.iceberg.store_access import check_warehouse, with_advice
from logbus.pipeline.lake.load_state import LoadChange, LoadState
from logbus.pipeline.lake.part_files import PartFile, delete_parts
from logbus.pipeline.lake.part_writer import PartWriter, write_parts
from logbus.pipeline.lake.target import CommitReport, CompactionReport, VacuumReport

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession


@define(eq=False)
class IcebergTable:
    """
    A :class:`.LoadTarget`.

    :param identifier: ``namespace.table``.
    """

    spark: SparkSession | None
    catalog: Catalog
    identifier: str
    writer: str = field(factory=lambda: uuid.uuid4().hex, init=False)
    _table: Table | None = field(default=None, init=False)
    _known: TableState = field(factory=TableState, init=False)
    _notes: tuple[str, ...] = field(default=(), init=False)
    _seen: tuple[int | None, str | None] = field(default=(None, None), init=False)
    _fitting: list[Any] = field(factory=list, init=False)
    _staged: list[DataFile] = field(factory=list, init=False)
    _odd: list[DataFile] = field(factory=list, init=False)
    _written: list[tuple[IcebergStore, list[PartFile]]] = field(factory=list, init=False)

    @classmethod
    def at(cls, spark: SparkSession | None, identifier: str, catalog_name: str = "") -> IcebergTable:
        """
        The table of that name; if there is none, it is an empty table.

        :param catalog_name: in PyIceberg's configuration; "": its default.
        :raise OptionError: the name lacks a namespace.
        :raise LakeError: there is no such catalog, or the table is not one of loads; or, if there is no Spark yet, the
            catalog's store cannot be reached.
        """
        check_identifier(identifier)
        found = cls(spark, catalog(catalog_name), identifier)
        if spark is None:
            found._check_warehouse()
        found.refresh()
        return found

    def _check_warehouse(self) -> None:
        properties = {name: value for name, value in self.catalog.properties.items() if isinstance(value, str)}
        warehouse = IcebergStore(properties.get("warehouse", ""), properties)
        check_warehouse(self.url, properties, warehouse.file_system)

    @property
    def url(self) -> str:
        return self.identifier

    @property
    def number(self) -> int:
        return 0 if self._table is None else int(self._table.last_sequence_number)

    @property
    def state(self) -> LoadState:
        return self._known.load

    @property
    def directories(self) -> tuple[str, ...] | None:
        if self._table is None:
            return None
        return schemas.directories_of(self.url, self._table.spec(), self._table.schema())

    @property
    def has_rows(self) -> bool:
        return self._table is not None and files_of(self._table.metadata) > 0

    @property
    def has_quarantine(self) -> bool:
        return self._quarantine_snapshot() is not None

    @property
    def optimizes_by_claim(self) -> bool:
        return False

    def refresh(self) -> LoadState:
        """See :class:`.LoadTarget`."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            self._table = self.catalog.load_table(self.identifier)
        except NoSuchTableError:
            self._table, self._known, self._notes = None, TableState(), ()
            return self.state
        except Exception as e:
            said = with_advice(first_line(e), self.catalog.properties)
            raise LakeError(f"{self.url} cannot be read: {said}") from e
        metadata = self._table.metadata
        if metadata.format_version < 2:
            raise LakeError(
                f"{self.url} is of Iceberg's format version 1, whose snapshots have no order; upgrade it to version 2"
            )
        text = metadata.properties.get(STATE)
        written = None if text is None else TableState.from_json(self.url, text)
        found = resolve(self.url, written, current_of(metadata), snapshots_of(metadata), rows_of(metadata))
        self._known, self._notes, self._seen = found.state, found.notes, _seen(self._table)
        return self.state

    def claim(self, schema: Any = None, directories: Sequence[str] = ()) -> Sequence[str]:
        """See :class:`.LoadTarget`: it makes a snapshot without rows, on which an earlier job's commit cannot be."""
        self.writer = uuid.uuid4().hex
        self.refresh()
        if self._table is None:
            if schema is None:
                return ()  # There is nothing to claim yet.
            self._create(schema, directories)
        for _ in range(ATTEMPTS):
            self.refresh()
            notes = self._notes
            try:
                self._make(LoadChange(), is_claim=True)
            except Overtaken:
                continue
            break
        else:
            raise LakeError(f"{self.url}: it changes so often that it cannot be claimed; try again")
        table = self._table
        assert table is not None
        if (odd := quarantines.quarantine_of(self.catalog, table)) is not None:
            quarantines.reconcile(odd, self._known.quarantine, self._check_claim)
        if schema is not None:
            self._evolve(table, schemas.visible(schema, directories))
        return notes

    def _create(self, schema: Any, directories: Sequence[str]) -> None:
        ddl.create_table(self.catalog, self.identifier, schema, directories)
        self.refresh()

    def _evolve(self, table: Table, schema: Mapping[str, Any]) -> None:
        """Add the columns that rows have and the table lacks."""
        if (table.name(), table.schema().schema_id, schema) not in self._fitting:
            ddl.add_columns(table, self.url, schema)
            self._fitting.append((table.name(), table.schema().schema_id, schema))

    def discard(self) -> None:
        """See :class:`.LoadTarget`."""
        for store, parts in self._written:
            delete_parts(store, parts)
        self._staged, self._odd, self._written = [], [], []

    def stage(self, rows: DataFrame, directories: Sequence[str] = (), *, quarantine: bool = False) -> int:
        """See :class:`.LoadTarget`."""
        schema = json.loads(rows.schema.json())
        table = self._quarantine(schema, directories) if quarantine else self._main(schema, directories)
        columns = schemas.visible(schema, directories)
        self._evolve(table, columns)
        names = [each["name"] for each in columns["fields"]]
        writer = PartWriter(
            store=store_of(table),
            directories=directories,
            kept=not schemas.hidden(schema, directories),
            schema=schemas.file_schema(table.schema(), names),
        )
        parts = write_parts(rows, writer)
        self._written.append((store_of(table), parts))
        spec, kinds = table.spec(), table.schema()
        for each in parts:
            partition = schemas.partition_record(spec, kinds, each.partition)
            (self._odd if quarantine else self._staged).append(
                data_file(table.metadata, writer.store.url, each, partition)
            )
        return sum(each.records for each in parts)

    def _main(self, schema: Any, directories: Sequence[str]) -> Table:
        if self._table is None:
            self.claim(schema, directories)
        assert self._table is not None
        return self._table

    def _quarantine(self, schema: Any, directories: Sequence[str]) -> Table:
        assert self._table is not None
        found = quarantines.quarantine_of(self.catalog, self._table)
        if found is None:
            properties = quarantines.properties_for(self._table)
            ddl.create_table(self.catalog, self.identifier + quarantines.SUFFIX, schema, directories, properties)
            found = quarantines.quarantine_of(self.catalog, self._table)
            assert found is not None
        try:
            quarantines.begin(found, self.writer)
        except Overtaken as e:
            self._check_claim()
            raise LakeError(f"{self.url}: its quarantine has changed meanwhile; run the load again") from e
        return found

    def commit(self, change: LoadChange) -> CommitReport:
        """See :class:`.LoadTarget`."""
        before, notes = self._known, list[str]()
        self._written = []  # Even if this fails the files may be in the table: a vacuum deletes them if they are not.
        odd = self._commit_odd()
        for _ in range(ATTEMPTS):
            if self._known.load != before.load:
                raise LakeError(f"{self.url}: {'; '.join(self._notes)}: run the load again")
            try:
                self._make(change, odd)
                break
            except Overtaken:
                self._check_claim()
                notes = list(self._notes)
        else:
            raise LakeError(f"{self.url}: it changes so often that nothing can be committed; run the load again")
        files = [*self._staged, *self._odd]
        self._staged, self._odd = [], []
        return CommitReport(self.number, len(files), sum(each.file_size_in_bytes for each in files), notes)

    def _commit_odd(self) -> int | None:
        """Add the staged rows of the quarantine; the snapshot to be named."""
        if not self._odd:
            return self._known.quarantine
        assert self._table is not None
        for _ in range(ATTEMPTS):
            found = quarantines.quarantine_of(self.catalog, self._table)
            if found is None:
                raise LakeError(f"{self.url}: its quarantine was dropped meanwhile; run the load again")
            quarantines.reconcile(found, self._known.quarantine, self._check_claim)
            try:
                return quarantines.add(found, self.writer, self._odd)
            except Overtaken:
                self._check_claim()
        raise LakeError(f"{self.url}: its quarantine changes so often that nothing can be added; run the load again")

    def _make(
        self,
        change: LoadChange,
        odd: int | None = None,
        *,
        is_claim: bool = False,
    ) -> None:
        """
        Make a snapshot with the next state.

        :raise Overtaken: another commit was made since the table was looked at; nothing has happened.
        """
        table = self._table
        assert table is not None
        if not is_claim and self._known.writer != self.writer:
            self._check_claim()
        if _seen(table) != self._seen:
            raise Overtaken  # The answer to a change of the schema came with another's commit.
        if any(each.spec_id != table.metadata.default_spec_id for each in self._staged):
            raise LakeError(f"{self.url}: another program has changed its partitions meanwhile; run the load again")
        rows = (rows_of(table.metadata) or 0) + sum(each.record_count for each in self._staged)
        state = evolve(
            self._known.after(change, self.writer, rows), quarantine=self._known.quarantine if odd is None else odd
        )

        def properties(snapshot: int, sequence: int) -> dict[str, str]:
            nonlocal state
            state = evolve(state, snapshot=snapshot, sequence=sequence)
            return {STATE: state.as_json()}

        make_snapshot(table, state.summary(), self._staged, properties=properties)
        self._known, self._seen = state, _seen(table)

    def _check_claim(self) -> None:
        """
        Look at the table after another's commit.

        :raise ClaimLost: it is a later job's.
        """
        mine = self._known
        self.refresh()
        if not self._known.writer:
            raise LakeError(f"{self.url} was dropped or replaced since it was claimed; run the load again")
        if self._known.writer != self.writer:
            raise ClaimLost(
                f"{self.url}: job {self._known.writer} has made commit {self._known.number} after commit "
                f"{mine.number}, the last that job {self.writer} knows: two jobs write to one table, and the later one "
                "goes on"
            )

    def read(self) -> DataFrame:
        """See :class:`.LoadTarget`."""
        if not self.has_rows:
            raise LakeError(f"{self.url} has no records")
        assert self._table is not None and self.spark is not None
        return scans.read(self.spark, self._table, None)

    def _quarantine_snapshot(self) -> tuple[Table, int] | None:
        if self._table is None or self._known.quarantine is None:
            return None
        found = quarantines.quarantine_of(self.catalog, self._table)
        return None if found is None else (found, self._known.quarantine)

    def read_quarantine(self) -> DataFrame:
        """See :class:`.LoadTarget`: what the last commit names, or all, if other programs have rewritten it since."""
        found = self._quarantine_snapshot()
        if found is None:
            raise LakeError(f"{self.url}{quarantines.SUFFIX} has no records")
        assert self.spark is not None
        table, snapshot = found
        return scans.read(self.spark, table, quarantines.snapshot_of(table, snapshot))

    def optimize(self, *, min_files: int, target_bytes: int) -> CompactionReport:
        """See :class:`.LoadTarget`; files with deleted rows, and of an earlier partitioning, are left alone."""
        if min_files < 2 or target_bytes < 1:
            raise OptionError(f"compaction takes at least 2 files and 1 byte, not {min_files} and {target_bytes}")
        table = self._table
        if table is None:
            raise LakeError(f"there is no table {self.url}")
        assert self.spark is not None
        if _seen(table) != self._seen:
            self.refresh()  # The answer to a change of the schema came with another's commit.
            return CompactionReport(self.url, 0, 0, 0, 0, 0)
        try:
            done = optimize(self.spark, self.url, table, {COMPACTION: "1"}, min_files, target_bytes)
            self._seen = _seen(table)
        except Overtaken:
            self.refresh()
            return CompactionReport(self.url, 0, 0, 0, 0, 0)  # The next time.
        odd, named = quarantines.quarantine_of(self.catalog, table), self._known.quarantine
        if odd is None or named is None or not quarantines.has_only_named(odd, named):
            return done
        try:
            more = optimize(self.spark, self.url, odd, {COMPACTION: str(named)}, min_files, target_bytes)
        except Overtaken:
            return done
        return done.with_more(more)

    def replaced(self, *, before_ms: int) -> VacuumReport:
        """See :class:`.LoadTarget`: these are the table's own snapshots, and not those of the quarantine."""
        if self._table is None:
            return VacuumReport()
        return VacuumReport(snapshots=len(old_snapshots(self._table, before_ms, {self._known.snapshot})))

    def vacuum(self, *, before_ms: int) -> VacuumReport:
        """See :class:`.LoadTarget`: snapshots expire, and files go that only they had, or none."""
        table = self._table
        if table is None:
            raise LakeError(f"there is no table {self.url}")
        try:
            done = vacuum(self.catalog.load_table(self.identifier), before_ms, {self._known.snapshot})
            if (odd := quarantines.quarantine_of(self.catalog, table)) is not None:
                named = self._known.quarantine
                kept = {named, None if named is None else quarantines.snapshot_of(odd, named)}
                done = done.with_more(vacuum(odd, before_ms, kept))
        except LakeError:
            raise
        except Exception as e:  # Each catalog and store has its own.
            raise LakeError(f"{self.url}: old snapshots cannot be deleted: {first_line(e)}") from e
        self.refresh()
        return done


def _seen(table: Table) -> tuple[int | None, str | None]:
    """What tells a table from itself after another's commit."""
    return current_of(table.metadata), table.metadata.properties.get(STATE)
