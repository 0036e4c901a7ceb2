"""
A Spark driver that loads a topic and follows it. When its input is closed, it loads the rest and ends; its last line of
output is ``found``, with the numbers of rows and of different offsets.

It is run as a process of its own, ``python -m tests.pipeline.kills.load_driver '{"bootstrap": ...}'``, so that it can
be killed; its own steps and its tasks' are points where it can be held (:mod:`.hold_points`).
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.load import LoadOptions, run
from logbus.pipeline.lake import table as tables
from logbus.pipeline.lake.commit_log import Commit
from logbus.pipeline.lake.file_system import LocalFileSystem
from logbus.pipeline.lake.formats import DELTA, table_at
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.pipeline.session import session
from tests.pipeline.kills.held_source import HeldSource
from tests.pipeline.kills.hold_points import at

BATCH_OFFSETS = 150
COMPACT = 2
"""Batches: they make enough files."""


def _have_points_of_parquet() -> None:
    """
    The points of a commit are named for its kind: ``load-written``, its files are there; ``load-drafted``, and the
    commit under another name; ``load-made``, and the commit; ``load-file-gone``, an old file is deleted;
    ``load-file-moved``, a new one is where it belongs; ``load-done``, all are.
    """
    commit, settle = tables.Table.commit, tables.Table._apply_commit
    link, move, delete = os.link, LocalFileSystem.move, LocalFileSystem.delete
    settling = ""

    def committing(self: Any, kind: Any, *arguments: Any, **content: Any) -> Commit:
        at(f"{kind.value}-written")
        return commit(self, kind, *arguments, **content)

    def linking(draft: Path, target: Path) -> None:
        what = json.loads(draft.read_bytes()).get("kind", "snapshot")
        at(f"{what}-drafted")
        link(draft, target)
        at(f"{what}-made")

    def deleting(self: LocalFileSystem, path: str) -> None:
        delete(self, path)
        if path.endswith(".parquet"):
            at(f"{settling}-file-gone")

    def moving(self: LocalFileSystem, source: str, target: str) -> None:
        move(self, source, target)
        at(f"{settling}-file-moved")

    def settled(self: Any, of: Commit) -> None:
        nonlocal settling
        settling = of.kind.value
        settle(self, of)
        at(f"{settling}-done")

    for owner, name, function in (
        (tables.Table, "commit", committing),
        (tables.Table, "_apply_commit", settled),
        (os, "link", linking),
        (LocalFileSystem, "move", moving),
        (LocalFileSystem, "delete", deleting),
    ):
        setattr(owner, name, function)


def _have_points_of_delta() -> None:
    """
    ``load-written``: the files are there; ``load-drafted``: and the state; ``load-made``: and the commit;
    ``load-settled``: and that of the quarantine.
    """
    from deltalake import DeltaTable
    from deltalake.table import TableOptimizer

    from logbus.pipeline.lake.delta_files import DeltaFiles
    from logbus.pipeline.lake.delta_log import DeltaLog

    commit, write, settle = DeltaLog.commit, DeltaFiles.write, DeltaLog._settle
    append, claim, compact = DeltaTable.create_write_transaction, DeltaLog.claim, TableOptimizer.compact

    def committing(self: Any, *arguments: Any) -> Any:
        at("load-written")
        return commit(self, *arguments)

    def writing(self: Any, path: str, content: bytes) -> None:
        write(self, path, content)
        at("load-drafted")

    def appending(self: Any, actions: Any, *arguments: Any, **named: Any) -> None:
        append(self, actions, *arguments, **named)
        if actions:
            at("load-made")

    def settling(self: Any) -> None:
        settle(self)
        at("load-settled")

    def claiming(self: Any, *arguments: Any) -> Any:
        told = claim(self, *arguments)
        at("claim-made")
        return told

    def compacting(self: Any, *arguments: Any, **named: Any) -> Any:
        at("compact-written")
        made = compact(self, *arguments, **named)
        at("compact-made")
        return made

    for owner, name, function in (
        (DeltaLog, "commit", committing),
        (DeltaFiles, "write", writing),
        (DeltaLog, "_settle", settling),
        (DeltaLog, "claim", claiming),
        (DeltaTable, "create_write_transaction", appending),
        (TableOptimizer, "compact", compacting),
    ):
        setattr(owner, name, function)


def main(asked: dict[str, Any]) -> None:
    """
    :param asked: ``bootstrap``, ``topic``, ``table``, ``master``, ``settings`` of Spark, ``format``.
    """
    spark = session("loading", master=asked["master"], settings=asked["settings"])
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(HeldSource)
    if asked["format"] == DELTA:
        _have_points_of_delta()
    else:
        _have_points_of_parquet()
    tables.SNAPSHOT_EVERY, tables.KEEP = 12, 24  # type: ignore[misc]
    watch = JobControl()

    def listen() -> None:
        sys.stdin.read()
        watch.stop()

    threading.Thread(target=listen, daemon=True).start()
    source = {"kafka.bootstrap.servers": asked["bootstrap"], "subscribe": asked["topic"]}
    payload = JsonPayload(schema="number INT")

    def load(batch_offsets: int, follow: float | None, watch: JobControl) -> None:
        options = LoadOptions(
            source=source,
            table=asked["table"],
            format=asked["format"],
            payload=payload,
            batch_offsets=batch_offsets,
            compact=COMPACT,
            follow=follow,
        )
        run(spark, options, watch)

    load(BATCH_OFFSETS, 0.05, watch)
    load(1_000_000, None, JobControl())
    rows = table_at(spark, asked["table"]).read().select("partition", "offset")
    print("found", rows.count(), rows.distinct().count(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
