"""
Reads tables of Delta Lake by delta-rs.

``DeltaTable.to_pyarrow_table()`` does so, too, but with deltalake 1.6.6 and pyarrow 26 it can abort Python when that
exits. ``QueryBuilder`` keeps the interpreter's lock while it waits for a store, so that a server in a thread of the
tests could not answer: tables on a store are read by a process of their own, which is this module.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow
from deltalake import DeltaTable, QueryBuilder

_SECONDS = 240.0


def delta_rows(table: str | Path, *columns: str, options: Mapping[str, str] | None = None) -> pyarrow.Table:
    """
    The rows of a table, in any order.

    :param columns: all, unless some are named.
    :param options: of its store; None: it is in a local directory.
    """
    if options is None:
        return _rows(str(table), columns, {})
    asked = json.dumps([str(table), columns, dict(options)]).encode()
    command = [sys.executable, "-m", __name__]
    done = subprocess.run(command, input=asked, capture_output=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return pyarrow.ipc.open_stream(done.stdout).read_all()


def _rows(table: str, columns: tuple[str, ...], options: Mapping[str, str]) -> pyarrow.Table:
    found = DeltaTable(table, storage_options=dict(options))
    wanted = ", ".join(f'"{each}"' for each in columns) or "*"
    return pyarrow.table(QueryBuilder().register("rows", found).execute(f"SELECT {wanted} FROM rows").read_all())


if __name__ == "__main__":
    rows = _rows(*json.load(sys.stdin))
    with pyarrow.ipc.new_stream(sys.stdout.buffer, rows.schema) as stream:
        stream.write_table(rows)
