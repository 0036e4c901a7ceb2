"""Tests how processes are held at points, and the plan of kills."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from tests.pipeline.kills.hold_points import VARIABLE, Orders, at
from tests.pipeline.kills.rounds import plan

_PASSES = "from tests.pipeline.kills.hold_points import at; at('other'); at('here'); print('passed')"


class PointTests(SynchronousTestCase):
    """Orders that processes find in a directory."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.orders = Orders(self.directory)
        named = mock.patch.dict("os.environ", {VARIABLE: directory.name})
        named.start()
        self.addCleanup(named.stop)

    def test_no_orders(self) -> None:
        """Without orders a point is only counted."""
        for point in ("here", "there", "here"):
            at(point)
        self.assertEqual((self.orders.count("here"), self.orders.count("there"), self.orders.count("else")), (2, 1, 0))
        self.assertEqual(self.orders.last, "here")
        self.assertIsNone(self.orders.held())
        at("there")
        self.assertEqual(self.orders.last, "there")

    def test_held_process(self) -> None:
        """A process is held at its point until the order is withdrawn; the next one passes."""
        self.orders.hold("here")
        process = subprocess.Popen([sys.executable, "-c", _PASSES], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        while self.orders.held() is None and process.poll() is None:
            pass
        self.assertEqual(self.orders.held(), process.pid)
        self.assertEqual(self.orders.last, "here")
        at("here")
        self.assertIsNone(process.poll())
        self.orders.release()
        self.assertEqual(process.communicate(timeout=60)[0], "passed\n")

    def test_controller_is_gone(self) -> None:
        """Without a controller processes continue."""
        with mock.patch.dict("os.environ", {VARIABLE: str(self.directory / "gone")}):
            at("here")


class PlanTests(SynchronousTestCase):
    @given(st.integers(0, 40), st.integers())
    def test_all_in_turn(self, rounds: int, seed: int) -> None:
        """Each is killed as often as another, and at each of its points as often as at another."""
        tasks, drivers = ("a", "b", None), ("c", "d")
        points = {"worker": tasks, "driver": drivers, "all": drivers}
        kills = plan(rounds, Random(seed), ("worker", "driver", "all"), points)
        self.assertEqual(len(kills), rounds)
        for wanted, found in (
            (points, [kill.who for kill in kills]),
            (tasks, [kill.point for kill in kills if kill.who == "worker"]),
            (drivers, [kill.point for kill in kills if kill.who != "worker"]),
        ):
            counts = [found.count(each) for each in wanted]
            self.assertEqual(sum(counts), len(found))
            self.assertLessEqual(max(counts) - min(counts), 1, kills)
        self.assertEqual(kills, sorted(kills, key=lambda each: ("worker", "driver", "all").index(each.who)))
