"""
A Spark driver that loads a topic into a table of Iceberg and follows it; see :mod:`.load_driver`.

The points of a commit are ``load-written``, the files are there; ``load-odd-made``, the quarantine has its rows;
``load-drafted``, and the table's new metadata; ``load-made``, and the catalog points to them. Those of a compaction are
named in the same way, and ``claim-made``.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.load import LoadOptions, run
from logbus.pipeline.lake.iceberg import quarantine, scans
from logbus.pipeline.lake.iceberg.table import IcebergTable
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.pipeline.session import session
from tests.pipeline.kills.held_source import HeldSource
from tests.pipeline.kills.hold_points import at
from tests.pipeline.kills.load_driver import BATCH_OFFSETS, COMPACT


def _have_points() -> None:
    make, commit, add, rewrite = IcebergTable._make, IcebergTable.commit, quarantine.add, scans.rewrite
    draft, update = SqlCatalog._write_metadata, SqlCatalog.commit_table
    kind = "other"

    def making(self: Any, *arguments: Any, **named: Any) -> None:
        nonlocal kind
        kind = "claim" if named.get("is_claim") else "load"
        make(self, *arguments, **named)
        kind = "other"

    def committing(self: Any, change: Any) -> Any:
        at("load-written")
        return commit(self, change)

    def adding(*arguments: Any) -> int:
        made = add(*arguments)
        at("load-odd-made")
        return made

    def rewriting(*arguments: Any) -> Any:
        nonlocal kind
        made = rewrite(*arguments)
        at("compact-written")
        kind = "compact"  # Its commit is the next one.
        return made

    def drafting(*arguments: Any, **named: Any) -> None:
        draft(*arguments, **named)
        at(f"{kind}-drafted")

    def updating(*arguments: Any) -> Any:
        nonlocal kind
        made = update(*arguments)
        at(f"{kind}-made")
        if kind == "compact":
            kind = "other"
        return made

    for owner, name, function in (
        (IcebergTable, "_make", making),
        (IcebergTable, "commit", committing),
        (quarantine, "add", adding),
        (scans, "rewrite", rewriting),
        (SqlCatalog, "_write_metadata", staticmethod(drafting)),
        (SqlCatalog, "commit_table", updating),
    ):
        setattr(owner, name, function)


def main(asked: dict[str, Any]) -> None:
    """
    :param asked: ``bootstrap``, ``topic``, ``table``, ``catalog``, ``master``, ``settings`` of Spark.
    """
    spark = session("loading", master=asked["master"], settings=asked["settings"])
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(HeldSource)
    _have_points()
    watch = JobControl()

    def listen() -> None:
        sys.stdin.read()
        watch.stop()

    threading.Thread(target=listen, daemon=True).start()

    def load(batch_offsets: int, follow: float | None, watch: JobControl) -> None:
        options = LoadOptions(
            source={"kafka.bootstrap.servers": asked["bootstrap"], "subscribe": asked["topic"]},
            table=asked["table"],
            format="iceberg",
            catalog=asked["catalog"],
            payload=JsonPayload(schema="number INT"),
            batch_offsets=batch_offsets,
            compact=COMPACT,
            follow=follow,
        )
        run(spark, options, watch)

    load(BATCH_OFFSETS, 0.05, watch)
    load(1_000_000, None, JobControl())
    rows = IcebergTable.at(spark, asked["table"], asked["catalog"]).read().select("partition", "offset")
    print("found", rows.count(), rows.distinct().count(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
