"""
Expires old snapshots of an Iceberg table, and deletes the files that no snapshot has any more.

Metadata name each snapshot, so they grow with every batch of a load, and a commit takes longer. PyIceberg expires
snapshots and leaves their files. These are deleted here, as are those that killed jobs wrote and did not commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from logbus.pipeline.lake.iceberg.files import store_of
from logbus.pipeline.lake.object_store import AZURE_SCHEMES
from logbus.pipeline.lake.target import VacuumReport

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def vacuum(table: Table, before_ms: int, kept: Collection[int | None]) -> VacuumReport:
    """
    Expire snapshots, and delete files that only they have, or none.

    A process that dies in between leaves files for the next time. Of a table that others change at the same time
    nothing is deleted that they may need: snapshots and files that are newer than the time are left alone.

    :param before_ms: snapshots that are older can go, and files that are; milliseconds since 1970.
    :param kept: ids of snapshots that are not to expire, beside those of branches and tags.
    """
    from pyiceberg.exceptions import CommitFailedException

    gone = old_snapshots(table, before_ms, kept)
    if gone:
        try:
            table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in gone]).commit()
        except CommitFailedException:
            return VacuumReport()  # Another program was faster. The next time.
    rest = list(table.metadata.snapshots)
    metadata, data = _files_of(table, rest)
    old_metadata, old_data = _files_of(table, gone, metadata)
    # Files whose place is not the table's own, such as those that were added to it where they were, are others'.
    own = (f"{table.location().rstrip('/')}/", f"{store_of(table).url}/")
    unneeded = {each for each in (old_metadata | old_data) - metadata - data if each.startswith(own)}
    unneeded |= _left_by_jobs(table, {_path(each) for each in data}, before_ms)
    files = 0
    for each in sorted(unneeded):
        try:
            table.io.delete(each)
            files += 1
        except FileNotFoundError:
            pass  # Another program deletes them, too.
    return VacuumReport(len(gone), files)


def old_snapshots(table: Table, before_ms: int, kept: Collection[int | None]) -> list[Snapshot]:
    """Those that :func:`vacuum` lets expire."""
    heads = {each.snapshot_id for each in table.metadata.refs.values()}
    return [
        each
        for each in table.metadata.snapshots
        if each.timestamp_ms < before_ms and each.snapshot_id not in heads and each.snapshot_id not in kept
    ]


def _files_of(table: Table, snapshots: Iterable[Snapshot], known: Collection[str] = ()) -> tuple[set[str], set[str]]:
    """
    The metadata files and the data files of snapshots.

    :param known: manifests that need not be read.
    """
    metadata, data = set[str](), set[str]()
    for each in snapshots:
        metadata.add(each.manifest_list)
        for manifest in each.manifests(table.io):
            if manifest.manifest_path in metadata or manifest.manifest_path in known:
                continue
            metadata.add(manifest.manifest_path)
            data |= {
                entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            }
    return metadata, data


def _left_by_jobs(table: Table, needed: Collection[str], before_ms: int) -> set[str]:
    """Data files with names that loads give, which no snapshot has."""
    from pyarrow import fs

    store = store_of(table)
    files, root = store.file_system(), store.root()

    def found() -> Iterator[str]:
        for each in files.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=True)):
            is_ours = each.base_name.startswith("part-") and each.extension == "parquet"
            if is_ours and each.mtime is not None and each.mtime.timestamp() * 1000 < before_ms:
                yield str(each.path)

    return {f"{store.url}{path.removeprefix(root)}" for path in found() if path not in needed}


def _path(location: str) -> str:
    """A file's path as file systems of Arrow have it: with the bucket, if it is in one."""
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return location
    host, slash, path = rest.removeprefix("//").partition("/")
    if scheme in ("hdfs", "viewfs"):
        return slash + path
    return (host.partition("@")[0] if scheme in AZURE_SCHEMES else host) + slash + path
