"""
Each bug is planted, and must be found by the simulation or by a named test.
"""

from __future__ import annotations

import gc
import sys
import unittest

import pytest

from logbus.testing.simulation.checks.history import Anomaly
from logbus.testing.simulation.run import Run
from logbus.testing.simulation.settings import Settings
from tests.planted_bugs.replication_bugs import BUGS

STANDSTILL = frozenset(
    {
        "not-back",
        "not-writable",
        "not-readable",
        "not-committable",
        "not-copied",
        "not-stable",
        "gave-up",
        "error-logged",
        "client",
    }
)
"""Kinds of anomalies that break no promise about records: a bug is not found by these alone."""


FOUND_BY_RUNS = {name: bug for name, bug in BUGS.items() if bug.seeds}
FOUND_BY_TESTS = {name: bug for name, bug in BUGS.items() if bug.test}


@pytest.mark.parametrize("name", FOUND_BY_RUNS)
def test_the_simulation_finds(name: str) -> None:
    """A seed within those stated breaks a promise, and does not without the bug."""
    bug = FOUND_BY_RUNS[name]
    assert bug.settings is not None
    for seed in sorted(range(1, bug.seeds + 1), key=lambda each: each != bug.first):
        with bug.planted():
            broken = broken_promises(bug.settings, seed)
        if any(each.kind not in STANDSTILL for each in broken):
            healthy = broken_promises(bug.settings, seed)
            assert [str(each) for each in healthy] == [], f"seed {seed} fails without the bug, too"
            return
    pytest.fail(f"{bug.seeds} seeds do not find that {name}")


@pytest.mark.parametrize("name", FOUND_BY_TESTS)
def test_a_test_finds(name: str) -> None:
    """The test that is named fails, and does not without the bug."""
    bug = FOUND_BY_TESTS[name]
    assert passes(bug.test), f"{bug.test} fails without the bug, too"
    with bug.planted():
        assert not passes(bug.test), f"{bug.test} does not find that {name}"


def test_enough_of_them() -> None:
    """The simulation finds two dozen or so, and each is looked for in one way."""
    assert len(FOUND_BY_RUNS) >= 23
    assert len(FOUND_BY_RUNS) + len(FOUND_BY_TESTS) == len(FOUND_BY_RUNS | FOUND_BY_TESTS) == len(BUGS)


def broken_promises(settings: Settings, seed: int) -> list[Anomaly]:
    """What a run finds; what is logged meanwhile is expected."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        found = Run(settings, seed).run().anomalies
        # What brokers had begun when they died ends here, unheard.
        gc.collect()
    finally:
        sys.unraisablehook = before
    return found


def passes(name: str) -> bool:
    """Whether a test does."""
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromName(name).run(result)
    assert result.testsRun, name
    return result.wasSuccessful()
