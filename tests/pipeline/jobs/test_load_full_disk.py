"""Tests loads to a disk that is full, and has room again later: a small file system, which only root can mount."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from logbus.pipeline.error_text import short_message
from logbus.pipeline.lake.formats import table_at
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.testing import Broker
from tests.pipeline.load_fixtures import fill, load, make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long
RECORDS = 2000


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(place)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _fill_up(file: Path) -> None:
    """Leave no room."""
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_full_disk(spark: SparkSession, broker: Broker, tmp_path: Path, small: Path, kind: str) -> None:
    """The load ends with what is wrong, and nothing of the batch is there; the next one goes on."""
    pytest.importorskip({"parquet": "pyarrow", "delta": "deltalake", "iceberg": "pyiceberg"}[kind])
    from tests.pipeline.lake.iceberg.fixtures import NAME, catalog_in

    topic = make(broker)
    fill(broker, topic, [b'{"e": %d}' % each if each % 5 else b"odd" for each in range(RECORDS)])
    with catalog_in(tmp_path, warehouse=f"file://{small}/warehouse") as catalog:
        name = NAME if kind == "iceberg" else str(small / "table")
        where = {"catalog": catalog} if kind == "iceberg" else {}
        into: dict[str, Any] = {"payload": JsonPayload(schema="e INT"), "format": kind, "partition_by": "", **where}

        def offsets() -> list[int]:
            table = table_at(spark, name, kind, catalog=where.get("catalog", ""))
            return sorted(row["offset"] for part in (table.read(), table.read_quarantine()) for row in part.collect())

        first = load(spark, broker, Path(name), topic, batch_offsets=RECORDS // 2, endingOffsets=_upto(topic), **into)
        assert first.offsets == RECORDS // 2
        for filler in ("one", "two"):
            _fill_up(small / filler)
            with pytest.raises(Exception, match=r"No space left|[Ee]rrno 28|failed") as caught:
                load(spark, broker, Path(name), topic, **into)
            assert "\n\tat " not in short_message(str(caught.value))
            (small / filler).unlink()
            if filler == "one":
                assert offsets() == list(range(RECORDS // 2))
        report = load(spark, broker, Path(name), topic, **into)
        assert report.offsets == RECORDS // 2
        assert offsets() == list(range(RECORDS))


def _upto(topic: str) -> str:
    return f'{{"{topic}": {{"0": {RECORDS // 2}}}}}'
