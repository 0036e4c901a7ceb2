"""A stage copies a topic exactly once while brokers and the stage itself are killed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.exactly_once import pipeline

ROUNDS = 6


@pytest.mark.parametrize("brokers", [1, 3])
def test_exactly_once(brokers: int, tmp_path: Path) -> None:
    """
    What is read of the copy at read_committed is what was written, once each and in order.
    """
    with pipeline(brokers, random.Random(brokers), tmp_path) as running:
        for number in range(ROUNDS):
            assert running.round(number) == ""
        assert running.killed.total() >= ROUNDS
