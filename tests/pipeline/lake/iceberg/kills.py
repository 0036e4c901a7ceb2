"""
Loaders of a table of Iceberg that are killed at chosen steps, each a process of its own, without Spark.

They are forked, so that a hundred of them take a minute. Offsets that are multiples of seven go to the quarantine.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import pyiceberg.io.pyarrow  # noqa: F401 (before forks, which share it)
from attrs import define, field
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

from logbus.pipeline.errors import ClaimLost, LakeError
from logbus.pipeline.lake.iceberg import quarantine
from logbus.pipeline.lake.iceberg import table as tables
from logbus.pipeline.lake.iceberg.catalogs import catalog
from logbus.pipeline.lake.iceberg.table import IcebergTable
from tests.pipeline.lake.iceberg.fixtures import NAME, SCHEMA, catalog_in, change, rows

STEPS = ("files-written", "quarantine-added", "commit-begun", "metadata-written", "commit-made")
"""Of a batch; a commit is made to the quarantine, and one to the table."""

REST_STEPS = tuple(each for each in STEPS if each != "metadata-written")
"""Of these, those in the loader where a REST catalog's server writes the metadata."""

DONE, LOST = 0, 3
BATCH = 10
_PATIENCE = 120.0


def is_odd(offset: int) -> bool:
    """Whether a record goes to the quarantine."""
    return offset % 7 == 0


@define
class _Killer:
    """Kills this process at a step that comes for the so-and-so-many-th time."""

    point: str
    times: int
    passed: Counter[str] = field(factory=Counter)

    def at(self, point: str) -> None:
        self.passed[point] += 1
        if point == self.point and self.passed[point] == self.times:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function: Any, before: str = "", after: str = "") -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if before:
                self.at(before)
            result = function(*arguments, **named)
            if after:
                self.at(after)
            return result

        return call


def load(directory: Path, end: int, point: str, times: int, options: Mapping[str, str]) -> int:
    """Load up to an offset, unless killed before; DONE or LOST. The options are the catalog's."""
    killer = _Killer(point, times)
    patches: tuple[Any, ...] = (
        patch.object(tables, "write_parts", killer.around(tables.write_parts, after="files-written")),
        patch.object(quarantine, "add", killer.around(quarantine.add, after="quarantine-added")),
        patch.object(
            SqlCatalog,
            "_write_metadata",
            staticmethod(killer.around(SqlCatalog._write_metadata, after="metadata-written")),
        ),
        *(
            patch.object(kind, "commit_table", killer.around(kind.commit_table, "commit-begun", "commit-made"))
            for kind in (SqlCatalog, RestCatalog)
        ),
    )
    with catalog_in(directory, **options):
        for each in patches:
            each.start()
        table = IcebergTable.at(None, NAME, "test")
        try:
            table.claim(SCHEMA.jsonValue())
            while (start := table.state.held("views", 0).end) < end:
                batch(table, start, min(start + BATCH, end))
        except ClaimLost:
            return LOST
        except LakeError as e:
            # SQLite's lock, or another loader's quarantine: a supervisor starts it again.
            print(e, flush=True)
            return LOST if "locked" in str(e) or "again" in str(e) else 1
    return DONE


def batch(table: IcebergTable, start: int, end: int) -> None:
    """Load a batch."""
    table.discard()
    good = [rows(each, each + 1) for each in range(start, end) if not is_odd(each)]
    bad = [rows(each, each + 1) for each in range(start, end) if is_odd(each)]
    for found, is_quarantine in ((good, False), (bad, True)):
        if found:
            joined = rows(0, 0)
            joined.batches = [one for each in found for one in each.batches]
            table.stage(joined, quarantine=is_quarantine)  # type: ignore[arg-type]
    table.commit(change(start, end, quarantined=len(bad)))


def _run(directory: Path, end: int, point: str, times: int, options: Mapping[str, str]) -> None:
    os._exit(load(directory, end, point, times, options))


@define
class Report:
    """
    :ivar kills: of loaders that were killed, by the step.
    :ivar lost: how many ended because another had claimed the table.
    """

    kills: Counter[str] = field(factory=Counter)
    lost: int = 0


def run(
    directory: Path,
    points: list[tuple[str, int]],
    chance: Random,
    at_once: int = 1,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Report:
    """
    Kill a loader at each of these steps, in this order, and let a last one finish.

    :param at_once: how many loaders work at the same time.
    :param options: of the catalog.
    """
    with catalog_in(directory, **options) as name:
        catalog(name)  # SQLite's file, which two loaders cannot make at the same time.
    report = Report()
    context = multiprocessing.get_context("fork")
    left = list(points)
    end = BATCH * (len(points) + 4)
    running: list[tuple[Any, str]] = []
    while left or running:
        while left and len(running) < at_once:
            point, times = left.pop(0)
            process = context.Process(target=_run, args=(directory, end, point, times, options))
            process.start()
            running.append((process, point))
        process, point = running.pop(chance.randrange(len(running)) if len(running) > 1 else 0)
        process.join(_PATIENCE)
        assert process.exitcode in (DONE, LOST, -signal.SIGKILL), (process.exitcode, point)
        report.kills[point] += process.exitcode == -signal.SIGKILL
        report.lost += process.exitcode == LOST
    last = context.Process(target=_run, args=(directory, end, "", 0, options))
    last.start()
    last.join(_PATIENCE)
    assert last.exitcode == DONE
    check(directory, end, options)
    return report


def check(directory: Path, end: int, options: Mapping[str, str] = MappingProxyType({})) -> None:
    """Each offset is once in the table or in its quarantine, as any reader sees them."""
    with catalog_in(directory, **options):
        catalog = IcebergTable.at(None, NAME, "test").catalog
        good, odd = (
            sorted(catalog.load_table(name).scan().to_arrow()["offset"].to_pylist())
            for name in (NAME, f"{NAME}_quarantine")
        )
    assert good == [each for each in range(end) if not is_odd(each)]
    assert odd == [each for each in range(end) if is_odd(each)]
