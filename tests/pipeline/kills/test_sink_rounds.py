"""Kills executors, workers and drivers of an exactly-once copy at random moments."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
from tests.pipeline.kills import sink_rounds
from tests.pipeline.standalone import Standalone


@pytest.mark.long
def test_no_record_is_missing_or_double(standalone: Standalone) -> None:
    """One of each kind is killed; ``python -m tests.pipeline.kills --sink`` kills as many as one likes."""
    said: list[str] = []
    report = sink_rounds.run(4, 1, said.append, standalone, commits=1)
    assert report.is_right, (report, said)
    assert report.records > 500
    assert len(report.kills) == 4, said
