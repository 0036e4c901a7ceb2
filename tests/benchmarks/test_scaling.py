"""Tests of the measurement of workers: what it pins, and what it compares."""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.compare.cells import FULL, Cell
from benchmarks.compare.rounds import Figures, Round
from benchmarks.scaling import pin, unit_cost, workers_of


class ScalingTests(SynchronousTestCase):
    """:mod:`benchmarks.scaling`."""

    def test_workers_are_pinned(self) -> None:
        """The processes at the end of the tree get a core each, those above keep theirs."""
        inner = "import os, sys; os.write(1, b'.'); sys.stdin.read()"
        outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
        with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.read(1)
            (worker,) = workers_of(process.pid)
            cores = sorted(os.sched_getaffinity(process.pid))
            pin([worker], cores[-1:])
            found = [os.sched_getaffinity(pid) for pid in (process.pid, worker)]
            process.communicate()
        self.assertEqual(found, [set(cores), {cores[-1]}])

    def test_bytes_or_requests(self) -> None:
        """What moves bytes is compared by MB, the rest by request."""
        figures = Figures((Round(1.0, 1000, 4e6, 1, 1, 1, 0.2, 1, 1, 0, 0.0),))
        self.assertAlmostEqual(unit_cost(Cell("c", "produce", 100), figures), 200)
        self.assertAlmostEqual(unit_cost(Cell("c", "produce", 100, FULL), figures), 50_000)
