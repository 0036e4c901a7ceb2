"""Creates tables, and adds columns to them, while other jobs may do the same (SQL: CREATE TABLE, ALTER TABLE)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.iceberg import schemas
from logbus.pipeline.lake.iceberg.snapshots import ATTEMPTS, first_line
from logbus.pipeline.lake.iceberg.store_access import with_advice

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

PROPERTIES: Mapping[str, str] = {
    # Manifests and metadata files would grow in number with every batch.
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "write.parquet.compression-codec": "zstd",
}
"""Of new tables."""

_CREATIONS = 3
"""How often the creation of a table is tried, if another job creates it or its namespace at the same time."""


def create_table(
    catalog: Catalog,
    identifier: str,
    schema: Any,
    directories: Sequence[str],
    properties: Mapping[str, str] | None = None,
) -> None:
    """
    Create a table, unless another job does at the same time.

    :param identifier: ``namespace.table``.
    :param schema: of rows, with the directories, as Spark's JSON.
    :param properties: of the table, beside :data:`PROPERTIES`.
    :raise LakeError: the catalog refuses it, or does not answer.
    """
    time = schemas.hidden(schema, directories)
    columns = schemas.arrow_schema(identifier, schemas.visible(schema, directories))
    problem: Exception | None = None
    for _ in range(_CREATIONS):
        try:
            if catalog.table_exists(identifier):
                return
            catalog.create_namespace_if_not_exists(identifier.rpartition(".")[0])
            with (
                catalog.create_table_transaction(
                    identifier, columns, properties={**PROPERTIES, **(properties or {})}
                ) as change,
                change.update_spec() as spec,
            ):
                for source, transform, name in schemas.partition_fields(directories, time):
                    spec.add_field(source, transform, name)
            return
        except Exception as e:  # Each catalog has its own for what another job has just created.
            problem = e
            if _is_repeated(e):
                break
    said = with_advice(first_line(problem), catalog.properties)
    raise LakeError(f"{identifier} cannot be created: {said}") from problem


def _is_repeated(error: Exception) -> bool:
    """Whether an error comes of a request that was made again and again, or waited for long: S3's, and a catalog's."""
    from requests import RequestException

    return isinstance(error, RequestException) or "AWS Error" in str(error)


def add_columns(table: Table, url: str, schema: Mapping[str, Any]) -> None:
    """
    Add the columns that rows have and the table lacks.

    :param url: the table's, for errors.
    :param schema: of the rows, as Spark's JSON, without hidden directories.
    :raise LakeError: the columns do not fit the table's, or lack one that no row may lack; or the catalog refuses the
        change.
    """
    from pyiceberg.exceptions import CommitFailedException, ValidationError

    columns = schemas.arrow_schema(url, schema)
    for _ in range(ATTEMPTS):
        schemas.check_names(url, table.schema(), columns.names)
        try:
            with table.update_schema() as change:
                change.union_by_name(columns)
            return
        except CommitFailedException:
            table.refresh()
        except (ValueError, TypeError, ValidationError) as e:
            raise LakeError(f"{url}: the rows' columns do not fit the table's: {first_line(e)}") from e
        except Exception as e:
            raise LakeError(f"{url}: its schema cannot be changed: {first_line(e)}") from e
    raise LakeError(f"{url}: its schema changes so often that rows cannot be written; try again")
