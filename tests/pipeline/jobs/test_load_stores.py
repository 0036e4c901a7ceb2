"""
Tests loads to emulators of Google's and Azure's stores that are killed on the way, and what Spark reads there by the
tables' own clients and Hadoop's connectors.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("pyspark")
from attrs import frozen

from logbus.pipeline.lake.delta_writes import storage_options
from logbus.pipeline.lake.iceberg.catalogs import catalog
from tests.pipeline.azure_server import ACCOUNT, AzureServer
from tests.pipeline.conftest import CACHE
from tests.pipeline.delta_rows import delta_rows
from tests.pipeline.engine_spark import EngineSpark, azure_settings, gcs_settings, sqlite_settings
from tests.pipeline.gcs_server import GcsServer
from tests.pipeline.kills.load_rounds import is_good, value
from tests.pipeline.kills.workplace import PATIENCE, Driver, Workplace
from tests.pipeline.lake.iceberg.fixtures import NAME, catalog_in
from tests.pipeline.load_fixtures import fill, make
from tests.pipeline.standalone import Standalone

pytestmark = [pytest.mark.long, pytest.mark.spark]
COUNT = 400
GOOD = [number for number in range(COUNT) if is_good(number)]
ODD = [number for number in range(COUNT) if not is_good(number)]
MASTER = "local[2]"
_LOOK = 0.02


@frozen
class Store:
    """
    An emulator, and a Spark that reads from it.

    :ivar base: a URL.
    :ivar directory: of a catalog in SQLite, whose warehouse is in the store.
    """

    server: Any
    base: str
    directory: Path
    reader: EngineSpark


@pytest.fixture(scope="module", params=["gs", "abfs"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One of the two."""
    directory = tmp_path_factory.mktemp("catalog")
    google = request.param == "gs"
    server: Any = GcsServer("lake", CACHE) if google else AzureServer("lake", CACHE)
    base = "gs://lake" if google else f"abfs://lake@{ACCOUNT}.dfs.core.windows.net"
    with ExitStack() as stack:
        try:
            stack.enter_context(server)
            settings = gcs_settings(server.address) if google else azure_settings(server.address)
            settings |= sqlite_settings(directory, f"{base}/warehouse")
            reader = stack.enter_context(EngineSpark(settings, CACHE))
        except RuntimeError as e:
            pytest.skip(f"it cannot be fetched: {e}")
        yield Store(server, base, directory, reader)


def on_this_machine() -> Workplace:
    """A workplace of loaders that have no cluster."""
    spark = Standalone()
    spark.url = MASTER
    return Workplace(spark)


def killed_and_finished(place: Workplace, module: str, point: str, asked: dict[str, str]) -> Iterator[Driver]:
    """A loader that was killed at a point of its second batch; then one that has loaded the rest."""
    topic = make(place.broker)
    fill(place.broker, topic, [value(number) for number in range(COUNT)])
    given = {**asked, "topic": topic, "bootstrap": place.broker.bootstrap}
    given |= {"settings": place.settings, "master": MASTER}  # type: ignore[dict-item]
    driver = Driver.start(module, given)
    try:
        deadline = time.monotonic() + PATIENCE
        while place.orders.held() is None:
            if place.orders.count("load-made"):
                place.orders.hold(point)
            assert not driver.has_ended, driver.last
            assert time.monotonic() < deadline, f"it did not come to {point}"
            time.sleep(_LOOK)
    finally:
        driver.kill()
    place.orders.release()
    yield driver
    driver = Driver.start(module, given)
    assert driver.finish(), driver.last
    yield driver


def test_delta(store: Store) -> None:
    """Each record is there once, as Spark and delta-rs read it, also right after the kill."""
    url, options = f"{store.base}/views", store.server.options
    select = f"SELECT `offset` FROM delta.`{url}`"
    with mock.patch.dict(os.environ, options), on_this_machine() as place:
        asked = {"table": url, "format": "delta"}
        states = killed_and_finished(place, "tests.pipeline.kills.load_driver", "load-written", asked)
        next(states)
        there = store.reader.column(select)
        assert 0 < len(there) < len(GOOD)
        assert there == GOOD[: len(there)]
        assert next(states).last == f"found {len(GOOD)} {len(GOOD)}"
    assert store.reader.column(select) == GOOD
    assert store.reader.column(f"SELECT `offset` FROM delta.`{url}/_quarantine`") == ODD
    rows = delta_rows(url, "offset", options=storage_options(url, options))
    assert sorted(rows["offset"].to_pylist()) == GOOD


def test_iceberg(store: Store) -> None:
    """The same of Iceberg, and PyIceberg."""
    select = "SELECT `offset` FROM test.{}"
    with (
        catalog_in(store.directory, warehouse=f"{store.base}/warehouse", **store.server.properties) as name,
        on_this_machine() as place,
    ):
        asked = {"table": NAME, "catalog": name}
        states = killed_and_finished(place, "tests.pipeline.kills.iceberg_driver", "load-drafted", asked)
        next(states)
        there = store.reader.column(select.format(NAME))
        assert 0 < len(there) < len(GOOD)
        assert there == GOOD[: len(there)]
        assert next(states).last == f"found {len(GOOD)} {len(GOOD)}"
        assert store.reader.column(select.format(NAME)) == GOOD
        assert store.reader.column(select.format(f"{NAME}_quarantine")) == ODD
        assert sorted(catalog(name).load_table(NAME).scan().to_arrow()["offset"].to_pylist()) == GOOD
