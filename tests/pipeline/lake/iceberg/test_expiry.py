"""Tests that old snapshots and files that nobody needs go, and that loads go on; without Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("pyspark")
from logbus.pipeline.lake.iceberg import quarantine as quarantines
from logbus.pipeline.lake.iceberg.commits import COMPACTION
from logbus.pipeline.lake.iceberg.files import data_file, store_of
from logbus.pipeline.lake.iceberg.schemas import file_schema
from logbus.pipeline.lake.iceberg.snapshots import make_snapshot
from logbus.pipeline.lake.iceberg.table import IcebergTable
from logbus.pipeline.lake.part_writer import PartWriter, write_parts
from tests.pipeline.lake.iceberg.fixtures import NAME, SCHEMA, catalog_in, change, rows

ODD = f"{NAME}_quarantine"
DAY = 86_400


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(autouse=True)
def lake(tmp_path: Path) -> Iterator[str]:
    """A catalog."""
    with catalog_in(tmp_path) as name:
        yield name


def _at() -> IcebergTable:
    return IcebergTable.at(None, NAME, "test")


def _claimed() -> IcebergTable:
    table = _at()
    table.claim(SCHEMA.jsonValue())
    return table


def _load(table: IcebergTable, start: int, end: int, odd: int = 0) -> None:
    """Rows of which the last ones are in quarantine."""
    table.stage(rows(start, end - odd))  # type: ignore[arg-type]
    if odd:
        table.stage(rows(end - odd, end), quarantine=True)  # type: ignore[arg-type]
    table.commit(change(start, end, quarantined=odd))


def _plain(name: str = NAME) -> Any:
    return _at().catalog.load_table(name)


def _offsets(name: str = NAME) -> list[int]:
    found: list[int] = _plain(name).scan().to_arrow()["offset"].to_pylist()
    return sorted(found)


def _compact(name: str, start: int, end: int, named: int | None) -> None:
    """What a compaction does: the rows in one file, in a snapshot that tells which one it replaces."""
    plain = _plain(name)
    writer = PartWriter(store=store_of(plain), schema=file_schema(plain.schema(), SCHEMA.names))
    (part,) = write_parts(rows(start, end), writer)  # type: ignore[arg-type]
    old = [task.file for task in plain.scan().plan_files()]
    new = data_file(plain.metadata, store_of(plain).url, part, old[0].partition)
    make_snapshot(plain, {COMPACTION: str(named or 1)}, [new], old)


def _files(directory: Path, ending: str) -> set[str]:
    return {str(each) for each in directory.rglob(f"*.{ending}")}


def _data() -> set[str]:
    """The files of the table's snapshot."""
    return {task.file.file_path.removeprefix("file://") for task in _plain().scan().plan_files()}


def _now_ms(seconds: float = 0) -> int:
    return int((time.time() + seconds) * 1000)


def test_all_that_is_old(tmp_path: Path) -> None:
    """Snapshots, small files that were replaced, and what a killed job wrote; the load goes on."""
    table = _claimed()
    for start in (0, 5, 10):
        _load(table, start, start + 5)
    _compact(NAME, 0, 15, None)
    killed = _claimed()
    killed.stage(rows(15, 20))  # type: ignore[arg-type]
    table = _claimed()
    assert len(_plain().metadata.snapshots) == 7
    assert table.vacuum(before_ms=0).files == 0
    done = table.vacuum(before_ms=_now_ms(60))
    assert done.snapshots == 6
    assert len(_plain().metadata.snapshots) == 1
    assert len(_data()) == 1
    assert _files(tmp_path, "parquet") == _data()
    manifests = _plain().current_snapshot().manifests(_plain().io)
    assert len(_files(tmp_path, "avro")) == 1 + len(manifests)
    _load(table, 15, 20)
    assert _offsets() == list(range(20))
    again = _at()
    assert again.claim(SCHEMA.jsonValue()) == ()
    assert again.state.held("views", 0).ranges == ((0, 20),)


def test_what_is_young(tmp_path: Path) -> None:
    """Files that another job may be about to commit stay, and so do those that are not of loads."""
    table = _claimed()
    _load(table, 0, 5)
    killed = _claimed()
    killed.stage(rows(5, 10))  # type: ignore[arg-type]
    (left,) = map(Path, _files(tmp_path, "parquet") - _data())
    foreign = left.with_name("mine.parquet")
    foreign.write_bytes(left.read_bytes())
    old = time.time() - 3 * DAY
    os.utime(foreign, (old, old))
    assert killed.vacuum(before_ms=_now_ms(-DAY)).files == 0
    os.utime(left, (old, old))
    assert killed.vacuum(before_ms=_now_ms(-DAY)).files == 1
    assert (left.exists(), foreign.exists()) == (False, True)
    assert _offsets() == list(range(5))


@pytest.mark.parametrize("expired", [False, True])
def test_quarantine_that_was_compacted(expired: bool) -> None:
    """A compaction has the rows of the snapshot that the last load named: what comes after it is rolled back to it."""
    table = _claimed()
    _load(table, 0, 5, 2)
    _load(table, 5, 10, 2)
    named = table._known.quarantine
    assert named is not None
    assert quarantines.has_only_named(_plain(ODD), named)
    _compact(ODD, 3, 5, named)
    if expired:
        plain = _plain(ODD)
        heads = {plain.current_snapshot().snapshot_id}
        ids = [each.snapshot_id for each in plain.metadata.snapshots if each.snapshot_id not in heads]
        plain.maintenance.expire_snapshots().by_ids(ids).commit()
    table.stage(rows(10, 12), quarantine=True)  # type: ignore[arg-type]
    with patch.object(IcebergTable, "_make", side_effect=Killed), pytest.raises(Killed):
        table.commit(change(10, 12, quarantined=2))
    assert not quarantines.has_only_named(_plain(ODD), named)
    assert _offsets(ODD) == [3, 4, 10, 11]
    again = _claimed()
    assert _offsets(ODD) == [3, 4]
    again.stage(rows(10, 12), quarantine=True)  # type: ignore[arg-type]
    again.commit(change(10, 12, quarantined=2))
    again.vacuum(before_ms=_now_ms(60))
    assert _offsets(ODD) == [3, 4, 10, 11]
    _load(_claimed(), 12, 15, 1)
    assert _offsets(ODD) == [3, 4, 10, 11, 14]


def test_quarantine_that_is_compacted_meanwhile() -> None:
    """Just before rows are added to it: these are added after it."""
    table = _claimed()
    _load(table, 0, 5, 2)
    named = table._known.quarantine
    table.stage(rows(5, 6), quarantine=True)  # type: ignore[arg-type]
    add = quarantines.add
    calls: list[None] = []

    def late(*arguments: Any) -> int:
        calls.append(None)
        if len(calls) == 1:
            _compact(ODD, 3, 5, named)
        return add(*arguments)

    with patch.object(quarantines, "add", late):
        table.commit(change(5, 6, quarantined=1))
    assert len(calls) == 2
    assert _offsets(ODD) == [3, 4, 5]
