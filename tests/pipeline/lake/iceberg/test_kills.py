"""Kills loaders at each step of a commit, and two at once: each record is there once."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("pyspark")
from tests.pipeline.lake.iceberg.kills import STEPS, run


def test_each_step(tmp_path: Path) -> None:
    """A loader is killed at each step of its first batch with a quarantine, and the next one goes on."""
    points = [(step, 2 if step.startswith(("commit", "metadata")) else 1) for step in STEPS]
    report = run(tmp_path, points, Random(1))
    assert set(report.kills) == set(STEPS)
    assert report.kills.total() == len(STEPS)


@pytest.mark.long
@pytest.mark.parametrize("at_once", [1, 2])
def test_a_hundred(tmp_path: Path, at_once: int) -> None:
    """At any step of any batch; also where two loaders fence each other."""
    chance = Random(at_once)
    points = [(chance.choice(STEPS), chance.randint(1, 6)) for _ in range(100)]
    report = run(tmp_path, points, chance, at_once)
    assert report.kills.total() > 50
    assert bool(report.lost) == (at_once > 1)
