"""Kills loads into a table of Iceberg: each record is there once in the end, and never twice before."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyiceberg")
from tests.pipeline.kills import iceberg_rounds
from tests.pipeline.standalone import Standalone


@pytest.mark.long
def test_kills(standalone: Standalone) -> None:
    """One of each kind is killed; ``python -m tests.pipeline.kills --load --format iceberg`` kills more."""
    said: list[str] = []
    report = iceberg_rounds.run(4, 3, said.append, standalone, commits=1)
    assert report.is_right, (report, said)
    assert report.records > 500
    assert report.observations > 3
    assert len(report.kills) == 4, said
