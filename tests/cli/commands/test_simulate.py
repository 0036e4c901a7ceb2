"""Tests of ``logbus simulate``."""

from __future__ import annotations

import json
from contextlib import redirect_stderr
from io import StringIO
from unittest.mock import patch

from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.app import run_app
from logbus.cli.commands.simulate import simulate
from logbus.storage import log_flusher
from tests.cli.command_line import run

SMALL = ("simulate", "--brokers", "1", "--seconds", "20", "--seeds", "1")


class SimulateTests(SynchronousTestCase):
    """As subprocesses, except for tests that plant a defect, and for usage that is refused before anything runs."""

    def test_successful_run(self) -> None:
        """It prints what happened, for people and for scripts."""
        result = run(*SMALL)
        self.assertEqual(result.status, 0, result.err)
        self.assertIn("nothing was broken", result.out)
        sums = json.loads(run(*SMALL, "--json").out)
        self.assertEqual((sums["runs"], sums["violations"]), (1, []))
        self.assertGreater(sums["batches_acknowledged"], 0)
        self.assertGreater(sums["transactions_committed"], 0)

    def test_a_workload(self) -> None:
        """Clients do one thing only, if that is wanted; faults of the other are unknown then."""
        for workload, absent in (("records", "transactions_begun"), ("transactions", "batches_sent")):
            self.assertEqual(json.loads(run(*SMALL, "--workload", workload, "--json").out)[absent], 0)
        result = run(*SMALL, "--workload", "records", "--faults", "kill-client")
        self.assertIn("there is no fault kill-client", result.err)

    def test_a_broken_promise(self) -> None:
        """The status says so, the schedule is cut down to what it takes, and the command runs it again."""
        faults = [
            [3, "clock-jump", {"broker": 1, "by": 5}],
            [15, "power-cut", {"broker": 1, "down": 2, "mode": "lose"}],
            [18, "reset", {"broker": 1}],
        ]
        with patch.object(log_flusher, "sync_all", lambda *_: None):  # Nothing is synced, whatever is said.
            result = CliRunner().invoke(simulate, [*SMALL[1:], "--schedule", json.dumps(faults), "--json"])
            shown = CliRunner().invoke(simulate, [*SMALL[1:], "--schedule", json.dumps(faults[1:2])])
        self.assertEqual(result.exit_code, 1, result.output)
        (violation,) = json.loads(result.stdout)["violations"]
        self.assertEqual([fault[1] for fault in violation["schedule"]], ["power-cut"])
        self.assertIn("lost-write", {each["kind"] for each in violation["anomalies"]})
        self.assertIn("--seed 1", violation["command"])
        self.assertIn("FAILED", shown.output)

    def test_run_too_short(self) -> None:
        """A run that is too short to show anything fails."""
        result = run(*SMALL, "--faults", "none", "--expect-faults", "1")
        self.assertEqual(result.status, 1)
        self.assertIn("only 0 faults", result.err)

    def test_wrong_usage(self) -> None:
        """Each mistake is named."""
        for arguments, words in (
            (("--faults", "fire"), "there is no fault fire; there are: bit-flip, blackout,"),
            (("--replication-factor", "3"), "3 replicas need as many brokers"),
            (("--min-insync", "2"), "of 1 replicas 2 cannot be in sync"),
            (("--schedule", "[1]"), "1 is not a fault"),
            (("--schedule", "{}"), "not a list"),
            (("--schedule", "nosuch"), "neither JSON nor @ and the name of a file"),
            (("--schedule", "@/nowhere"), "/nowhere"),
            (("--schedule", '[[1, "kill", {"broker": 2, "down": 1}]]'), "numbered from 1 to 1"),
            (("--schedule", '[[1, "kill", {"broker": 1}]]'), "kill takes broker, down"),
            (("--seeds", "0"), "--seeds"),
        ):
            with redirect_stderr(StringIO()) as shown:
                status = run_app([*SMALL, *arguments])
            self.assertEqual(status, 2, shown.getvalue())
            self.assertIn(words, shown.getvalue())

    def test_an_application(self) -> None:
        """Runs instead of the simulation's own clients; what is no application gets one line."""
        name = ("--application", "tests.simulation.applications:with_generators")
        result = run(*SMALL, *name, "--json")
        self.assertEqual(result.status, 0, result.err)
        sums = json.loads(result.out)
        self.assertEqual((sums["runs"], sums["violations"]), (1, []))
        self.assertNotIn("batches_sent", sums)
        result = run(*SMALL, "--application", "tests.simulation.applications:no_such")
        self.assertEqual((result.status, result.err.count("\n")), (1, 1))
        self.assertIn("has no 'no_such'; it has at_least_once", result.err)
        result = run(*SMALL, *name, "--workload", "records")
        self.assertEqual(result.status, 2)
        self.assertIn("--workload is about the simulation's own clients", result.err)
