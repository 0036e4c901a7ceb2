"""Kills loads: each record is in the table once in the end, and never twice before."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
from tests.pipeline.kills import load_rounds
from tests.pipeline.standalone import Standalone


@pytest.mark.long
@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_kills(standalone: Standalone, table_format: str) -> None:
    """One of each kind is killed; ``python -m tests.pipeline.kills --load`` kills as many as one likes."""
    said: list[str] = []
    report = load_rounds.run(4, 3, said.append, standalone, commits=1, table_format=table_format)
    assert report.is_right, (report, said)
    assert report.records > 500
    assert report.observations > 3
    assert len(report.kills) == 4, said
