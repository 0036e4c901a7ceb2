"""Opens the table at a URL, whatever its format; the format of a table that exists is recognized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from logbus.extras import install_hint
from logbus.pipeline.blocking.patience import PATIENCE, telling, warn
from logbus.pipeline.errors import LakeError, OptionError
from logbus.pipeline.lake.file_system import file_system_at, local_path
from logbus.pipeline.lake.iceberg.catalogs import check_catalog, check_identifier
from logbus.pipeline.lake.object_store import (
    AZURE_SCHEMES,
    GCS_SCHEMES,
    S3_SCHEMES,
    ArrowStore,
    split_scheme,
    store_options,
)
from logbus.pipeline.lake.reachability import check_endpoint, check_namenode
from logbus.pipeline.lake.store_refusal import store_problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from logbus.pipeline.lake.target import LoadTarget

PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
FORMATS = (PARQUET, DELTA, ICEBERG)

_PACKAGES = {DELTA: "deltalake"}
"""That an extra of the format's name installs."""

_SIGNS = {"_delta_log": DELTA}
"""Names in the directory of a table that tell its format."""

_OBJECT_STORES = (*S3_SCHEMES, *GCS_SCHEMES, *AZURE_SCHEMES)


def is_on_object_store(url: str) -> bool:
    """Whether a table's URL is one of S3, or of Google's or Azure's stores."""
    return split_scheme(url)[0] in _OBJECT_STORES


def check_format(url: str, wanted: str, options: Mapping[str, str], catalog: str = "") -> None:
    """
    Check what can be checked without looking at the table.

    :param wanted: "": as the table has it.
    :param catalog: of a table of Iceberg; "": the default one.
    :raise OptionError: there is no such format, its package is not installed, or an option is none of the store's.
    :raise LakeError: the format cannot be on such a store.
    """
    if wanted not in ("", *FORMATS):
        raise OptionError(f"format is {wanted!r}; it takes {', '.join(FORMATS)}")
    if catalog and wanted not in ("", ICEBERG):
        raise OptionError(f"catalog is {catalog!r}, and the format {wanted}: catalogs are for tables of {ICEBERG}")
    if catalog or wanted == ICEBERG:
        check_identifier(url)
        check_catalog(catalog)
        if options:
            raise OptionError(f"{url}: a table of {ICEBERG} has the store that its catalog says, and no store options")
        return
    is_object_store = is_on_object_store(url)
    if is_object_store and wanted == PARQUET:
        raise LakeError(
            f"{url}: tables of the format {PARQUET} can be in a local directory or on HDFS; {_others()} can be there"
        )
    if options and (wanted == PARQUET or not (wanted or is_object_store)):
        raise OptionError(f"store options are for {_others()}")
    if package := _PACKAGES.get(wanted):
        _check_package(wanted, package)
        ArrowStore(url, options)


def _others() -> str:
    return f"tables of the format {DELTA}"


def _check_package(name: str, package: str) -> None:
    try:
        import_module(package)
    except ImportError as e:
        raise OptionError(f"tables of the format {name} need the package {package}: {install_hint(name)}") from e


def table_before_spark(
    url: str, wanted: str = "", options: Mapping[str, str] | None = None, catalog: str = ""
) -> LoadTarget | None:
    """
    The same as :func:`table_at`, to look at before Spark is started; its rows cannot be read.

    :returns: None: only Spark knows the file system.
    :raise LakeError: its namenode or store cannot be reached.
    """
    is_known = catalog or wanted == ICEBERG or is_on_object_store(url) or local_path(url) is not None
    if is_known:
        return table_at(None, url, wanted, options, catalog)
    check_namenode(url)
    return None


def check_exists(url: str, wanted: str = "", options: Mapping[str, str] | None = None, catalog: str = "") -> None:
    """
    Check before Spark is started that there is a table, if that can be known.

    :raise LakeError: there is none, or it is damaged.
    """
    table = table_before_spark(url, wanted, options, catalog)
    if table is not None:
        _check_number(table)


def _check_number(table: LoadTarget) -> None:
    if not table.number:
        raise LakeError(f"there is no table at {table.url}")


def table_at(
    spark: SparkSession | None, url: str, wanted: str = "", options: Mapping[str, str] | None = None, catalog: str = ""
) -> LoadTarget:
    """
    The table at a URL or a path; a directory that does not exist is an empty table.

    :param spark: None: see :func:`table_before_spark`.
    :param wanted: its format; "": as the table has it, and ``parquet`` for a new one.
    :param options: of the store (:mod:`.object_store`).
    :param catalog: in which a table of Iceberg is, whose name is given instead of a URL; "": the default one.
    :raise OptionError: there is no such format, or an option is none of the store's.
    :raise LakeError: it has another format, is a directory of other files, is damaged, cannot be reached, or its name
        cannot be a table's.
    """
    given = options or {}
    check_format(url, wanted, given, catalog)
    if catalog or wanted == ICEBERG:
        from logbus.pipeline.lake.iceberg.table import IcebergTable

        return IcebergTable.at(spark, url, catalog)
    found = format_of(_names(spark, url, given))
    if wanted and found and found != wanted:
        raise LakeError(
            f"{url} is a table of the format {found}, and not {wanted}; load into a table of its own, or leave out "
            "--format"
        )
    kind = found or wanted or PARQUET
    if kind == DELTA:
        _check_package(kind, _PACKAGES[kind])
        from logbus.pipeline.lake.delta_table import DeltaLakeTable

        return DeltaLakeTable.at(spark, url, given)
    check_format(url, kind, given)
    from logbus.pipeline.lake.parquet_table import ParquetTable

    return ParquetTable.at(spark, url)


def existing_table(
    spark: SparkSession, url: str, options: Mapping[str, str] | None = None, catalog: str = ""
) -> LoadTarget:
    """
    The table at a URL or a path, which must exist.

    :raise LakeError: there is none, or it is damaged.
    """
    table = table_at(spark, url, "", options, catalog)
    _check_number(table)
    return table


def format_of(names: Sequence[str]) -> str:
    """
    The format of the table in a directory.

    :param names: in the directory.
    :returns: "" if there is none yet.
    """
    return next((_SIGNS[name] for name in names if name in _SIGNS), PARQUET if "_logbus" in names else "")


def _names(spark: SparkSession | None, url: str, options: Mapping[str, str]) -> list[str]:
    if is_on_object_store(url):
        import pyarrow as pa
        from pyarrow import fs

        store, given = ArrowStore(url, options), store_options(url, options)
        if spark is None:
            check_endpoint(url, given)
        silent = f"{url}: its store has not answered for {PATIENCE:g} s; still trying; see its address and credentials"
        try:
            with telling(silent, warn, PATIENCE):
                # Not by a list of the directory: on Google's store that lacks directories which nobody has made. On
                # Azure's Hadoop makes some, which are empty files for Arrow.
                signs = store.file_system().get_file_info([f"{store.root()}/{name}" for name in _SIGNS])
                return [each.base_name for each in signs if each.type is not fs.FileType.NotFound]
        except (pa.ArrowException, OSError) as e:
            raise LakeError(store_problem(url, given, str(e))) from e
    return file_system_at(spark, url).names("")
