"""
Finds tables by PyIceberg's configuration: the catalogs of ``~/.pyiceberg.yaml`` and of variables such as
``PYICEBERG_CATALOG__LAKE__URI``.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from logbus.extras import install_hint
from logbus.pipeline import Missing
from logbus.pipeline.errors import LakeError, OptionError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def check_iceberg() -> None:
    """
    See whether the extra ``iceberg`` is installed.

    :raise Missing: it is not.
    """
    for name in ("pyiceberg", "pyarrow"):
        if find_spec(name) is None:
            raise Missing(f"tables of Iceberg need {name}, which is not installed: {install_hint('iceberg')}")


def check_identifier(name: str) -> tuple[str, ...]:
    """
    A table's name, with its namespaces.

    :raise OptionError: there is no namespace, or a part is empty.
    """
    parts = tuple(name.split("."))
    if len(parts) < 2 or not all(parts):
        raise OptionError(f"table is {name!r}; a table of Iceberg is NAMESPACE.TABLE in a catalog, such as lake.views")
    return parts


def check_catalog(name: str = "") -> str:
    """
    A catalog's name.

    :param name: "": the default one.
    :raise Missing: PyIceberg is not installed.
    :raise OptionError: the configuration has none of that name.
    """
    check_iceberg()
    from pyiceberg.catalog import list_catalogs
    from pyiceberg.utils.config import Config

    known, wanted = list_catalogs(), name or Config().get_default_catalog_name()
    if wanted not in known:
        raise OptionError(
            f"there is no catalog {wanted!r}; PyIceberg's configuration (~/.pyiceberg.yaml, "
            f"PYICEBERG_CATALOG__{wanted.upper()}__URI) has {', '.join(sorted(known)) or 'none'}"
        )
    return wanted


def catalog(name: str = "") -> Catalog:
    """
    A catalog of the configuration.

    :param name: "": the default one.
    :raise OptionError: there is none of that name.
    :raise LakeError: it cannot be reached.
    """
    name = check_catalog(name)

    from logbus.pipeline.lake.iceberg import file_io, s3_retries
    from logbus.pipeline.lake.iceberg.snapshots import first_line

    try:
        found = _opened(name)
    except Exception as e:  # Each kind of catalog has its own.
        raise LakeError(f"catalog {name!r} cannot be opened: {first_line(e)}") from e
    found.properties.setdefault("py-io-impl", f"{file_io.__name__}.{file_io.LakeFileIO.__name__}")
    found.properties.setdefault("s3.retry-strategy-impl", f"{s3_retries.__name__}.{s3_retries.RetryStrategy.__name__}")
    return found


def _opened(name: str) -> Catalog:
    from pyiceberg.catalog import PY_CATALOG_IMPL, TYPE, URI, CatalogType, infer_catalog_type, load_catalog
    from pyiceberg.utils.config import Config

    given: Any = Config().get_catalog_config(name) or {}
    if PY_CATALOG_IMPL in given or URI not in given:
        return load_catalog(name)
    kind = CatalogType(given[TYPE].lower()) if given.get(TYPE) else infer_catalog_type(name, given)
    if kind is not CatalogType.REST:
        return load_catalog(name)
    from logbus.pipeline.lake.iceberg.rest_catalog import LimitedRestCatalog

    return LimitedRestCatalog(name, **given)
