"""Tests tables on emulators of Google's and Azure's stores, without Spark; the servers are fetched once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("pyspark")

from logbus.pipeline.errors import ClaimLost, LakeError
from logbus.pipeline.lake.delta_actions import Quarantined
from logbus.pipeline.lake.delta_log import DeltaLog
from logbus.pipeline.lake.delta_writes import storage_options
from logbus.pipeline.lake.formats import table_at
from logbus.pipeline.lake.iceberg.table import IcebergTable
from logbus.pipeline.lake.load_state import LoadChange
from logbus.pipeline.lake.object_store import ArrowStore
from logbus.pipeline.lake.offset_set import OffsetSet
from tests.pipeline.azure_server import ACCOUNT, AzureServer
from tests.pipeline.conftest import CACHE
from tests.pipeline.delta_rows import delta_rows
from tests.pipeline.gcs_server import GcsServer
from tests.pipeline.lake.claims import check_claims
from tests.pipeline.lake.iceberg.fixtures import NAME, catalog_in, change, rows
from tests.pipeline.lake.iceberg.fixtures import SCHEMA as ICEBERG_SCHEMA
from tests.pipeline.lake.test_delta_log import SCHEMA, offsets, written_to

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=["gs", "abfss"])
def store(request: pytest.FixtureRequest) -> Iterator[tuple[Any, str]]:
    """A server, and a URL on it."""
    google = request.param == "gs"
    server: Any = GcsServer("lake", CACHE) if google else AzureServer("lake", CACHE)
    try:
        server.__enter__()
    except RuntimeError as e:
        pytest.skip(f"the emulator is not there: {e}")
    try:
        yield server, "gs://lake" if google else f"abfss://lake@{ACCOUNT}.dfs.core.windows.net"
    finally:
        server.__exit__()


def test_delta(store: tuple[Any, str]) -> None:
    """Claims, commits and a quarantine; the job that claims last goes on, and others read each record once."""
    server, base = store
    url = f"{base}/views"
    quarantine = ArrowStore(f"{url}/_quarantine", server.options)
    log, late = DeltaLog(url, server.options), DeltaLog(url, server.options)
    log.claim(SCHEMA, ["page"])
    for each in range(2):
        odd = Quarantined(schema=SCHEMA, directories=["page"], files=written_to(quarantine, [each + 100]))
        log.commit(LoadChange(offsets=offsets(each, each + 1), schema=SCHEMA), written_to(log.store, [each]), odd)
    late.claim()
    with pytest.raises(ClaimLost, match="claim 2 was made after claim 1"):
        log.commit(LoadChange(offsets=offsets(9, 10)), written_to(log.store, [9]))
    assert late.load_state().held("t", 0) == OffsetSet.of((0, 2))
    for place, expected in ((url, [0, 1]), (f"{url}/_quarantine", [100, 101])):
        rows = delta_rows(place, "offset", options=storage_options(place, server.options))
        assert sorted(rows["offset"].to_pylist()) == expected
    assert table_at(None, url, "", server.options).state.held("t", 0), "its format is recognized"
    with pytest.raises(LakeError, match="nowhere: tables of the format parquet can be in a local directory"):
        table_at(None, f"{base}/nowhere", "", server.options)


def test_one_commit_of_a_number(store: tuple[Any, str]) -> None:
    """Jobs that claim a table at the same moment each get a number of their own."""
    server, base = store
    check_claims(f"{base}/claims", server.options)


def test_iceberg(store: tuple[Any, str], tmp_path: Path) -> None:
    """Data and metadata are there; the catalog is on a disk."""
    server, base = store
    with catalog_in(tmp_path, warehouse=f"{base}/warehouse", **server.properties):
        table = IcebergTable.at(None, NAME, "test")
        table.claim(ICEBERG_SCHEMA.jsonValue(), [])
        for start in (0, 3):
            table.stage(rows(start, start + 2))  # type: ignore[arg-type]
            table.stage(rows(start + 2, start + 3), quarantine=True)  # type: ignore[arg-type]
            table.commit(change(start, start + 3, quarantined=1))
        # Nothing is old but snapshots: all files that the last ones have are still there.
        assert table.vacuum(before_ms=2**53).snapshots
        for name, expected in ((NAME, [0, 1, 3, 4]), (f"{NAME}_quarantine", [2, 5])):
            found = table.catalog.load_table(name).scan().to_arrow()
            assert sorted(found["offset"].to_pylist()) == expected
