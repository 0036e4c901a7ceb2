"""Tests tables of Iceberg in a catalog of SQLite, without Spark."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("pyspark")
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType
from pyspark.sql.types import StructType

from logbus.pipeline.errors import ClaimLost, LakeError, OptionError
from logbus.pipeline.lake.iceberg import snapshots
from logbus.pipeline.lake.iceberg.commits import STATE
from logbus.pipeline.lake.iceberg.table import IcebergTable
from logbus.pipeline.lake.layout import TIME_OF
from logbus.pipeline.lake.load_state import LoadChange
from tests.pipeline.lake.iceberg.fixtures import NAME, SCHEMA, catalog_in, change, rows


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(autouse=True)
def lake(tmp_path: Path) -> Iterator[str]:
    """A catalog."""
    with catalog_in(tmp_path) as name:
        yield name


def _at() -> IcebergTable:
    return IcebergTable.at(None, NAME, "test")


def _claimed(*directories: str) -> IcebergTable:
    table = _at()
    table.claim(SCHEMA.jsonValue(), directories)
    return table


def _load(table: IcebergTable, start: int, end: int) -> None:
    table.stage(rows(start, end))  # type: ignore[arg-type]
    table.commit(change(start, end))


def _plain() -> Any:
    """As any reader of Iceberg has it."""
    return _at().catalog.load_table(NAME)


def _offsets(name: str = NAME) -> list[int]:
    found: list[int] = _at().catalog.load_table(name).scan().to_arrow()["offset"].to_pylist()
    return sorted(found)


def test_load() -> None:
    """Rows and offsets are committed together; another process reads both."""
    assert (_at().number, _at().directories, _at().has_rows) == (0, None, False)
    table = _claimed()
    assert table.stage(rows(0, 5)) == 5  # type: ignore[arg-type]
    assert _offsets() == []
    done = table.commit(change(0, 5))
    assert (done.files, done.bytes > 0) == (1, True)
    assert _offsets() == [0, 1, 2, 3, 4]
    again = _at()
    assert (again.number, again.directories, again.has_rows) == (done.number, (), True)
    assert again.state == table.state
    assert again.state.held("views", 0).ranges == ((0, 5),)
    with pytest.raises(LakeError, match=r"views-0: offsets \(\(4, 5\),\) are in the table already"):
        table.commit(change(4, 6))
    assert _plain().current_snapshot().summary["total-records"] == "5"


def test_second_loader() -> None:
    """The last one to claim the table has it; nothing of the other's batch happens."""
    first = _claimed()
    _load(first, 0, 5)
    first.stage(rows(5, 9))  # type: ignore[arg-type]
    second = _claimed()
    with pytest.raises(ClaimLost, match=r"has made commit 3 after commit 2, the last that job .* two jobs write"):
        first.commit(change(5, 9))
    _load(second, 5, 7)
    with pytest.raises(ClaimLost):
        first.commit(change(5, 9))
    assert _offsets() == list(range(7))


def test_second_loader_during_schema_change() -> None:
    """A change of the schema brings the other's commit along, and must not make it one's own."""
    first = _claimed()
    second = _claimed()
    _load(second, 0, 5)
    wide = StructType([*SCHEMA.fields]).add("more", "string")
    first.stage(rows(0, 5, wide, more=["x"] * 5))  # type: ignore[arg-type]
    with pytest.raises(ClaimLost):
        first.commit(change(0, 5))
    assert _offsets() == list(range(5))


def test_catalog_that_fails() -> None:
    """While a table is created: another job may have made its namespace just then. Else the error is one line."""
    create = SqlCatalog.create_namespace_if_not_exists
    with patch.object(SqlCatalog, "create_namespace_if_not_exists", autospec=True) as namespace:
        namespace.side_effect = _first_fails(create)
        assert _claimed().number == 1
    with (
        patch.object(SqlCatalog, "load_table", side_effect=OSError("the line is dead\nat 127.0.0.1")),
        pytest.raises(LakeError, match=r"^lake\.views cannot be read: the line is dead$"),
    ):
        _at()
    with (
        patch.object(SqlCatalog, "table_exists", side_effect=OSError("the line is dead")),
        pytest.raises(LakeError, match=r"^lake\.others cannot be created: the line is dead$"),
    ):
        IcebergTable.at(None, "lake.others", "test").claim(SCHEMA.jsonValue())


def _first_fails(function: Any) -> Any:
    """The same function, whose first call fails."""
    calls: list[None] = []

    def call(*arguments: Any) -> Any:
        calls.append(None)
        if len(calls) == 1:
            raise OSError("UNIQUE constraint failed\n[SQL: INSERT]")
        return function(*arguments)

    return call


def test_lost_and_batches() -> None:
    """They are in the state, without rows."""
    table = _claimed()
    table.commit(change(0, 3, records=0, lost=change(3, 5).offsets, batch=("query", 7)))
    state = _at().state
    assert state.held("views", 0).ranges == ((0, 5),)
    assert state.lost["views"].partitions[0].ranges == ((3, 5),)
    assert state.batches == {"query": 7}


def test_first_batch_of_two_jobs() -> None:
    """Two jobs that found no table do not both write the same batch of a query to it."""
    first, second = _at(), _at()
    for each in (first, second):
        each.claim()  # There is nothing to claim yet.
    first.stage(rows(0, 3))  # type: ignore[arg-type]
    first.commit(LoadChange(records=3, schema=SCHEMA.jsonValue(), batch=("query", 1)))
    second.stage(rows(0, 3))  # type: ignore[arg-type]
    with pytest.raises(LakeError, match="batch 1 of the query query is in the table already"):
        second.commit(LoadChange(records=3, schema=SCHEMA.jsonValue(), batch=("query", 1)))
    assert _offsets() == [0, 1, 2]


def test_new_columns() -> None:
    """They are added; in a struct too. Older files have null there, and rows that lack some as well."""
    event = StructType().add("a", "long")
    _claimed()
    narrow = StructType([*SCHEMA.fields]).add("event", event)
    wide = (
        StructType([*SCHEMA.fields]).add("event", StructType().add("a", "long").add("b", "string")).add("n", "integer")
    )
    table = _at()
    table.claim(narrow.jsonValue())
    table.stage(rows(0, 1, narrow, event=pa.array([{"a": 1}])))  # type: ignore[arg-type]
    table.commit(change(0, 1))
    table.stage(rows(1, 2, wide, event=pa.array([{"a": 2, "b": "x"}]), n=pa.array([4], pa.int32())))  # type: ignore[arg-type]
    table.commit(change(1, 2))
    table.stage(rows(2, 3, narrow, event=pa.array([{"a": 3}])))  # type: ignore[arg-type]
    table.commit(change(2, 3))
    found = _plain().scan().to_arrow().sort_by("offset").select(["event", "n"]).to_pylist()
    assert found == [
        {"event": {"a": 1, "b": None}, "n": None},
        {"event": {"a": 2, "b": "x"}, "n": 4},
        {"event": {"a": 3, "b": None}, "n": None},
    ]


def test_refused_columns() -> None:
    """The column is named."""
    table = _claimed()
    other = StructType([each for each in SCHEMA.fields if each.name != "page"]).add("page", "long")
    with pytest.raises(LakeError, match=r"lake\.views: the rows' columns do not fit the table's: .*page"):
        table.stage(rows(0, 1, other, page=[1]))  # type: ignore[arg-type]
    odd = StructType([*SCHEMA.fields]).add("d", "interval day to second")
    with pytest.raises(LakeError, match="column 'd' is of type interval day to second, which Iceberg lacks"):
        table.claim(odd.jsonValue())


@pytest.mark.parametrize(
    ("name", "required", "words"),
    [
        ("Page", False, "column 'page' of the new rows and 'Page' differ in case only: call it by one name"),
        ("tenant", True, "column 'tenant' is required, and the new rows lack it; let it be null"),
    ],
)
def test_columns_of_others(name: str, required: bool, words: str) -> None:
    """A table that another program has made is left alone if no reader could read it with the new rows."""
    catalog = _at().catalog
    catalog.create_namespace(NAME.partition(".")[0])
    catalog.create_table(NAME, Schema(NestedField(1, name, StringType(), required=required)))
    with pytest.raises(LakeError, match=words):
        _claimed()
    assert _plain().schema().column_names == [name]


def test_names() -> None:
    with pytest.raises(OptionError, match=r"table is 'views'; a table of Iceberg is NAMESPACE\.TABLE in a catalog"):
        IcebergTable.at(None, "views", "test")
    with pytest.raises(OptionError, match=r"there is no catalog 'other'; .* has .*test"):
        IcebergTable.at(None, NAME, "other")


@pytest.mark.parametrize(("directories", "hours"), [(("date",), None), (("date", "hour"), 1)])
def test_hidden_partitions(directories: tuple[str, ...], hours: int | None) -> None:
    """Days and hours are partitions of the time, and no columns; a reader's filter of the time skips files."""
    schema = StructType([*SCHEMA.fields])
    for name in directories:
        schema.add(name, "string", metadata={TIME_OF: "at"})
    times = [datetime.datetime(2024, 5, day, hour, 30, tzinfo=datetime.UTC) for day, hour in ((1, 0), (1, 13), (2, 13))]
    values: dict[str, Any] = {
        "at": pa.array(times, pa.timestamp("us", tz="UTC")),
        "date": [str(each.date()) for each in times],
    }
    if hours:
        values["hour"] = [f"{each.hour:02}" for each in times]
    table = _at()
    table.claim(schema.jsonValue(), directories)
    table.stage(rows(0, 3, schema, **values), directories)  # type: ignore[arg-type]
    table.commit(change(0, 3))
    assert _at().directories == directories
    plain = _plain()
    assert plain.scan().to_arrow().column_names == SCHEMA.names
    assert len(list(plain.scan().plan_files())) == (3 if hours else 2)
    late = plain.scan("at >= '2024-05-02T13:00:00+00:00'")
    assert [task.file.record_count for task in late.plan_files()] == [1]
    assert late.to_arrow()["offset"].to_pylist() == [2]


@pytest.mark.parametrize("kind", ["string", "date", "boolean", "decimal(9,2)", "timestamp"])
def test_partitions_of_a_column(kind: str) -> None:
    """Identity, of any type; the column is in the files too."""
    from decimal import Decimal

    at = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
    value = {
        "string": "/a b",
        "date": datetime.date(2024, 5, 1),
        "boolean": True,
        "decimal(9,2)": Decimal("1.50"),
        "timestamp": at,
    }[kind]
    schema = StructType([*SCHEMA.fields]).add("by", kind)
    from pyspark.sql.pandas.types import to_arrow_schema

    column = pa.array([value, None], to_arrow_schema(schema, timezone="UTC").field("by").type)
    table = _at()
    table.claim(schema.jsonValue(), ["by"])
    table.stage(rows(0, 2, schema, by=column), ["by"])  # type: ignore[arg-type]
    table.commit(change(0, 2))
    assert _at().directories == ("by",)
    assert _plain().scan().to_arrow().sort_by("offset")["by"].to_pylist() == [value, None]
    assert [task.file.record_count for task in _plain().scan("by is null").plan_files()] == [1]


def test_far_times() -> None:
    """Times that Python cannot express are in the files, without bounds in the manifest."""
    table = _claimed()
    far = pa.array([400_000_000_000_000_000], pa.timestamp("us", tz="UTC"))
    table.stage(rows(0, 1, at=far))  # type: ignore[arg-type]
    table.commit(change(0, 1))
    assert _plain().scan().to_arrow()["at"].cast(pa.int64()).to_pylist() == [400_000_000_000_000_000]


def test_quarantine() -> None:
    """It is a table of its own, and what is in it belongs to the commit."""
    table = _claimed()
    table.stage(rows(0, 3))  # type: ignore[arg-type]
    table.stage(rows(3, 5), quarantine=True)  # type: ignore[arg-type]
    assert not table.has_quarantine
    table.commit(change(0, 5, quarantined=2))
    assert table.has_quarantine
    assert (_offsets(), _offsets(f"{NAME}_quarantine")) == ([0, 1, 2], [3, 4])


@pytest.mark.parametrize("before", [False, True])
def test_killed_between_both(before: bool) -> None:
    """The next job rolls back the quarantine's rows, and loads them again."""
    table = _claimed()
    if before:
        table.stage(rows(0, 1), quarantine=True)  # type: ignore[arg-type]
        table.commit(change(0, 1, quarantined=1))
    table.stage(rows(1, 3), quarantine=True)  # type: ignore[arg-type]
    with patch.object(IcebergTable, "_make", side_effect=Killed), pytest.raises(Killed):
        table.commit(change(1, 3, quarantined=2))
    assert _offsets(f"{NAME}_quarantine")[-2:] == [1, 2]
    again = _claimed()
    assert _offsets(f"{NAME}_quarantine") == [0] * before
    again.stage(rows(1, 3), quarantine=True)  # type: ignore[arg-type]
    again.commit(change(1, 3, quarantined=2))
    assert _offsets(f"{NAME}_quarantine") == [0] * before + [1, 2]


def test_second_loader_with_quarantine() -> None:
    """A job that has lost its claim rolls back nothing of the other's quarantine, whose snapshots it does not know."""
    first = _claimed()
    first.stage(rows(0, 1), quarantine=True)  # type: ignore[arg-type]
    first.commit(change(0, 1, quarantined=1))
    first.stage(rows(1, 3), quarantine=True)  # type: ignore[arg-type]
    second = _claimed()
    second.stage(rows(1, 2), quarantine=True)  # type: ignore[arg-type]
    second.commit(change(1, 2, quarantined=1))
    with pytest.raises(ClaimLost):
        first.commit(change(1, 3, quarantined=2))
    assert _offsets(f"{NAME}_quarantine") == [0, 1]


def test_suspended_while_reconciling() -> None:
    """Nor if the other one claims the table and adds rows just after the claim was looked at."""
    first = _claimed()
    for start, end in ((0, 1), (1, 3)):
        first.stage(rows(start, end), quarantine=True)  # type: ignore[arg-type]
        if start == 0:
            first.commit(change(0, 1, quarantined=1))
    check = IcebergTable._check_claim

    def suspended(table: IcebergTable) -> None:
        check(table)
        if table is first:
            second = _claimed()
            second.stage(rows(1, 2), quarantine=True)  # type: ignore[arg-type]
            second.commit(change(1, 2, quarantined=1))

    with patch.object(IcebergTable, "_check_claim", suspended), pytest.raises(ClaimLost):
        first.commit(change(1, 3, quarantined=2))
    assert _offsets(f"{NAME}_quarantine") == [0, 1]


def test_changed_partitions() -> None:
    """By another program, after files were written for the earlier ones."""
    table = _claimed()
    table.stage(rows(0, 3))  # type: ignore[arg-type]
    plain = _plain()
    with plain.update_spec() as spec:
        spec.add_identity("page")
    plain.append(pa.Table.from_batches(rows(100, 101).batches))
    with pytest.raises(LakeError, match="another program has changed its partitions meanwhile; run the load again"):
        table.commit(change(0, 3))
    assert _offsets() == [100]


def test_dropped_table() -> None:
    table = _claimed()
    table.stage(rows(0, 3))  # type: ignore[arg-type]
    table.catalog.drop_table(NAME)
    with pytest.raises(LakeError, match="was dropped or replaced since it was claimed; run the load again"):
        table.commit(change(0, 3))


def test_foreign_quarantine() -> None:
    table = _claimed()
    table.catalog.create_table(f"{NAME}_quarantine", pa.schema([pa.field("x", pa.int64())]))
    with pytest.raises(
        LakeError, match=r"lake\.views_quarantine is not the quarantine of lake\.views, and has its name"
    ):
        table.stage(rows(0, 1), quarantine=True)  # type: ignore[arg-type]


def _append(start: int, end: int) -> None:
    """Another program's."""
    _plain().append(pa.Table.from_batches(rows(start, end).batches))


def test_others_append() -> None:
    """Between two batches: these are committed all the same; the next claim tells."""
    table = _claimed()
    _load(table, 0, 3)
    _append(100, 103)
    _load(table, 3, 5)
    _append(103, 104)
    assert _offsets() == [0, 1, 2, 3, 4, 100, 101, 102, 103]
    again = _at()
    assert again.claim(SCHEMA.jsonValue()) == (
        "another program has made a snapshot of the table since the last load (append)",
    )
    _load(again, 5, 6)
    assert _at().state.held("views", 0).ranges == ((0, 6),)


def test_others_expire_snapshots() -> None:
    """The offsets outlive it: also those of a table whose snapshots are all another's."""
    table = _claimed()
    _load(table, 0, 3)
    _append(100, 101)
    _append(101, 102)
    plain = _plain()
    plain.maintenance.expire_snapshots().older_than(datetime.datetime.now() + datetime.timedelta(1)).commit()
    assert len(_plain().snapshots()) == 1
    again = _claimed()
    assert again.state.held("views", 0).ranges == ((0, 3),)
    _load(again, 3, 5)
    assert _offsets() == [0, 1, 2, 3, 4, 100, 101]


def test_rolled_back() -> None:
    """The next load takes again what is gone; one that runs ends."""
    table = _claimed()
    _load(table, 0, 3)
    at = _plain().current_snapshot().snapshot_id
    _load(table, 3, 5)
    _plain().manage_snapshots().rollback_to_snapshot(at).commit()
    table.stage(rows(5, 6))  # type: ignore[arg-type]
    with pytest.raises(LakeError, match=r"rolled back from commit 3 to commit 2; .*run the load again"):
        table.commit(change(5, 6))
    again = _at()
    assert again.state.held("views", 0).ranges == ((0, 3),)
    notes = again.claim(SCHEMA.jsonValue())
    assert "rolled back from commit 3 to commit 2" in notes[0]
    _load(again, 3, 6)
    assert _offsets() == [0, 1, 2, 3, 4, 5]


def test_foreign_table() -> None:
    """Rows of another program are not loaded into."""
    _at().catalog.create_namespace("lake")
    plain = _at().catalog.create_table(NAME, pa.Table.from_batches(rows(0, 1).batches).schema)
    plain.append(pa.Table.from_batches(rows(0, 1).batches))
    with pytest.raises(LakeError, match=r"lake\.views has snapshots, but no property logbus\.state"):
        _at()


def test_old_table() -> None:
    """Its snapshots have no sequence numbers, which say what is newer."""
    _at().catalog.create_namespace("lake")
    kinds = pa.Table.from_batches(rows(0, 1).batches).schema
    _at().catalog.create_table(NAME, kinds, properties={"format-version": "1"})
    with pytest.raises(LakeError, match=r"lake\.views is of Iceberg's format version 1, .*; upgrade it to version 2"):
        _at()


@pytest.mark.parametrize("made", [False, True])
def test_unknown_outcome(made: bool) -> None:
    """After an error that says nothing the table is looked at: a commit that was made is not made again."""
    table = _claimed()
    table.stage(rows(0, 3))  # type: ignore[arg-type]
    commit = table.catalog.commit_table

    def fails(*arguments: Any) -> Any:
        if made:
            commit(*arguments)
        raise ConnectionError("the line is dead")

    with patch.object(type(table.catalog), "commit_table", lambda self, *arguments: fails(*arguments)):
        if made:
            table.commit(change(0, 3))
        else:
            with pytest.raises(LakeError, match=r"lake\.views: a commit has failed: the line is dead"):
                table.commit(change(0, 3))
    if made:
        _load(table, 3, 4)
    assert _offsets() == list(range(4 if made else 0))


def test_commits_are_tried_once() -> None:
    """PyIceberg's own repetition would put a batch on top of another load's."""
    first, second = _claimed(), _claimed()
    assert first._table is not None
    assert "commit.retry.num-retries" not in _plain().properties
    with pytest.raises(snapshots.Overtaken):
        snapshots.make_snapshot(first._table, {})
    assert second.number == _plain().metadata.last_sequence_number
    assert STATE in _plain().properties


def test_discarded(tmp_path: Path) -> None:
    """Files of a failed attempt are deleted."""
    table = _claimed()
    table.stage(rows(0, 3))  # type: ignore[arg-type]
    assert list(tmp_path.rglob("*.parquet"))
    table.discard()
    assert not list(tmp_path.rglob("*.parquet"))
    _load(table, 0, 2)
    assert _offsets() == [0, 1]


def test_on_s3(tmp_path: Path) -> None:
    """On a store of which one request in twenty fails: for each, pyarrow waits for a second, or for longer."""
    pytest.importorskip("moto")
    from tests.pipeline.s3_server import S3Server

    with S3Server("lake", failing=0.05) as server:
        properties = {
            "s3__endpoint": server.url,
            "s3__access_key_id": "test",
            "s3__secret_access_key": "test",
            "s3__region": "us-east-1",
        }
        with catalog_in(tmp_path / "catalog", warehouse="s3://lake/warehouse", **properties):
            table = _claimed()
            for start in range(0, 6, 3):
                table.stage(rows(start, start + 2))  # type: ignore[arg-type]
                table.stage(rows(start + 2, start + 3), quarantine=True)  # type: ignore[arg-type]
                table.commit(change(start, start + 3, quarantined=1))
            assert (_offsets(), _offsets(f"{NAME}_quarantine")) == ([0, 1, 3, 4], [2, 5])
            assert _plain().location() == "s3://lake/warehouse/lake/views"
        assert server.failed > 1
