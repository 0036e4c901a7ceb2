"""Kills drivers of loads at each operation of a commit: each record is in the table once, whoever reads it."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
from tests.pipeline.kills import driver_rounds


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("table_format", ["parquet", "delta", "iceberg"])
def test_a_hundred(table_format: str) -> None:
    """Of each format."""
    said: list[str] = []
    report = driver_rounds.run(100, 1, said.append, table_format)
    assert report.is_right, (report, said)
    assert report.kills.total() == 100
