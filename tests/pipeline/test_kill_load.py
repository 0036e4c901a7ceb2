"""Loads that are killed: each record is in the table once in the end, and never twice before."""

from __future__ import annotations

from tests.pipeline import kill_load


def test_kills() -> None:
    """An executor, a Python worker, a whole Spark, and a driver in the middle of a commit; twenty by the command."""
    said: list[str] = []
    report = kill_load.run(4, 3, said.append)
    assert report.is_right, (report, said)
    assert report.records > 1000
    assert report.observations > 3
    assert sum(report.kills.values()) == 4, said
