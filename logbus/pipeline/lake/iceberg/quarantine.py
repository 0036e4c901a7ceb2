"""
The table beside a table, ``NAME_quarantine``, of the records whose value could not be read.

A catalog changes one table at a time. So rows are first added here, and then the table's own commit names the snapshot
with them: it counts from then on. If a job dies in between, the next one rolls back what no commit names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.iceberg.commits import COMMIT, COMPACTION, WRITER, Ancestor, ancestors
from logbus.pipeline.lake.iceberg.snapshots import (
    Overtaken,
    current_of,
    first_line,
    make_snapshot,
    name_of,
    snapshots_of,
)

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

SUFFIX = "_quarantine"
OF = "logbus.quarantine-of"
"""The property with the UUID of the table that it belongs to."""

_FIRST = "0"
"""The commit of the first snapshot."""

_ATTEMPTS = 20


def quarantine_of(catalog: Catalog, table: Table) -> Table | None:
    """
    The quarantine of a table; None: there is none.

    :raise LakeError: a table that is not of this load has the name; or it cannot be read.
    """
    from pyiceberg.exceptions import NoSuchTableError

    *namespace, name = table.name()
    try:
        found = catalog.load_table((*namespace, name + SUFFIX))
    except NoSuchTableError:
        return None
    except Exception as e:  # Each catalog and store has its own.
        raise LakeError(f"{name_of(table)}{SUFFIX} cannot be read: {first_line(e)}") from e
    if found.properties.get(OF) != str(table.metadata.table_uuid):
        raise LakeError(
            f"{name_of(found)} is not the quarantine of {name_of(table)}, and has its name: rename or drop one of them"
        )
    return found


def reconcile(quarantine: Table, named: int | None, check_claim: Callable[[], None]) -> None:
    """
    Roll back rows that no commit of the table names.

    A job that has lost its claim must not: to it, the rows of the later job are such rows. It looks at the quarantine
    first and then at its claim; if another job claims the table after that, it changes the quarantine later than it was
    looked at, and what this one does to it fails.

    :param named: the snapshot that the last commit names; None: none.
    :param check_claim: raises an error if the claim is lost.
    :raise LakeError: another program has changed them since; or the catalog or the store does not answer.
    """
    for _ in range(_ATTEMPTS):
        try:
            metadata = quarantine.refresh().metadata
        except Exception as e:  # Each catalog and store has its own.
            raise LakeError(f"{name_of(quarantine)} cannot be read: {first_line(e)}") from e
        check_claim()
        line, _ = ancestors(current_of(metadata), snapshots_of(metadata))
        named = _compacted(line, named)
        ids = [each.snapshot for each in line]
        if named is None:
            named = next((each.snapshot for each in line if each.properties.get(COMMIT) == _FIRST), None)
        elif named not in ids and metadata.snapshot_by_id(named) is not None:
            raise LakeError(
                f"{name_of(quarantine)} was rolled back from snapshot {named}, which the last load named; make it the "
                "current one again"
            )
        newer = line[: ids.index(named)] if named in ids else line
        unnamed = [each for each in newer if each.is_ours]
        if not unnamed:
            return
        if named is None or named not in ids or len(unnamed) < len(newer):
            raise LakeError(
                f"{name_of(quarantine)}: snapshot {unnamed[-1].snapshot} has rows of a batch that was not committed, "
                f"and another program has changed the table since; make snapshot {named} the current one again"
            )
        try:
            _roll_back(quarantine, named)
        except Overtaken:
            continue
        return


def _compacted(line: Sequence[Ancestor], named: int | None) -> int | None:
    """The snapshot with the rows of the one that is named: a compaction of it, if there is one."""
    wanted = str(named)
    return next((each.snapshot for each in line if each.properties.get(COMPACTION) == wanted), named)


def snapshot_of(quarantine: Table, named: int) -> int | None:
    """The snapshot with the rows of the one that is named; None: both have expired."""
    line, _ = ancestors(current_of(quarantine.metadata), snapshots_of(quarantine.metadata))
    found = _compacted(line, named)
    return None if found is None or quarantine.snapshot_by_id(found) is None else found


def has_only_named(quarantine: Table, named: int) -> bool:
    """Whether all its rows count: then it can be compacted."""
    return snapshot_of(quarantine, named) == current_of(quarantine.metadata)


def _roll_back(quarantine: Table, target: int) -> None:
    from pyiceberg.exceptions import CommitFailedException

    try:
        quarantine.manage_snapshots().rollback_to_snapshot(target).commit()
    except CommitFailedException as e:
        raise Overtaken(str(e)) from e
    except Exception as e:  # Each catalog and store has its own.
        raise LakeError(f"{name_of(quarantine)} cannot be rolled back: {first_line(e)}") from e


def add(quarantine: Table, writer: str, files: Sequence[DataFile]) -> int:
    """
    Add rows, which do not count yet.

    :returns: the snapshot, to be named by the table's commit.
    :raise Overtaken: another program has changed it since it was loaded.
    """
    return make_snapshot(quarantine, {WRITER: writer}, files)


def begin(quarantine: Table, writer: str) -> None:
    """Make the first snapshot, without rows, so that there is one to roll back to."""
    if quarantine.metadata.current_snapshot() is None:
        make_snapshot(quarantine, {WRITER: writer, COMMIT: _FIRST})


def properties_for(table: Table) -> Mapping[str, str]:
    """The properties of a new quarantine."""
    return {OF: str(table.metadata.table_uuid)}
