"""A stream that copies a topic exactly once, while executors, workers and drivers are killed at random moments."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
from tests.pipeline import kill_sink


@pytest.mark.slow
def test_no_record_is_missing_or_double() -> None:
    """One of each kind is killed; ``python -m tests.pipeline.kills --sink`` kills as many as one likes."""
    said: list[str] = []
    report = kill_sink.run(4, seed=1, say=said.append)
    assert report.is_right, (report, said)
    assert report.records == 4 * kill_sink.PER_ROUND
    assert sum(report.kills.values()) >= 3, said
