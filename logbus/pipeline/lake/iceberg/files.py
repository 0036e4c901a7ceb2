"""Data files as Iceberg describes them, and their store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from logbus.pipeline.lake.part_files import PartFile

if TYPE_CHECKING:
    from pyiceberg.io.pyarrow import DataFileStatistics
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata


@frozen
class IcebergStore:
    """
    A directory as PyIceberg reaches it; see :class:`.Store`.

    :ivar url: of the directory.
    :ivar properties: of the table's catalog and of PyIceberg's configuration: endpoints and keys.
    """

    url: str
    properties: Mapping[str, str] = field(repr=False)

    def _parsed(self) -> tuple[str, str, str]:
        from logbus.pipeline.lake.iceberg.file_io import LakeFileIO

        scheme, host, path = LakeFileIO.parse_location(self.url, self.properties)
        return scheme, host, path

    def file_system(self) -> Any:
        """See :class:`.Store`."""
        from logbus.pipeline.lake.iceberg.file_io import LakeFileIO

        scheme, host, _ = self._parsed()
        return LakeFileIO(dict(self.properties)).fs_by_scheme(scheme, host)

    def root(self) -> str:
        """See :class:`.Store`."""
        return self._parsed()[2]

    def local_root(self) -> Path | None:
        """See :class:`.Store`."""
        scheme, _, path = self._parsed()
        return Path(path) if scheme == "file" else None


def io_properties(table: Table) -> dict[str, str]:
    """The properties by which a table's files are reached, for other processes: without the client's login."""
    return {name: value for name, value in table.io.properties.items() if isinstance(value, str)}


def store_of(table: Table) -> IcebergStore:
    """Where a table's data files are."""
    base = table.properties.get("write.data.path") or f"{table.location().rstrip('/')}/data"
    return IcebergStore(base.rstrip("/"), io_properties(table))


def data_file(metadata: TableMetadata, base: str, part: PartFile, partition: Any) -> DataFile:
    """
    A file for a manifest, with its statistics from the footer.

    :param base: the URL that the part's path is relative to.
    :param partition: its ``Record``.
    """
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    try:
        statistics = _statistics(metadata, part, {})
    except (OverflowError, ValueError):  # A bound that Python cannot express, such as a time after the year 9999.
        statistics = _statistics(metadata, part, {"write.metadata.metrics.default": "counts"})
    found = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{base}/{part.path}",
        file_format=FileFormat.PARQUET,
        partition=partition,
        file_size_in_bytes=part.size,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )
    found.spec_id = metadata.default_spec_id
    return found


def _statistics(metadata: TableMetadata, part: PartFile, properties: Mapping[str, str]) -> DataFileStatistics:
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )

    schema = metadata.schema()
    return data_file_statistics_from_parquet_metadata(
        parquet_metadata=part.footer,
        stats_columns=compute_statistics_plan(schema, dict(properties or metadata.properties)),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
