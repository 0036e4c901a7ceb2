"""Tests what is checked of a table of Iceberg before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyiceberg")

from logbus.pipeline.errors import OptionError
from logbus.pipeline.lake.formats import check_format
from tests.pipeline.lake.iceberg.fixtures import NAME, catalog_in


def test_refusals(tmp_path: Path) -> None:
    """The option is named, and what would be right."""
    with catalog_in(tmp_path) as catalog:
        check_format(NAME, "iceberg", {}, catalog)
        check_format(NAME, "", {}, catalog)
        with pytest.raises(OptionError, match=r"table is '/lake/views'; a table of Iceberg is NAMESPACE\.TABLE"):
            check_format("/lake/views", "iceberg", {}, catalog)
        with pytest.raises(OptionError, match=r"there is no catalog 'other'; .* has .*test"):
            check_format(NAME, "iceberg", {}, "other")
        with pytest.raises(OptionError, match=f"catalog is '{catalog}', and the format delta: catalogs are for"):
            check_format(NAME, "delta", {}, catalog)
        with pytest.raises(OptionError, match="has the store that its catalog says, and no store options"):
            check_format(NAME, "iceberg", {"AWS_REGION": "eu"}, catalog)
