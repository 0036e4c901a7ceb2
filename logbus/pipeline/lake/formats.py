"""Opens the table at a URL, whatever its format; the format of a table that exists is recognized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from logbus.extras import install_hint
from logbus.pipeline.errors import LakeError, OptionError
from logbus.pipeline.lake.file_system import file_system_at
from logbus.pipeline.lake.object_store import AZURE_SCHEMES, GCS_SCHEMES, S3_SCHEMES, ArrowStore, split_scheme

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from logbus.pipeline.lake.target import LoadTarget

PARQUET, DELTA = "parquet", "delta"
FORMATS = (PARQUET, DELTA)

_PACKAGES = {DELTA: "deltalake"}
"""That an extra of the format's name installs."""

_SIGNS = {"_delta_log": DELTA}
"""Names in the directory of a table that tell its format."""

_OBJECT_STORES = (*S3_SCHEMES, *GCS_SCHEMES, *AZURE_SCHEMES)


def check_format(url: str, wanted: str, options: Mapping[str, str]) -> None:
    """
    Check what can be checked without looking at the table.

    :param wanted: "": as the table has it.
    :raise OptionError: there is no such format, its package is not installed, or an option is none of the store's.
    :raise LakeError: the format cannot be on such a store.
    """
    if wanted not in ("", *FORMATS):
        raise OptionError(f"format is {wanted!r}; it takes {', '.join(FORMATS)}")
    is_object_store = split_scheme(url)[0] in _OBJECT_STORES
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
    return "tables of the format " + " or ".join(each for each in FORMATS if each != PARQUET)


def _check_package(name: str, package: str) -> None:
    try:
        import_module(package)
    except ImportError as e:
        raise OptionError(f"tables of the format {name} need the package {package}: {install_hint(name)}") from e


def table_at(spark: SparkSession, url: str, wanted: str = "", options: Mapping[str, str] | None = None) -> LoadTarget:
    """
    The table at a URL or a path; a directory that does not exist is an empty table.

    :param wanted: its format; "": as the table has it, and ``parquet`` for a new one.
    :param options: of the store (:mod:`.object_store`).
    :raise OptionError: there is no such format, or an option is none of the store's.
    :raise LakeError: it has another format, is a directory of other files, is damaged, cannot be reached, or its name
        cannot be a table's.
    """
    given = options or {}
    check_format(url, wanted, given)
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


def existing_table(spark: SparkSession, url: str, options: Mapping[str, str] | None = None) -> LoadTarget:
    """
    The table at a URL or a path, which must exist.

    :raise LakeError: there is none, or it is damaged.
    """
    table = table_at(spark, url, "", options)
    if not table.number:
        raise LakeError(f"there is no table at {table.url}")
    return table


def format_of(names: Sequence[str]) -> str:
    """
    The format of the table in a directory.

    :param names: in the directory.
    :returns: "" if there is none yet.
    """
    return next((_SIGNS[name] for name in names if name in _SIGNS), PARQUET if "_logbus" in names else "")


def _names(spark: SparkSession, url: str, options: Mapping[str, str]) -> list[str]:
    if split_scheme(url)[0] in _OBJECT_STORES:
        from pyarrow import fs

        store = ArrowStore(url, options)
        selector = fs.FileSelector(store.root(), allow_not_found=True)
        try:
            return sorted(each.base_name for each in store.file_system().get_file_info(selector))
        except OSError as e:
            raise LakeError(f"{url} cannot be listed: {e}") from e
    return file_system_at(spark, url).names("")
