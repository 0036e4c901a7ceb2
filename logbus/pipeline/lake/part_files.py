"""
A table's data files, as the tasks that wrote them report them: paths, sizes, and statistics from the footers.

:mod:`.part_writer` writes them. A file becomes part of a table by the commit that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.file_system import LocalFileSystem
from logbus.pipeline.lake.object_store import Store


@frozen
class ColumnStatistics:
    """
    Of a column in a file.

    :ivar nulls: how many values are null; None: unknown.
    :ivar minimum: as Arrow reads it, such as a ``datetime``; None: unknown, or there is no value.
    """

    nulls: int | None
    minimum: Any = None
    maximum: Any = None


@frozen
class PartFile:
    """
    A file that a task has written.

    :ivar path: relative to the table, with slashes, as it is on the file system: not encoded as a URL.
    :ivar size: bytes.
    :ivar records: rows.
    :ivar partition: the values of the directories, by column, outermost first.
    :ivar footer: the ``pyarrow.parquet.FileMetaData``.
    """

    path: str
    size: int
    records: int
    partition: Mapping[str, Any]
    footer: Any = field(repr=False, eq=False)

    def statistics(self) -> dict[str, ColumnStatistics]:
        """By column; of a nested one ``column.field``. From the footer: the file is not read."""
        return column_statistics(self.footer)


def check_parts(store: Store, parts: Sequence[PartFile]) -> None:
    """
    Check that local files are here in full, and flush them. A store that is not local has confirmed each.

    :raise LakeError: one is not, as when a worker has disks of its own.
    """
    root = store.local_root()
    if root is None:
        return
    for each in parts:
        path = root / each.path
        size = path.stat().st_size if path.exists() else None
        if size != each.size:
            there = "which is not here" if size is None else f"which has {size} here"
            raise LakeError(
                f"{path}: a worker wrote {each.size} bytes to this file, {there}; nothing was committed. Is {root} a "
                "place that Spark's driver and all of its workers share?"
            )
    LocalFileSystem(root).sync(each.path for each in parts)


def delete_parts(store: Store, parts: Iterable[PartFile]) -> None:
    """Delete files that no commit will name, as far as it works."""
    files = store.file_system()
    for each in parts:
        try:
            files.delete_file(f"{store.root()}/{each.path}")
        except OSError:
            pass


def column_statistics(footer: Any) -> dict[str, ColumnStatistics]:
    """The statistics of a file's columns, from its ``pyarrow.parquet.FileMetaData``."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return {
        footer.schema.column(number).path: _united([group.column(number) for group in groups])
        for number in range(footer.num_columns)
    }


def _united(chunks: Sequence[Any]) -> ColumnStatistics:
    """Of a column's chunks; what is unknown of one of them is unknown of the column."""
    known = [each.statistics for each in chunks]
    if not all(each is not None and each.has_null_count for each in known):
        return ColumnStatistics(None)
    nulls = sum(each.null_count for each in known)
    filled = [each for each, chunk in zip(known, chunks, strict=True) if each.null_count < chunk.num_values]
    if not filled or not all(each.has_min_max for each in filled):
        return ColumnStatistics(nulls)
    try:
        return ColumnStatistics(nulls, min(each.min for each in filled), max(each.max for each in filled))
    except OverflowError:  # Python has no times beyond the year 9999.
        return ColumnStatistics(nulls)
