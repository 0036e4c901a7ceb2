"""
What would be found if it were broken: each bug of the museum is planted, and must be caught.
"""

from __future__ import annotations

import gc
import sys
import unittest

from twisted.trial.unittest import SynchronousTestCase

from logbus.testing.simulation.history import Anomaly
from logbus.testing.simulation.run import Run
from logbus.testing.simulation.settings import Settings
from tests.museum.bug import Bug
from tests.museum.bugs import BUGS

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


class MuseumTests(SynchronousTestCase):
    """Bugs, and who finds them."""

    def finds(self, bug: Bug, name: str) -> None:
        """A seed within those stated breaks a promise, and does not without the bug."""
        assert bug.settings is not None
        for seed in range(1, bug.seeds + 1):
            with bug.planted():
                broken = broken_promises(self, bug.settings, seed)
            if any(each.kind not in STANDSTILL for each in broken):
                healthy = broken_promises(self, bug.settings, seed)
                self.assertEqual([str(each) for each in healthy], [], f"seed {seed} fails without the bug, too")
                return
        self.fail(f"{bug.seeds} seeds do not find that {name}")

    def test_the_simulation_finds(self) -> None:
        """Clusters in which things go wrong break their promises within the stated number of seeds."""
        for name, bug in BUGS.items():
            if bug.seeds:
                with self.subTest(name):
                    self.finds(bug, name)

    def test_a_test_finds(self) -> None:
        """The test that is named fails, and does not without the bug."""
        for name, bug in BUGS.items():
            if bug.test:
                with self.subTest(name):
                    self.assertTrue(passes(bug.test), f"{bug.test} fails without the bug, too")
                    with bug.planted():
                        self.assertFalse(passes(bug.test), f"{bug.test} does not find that {name}")

    def test_enough_of_them(self) -> None:
        """The simulation finds two dozen or so, and each is looked for in one way."""
        self.assertGreaterEqual(sum(bool(bug.seeds) for bug in BUGS.values()), 23)
        self.assertTrue(all(bool(bug.seeds) != bool(bug.test) for bug in BUGS.values()))


def broken_promises(test: SynchronousTestCase, settings: Settings, seed: int) -> list[Anomaly]:
    """What a run finds; what was logged meanwhile is expected."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        found = Run(settings, seed).run().anomalies
        test.flushLoggedErrors()
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
