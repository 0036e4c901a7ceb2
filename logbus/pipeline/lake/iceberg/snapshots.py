"""
Makes snapshots of an Iceberg table on one condition: that the table is still at the snapshot that was looked at.

PyIceberg repeats a commit that another one has overtaken, on top of that. A load must not: the other may be a load that
has claimed the table. So each commit here is tried once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.iceberg.commits import Ancestor

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.metadata import TableMetadata

ATTEMPTS = 20
"""How often a commit is tried that other programs' commits have overtaken."""

_ONCE = {"commit.retry.num-retries": "0"}

_INVALID = re.compile(r"\d+ validation errors? for (\w+)\n(.*?) \[type=", re.DOTALL)
"""How pydantic begins to tell that an answer, or a file, is not what PyIceberg wanted: what, and its first mistake."""


class Overtaken(Exception):
    """The table has changed since it was looked at; nothing has happened."""


def first_line(error: BaseException | None) -> str:
    """What an error says, without its details; its kind, if it says nothing."""
    if invalid := _INVALID.match(str(error)):
        return f"what came is no {invalid[1]}: {' '.join(invalid[2].split())}"
    return str(error).partition("\n")[0] or type(error).__name__


def name_of(table: Table) -> str:
    """With its namespace, for people."""
    return ".".join(table.name())


def snapshots_of(metadata: TableMetadata) -> list[Ancestor]:
    """The table's snapshots that have not expired."""
    return [
        Ancestor(
            each.snapshot_id,
            each.parent_snapshot_id,
            each.sequence_number or 0,
            "" if each.summary is None else each.summary.operation.value,
            {} if each.summary is None else each.summary.additional_properties,
        )
        for each in metadata.snapshots
    ]


def current_of(metadata: TableMetadata) -> int | None:
    """The id of the table's snapshot."""
    found = metadata.current_snapshot()
    return None if found is None else found.snapshot_id


def rows_of(metadata: TableMetadata) -> int | None:
    """The number of rows, if the snapshot's summary has it."""
    return _total(metadata, "total-records")


def files_of(metadata: TableMetadata) -> int:
    """The number of data files."""
    return _total(metadata, "total-data-files") or 0


def _total(metadata: TableMetadata, name: str) -> int | None:
    found = metadata.current_snapshot()
    if found is None or found.summary is None:
        return None
    said = found.summary.additional_properties.get(name)
    return None if said is None else int(said)


def once(table: Table) -> Table:
    """The same table, whose commits are tried once, whatever its properties say; these are not changed."""
    from pyiceberg.table import Table

    metadata = table.metadata.model_copy(update={"properties": {**table.metadata.properties, **_ONCE}})
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)


def _transaction(table: Table) -> Transaction:
    """
    A transaction that makes the metadata with its changes once after each change.

    PyIceberg makes them each time that it looks, about twenty times a commit, by copying all snapshots.
    """
    from pyiceberg.table import Transaction

    class Remembering(Transaction):
        _remembered: tuple[Any, Any, TableMetadata] | None = None

        @property
        def table_metadata(self) -> TableMetadata:
            before, updates = self._table.metadata, self._updates
            if self._remembered is None or self._remembered[0] is not before or self._remembered[1] is not updates:
                self._remembered = (before, updates, super().table_metadata)
            return self._remembered[2]

    return Remembering(table)


def make_snapshot(
    table: Table,
    summary: Mapping[str, str],
    added: Sequence[DataFile] = (),
    removed: Iterable[DataFile] = (),
    properties: Any = None,
) -> int:
    """
    Commit a snapshot; the table's metadata are then those with it, and no later one.

    :param properties: a function of the snapshot's id and sequence number: properties of the table that are set with
        it.
    :returns: its id.
    :raise Overtaken: another commit was faster.
    :raise LakeError: it is not known whether it was made, or the catalog refuses it.
    """
    from pyiceberg.exceptions import CommitFailedException, ValidationException

    mine = once(table)
    change = _transaction(mine)
    update = change.update_snapshot(snapshot_properties=dict(summary))
    gone = list(removed)
    producer: Any = update.overwrite() if gone else update.merge_append()
    for each in added:
        producer.append_data_file(each)
    for each in gone:
        producer.delete_data_file(each)
    sequence = change.table_metadata.next_sequence_number()
    delete_manifests = _kept_manifests(producer)
    try:
        producer.commit()
        if properties is not None:
            change.set_properties(properties(producer.snapshot_id, sequence))
        change.commit_transaction()
    except ValidationException as e:
        delete_manifests()
        raise Overtaken(str(e)) from e
    except CommitFailedException as e:
        if not _is_made(table, producer.snapshot_id, e):
            delete_manifests()
            raise Overtaken(str(e)) from e
    except Exception as e:
        if not _is_made(table, producer.snapshot_id, e):
            raise LakeError(f"{name_of(table)}: a commit has failed: {first_line(e)}") from e
    else:
        table.metadata, table.metadata_location = mine.metadata, mine.metadata_location
    return int(producer.snapshot_id)


def _kept_manifests(producer: Any) -> Callable[[], None]:
    """
    Have PyIceberg keep the manifests of a commit that the catalog has refused.

    A request that was sent twice, by a proxy or after an expired login, is refused the second time because of itself:
    then the table has these manifests.

    :returns: deletes them.
    """
    delete: Callable[[], None] = getattr(producer, "_clean_all_uncommitted", lambda: None)
    producer._clean_all_uncommitted = lambda: None
    return delete


def _is_made(table: Table, snapshot: int, error: Exception) -> bool:
    """
    Look whether a commit was made, after an error that does not say so, such as a lost connection.

    :raise LakeError: the catalog does not answer, or another commit has come after it.
    """
    from pyiceberg.exceptions import NoSuchTableError

    said = first_line(error)
    try:
        metadata = table.refresh().metadata
    except NoSuchTableError:
        return False
    except Exception as e:
        raise LakeError(f"{name_of(table)}: a commit has failed, and the catalog does not answer: {said}") from e
    if current_of(metadata) == snapshot:
        return True
    if metadata.snapshot_by_id(snapshot) is not None:
        raise LakeError(f"{name_of(table)}: a commit was made, and another one after it: {said}; run the job again")
    return False
