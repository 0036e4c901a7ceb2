"""Tests of the comparison with recorded ratios: that it runs, and what it says."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
from pathlib import Path
from unittest import skipUnless

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.awake_processors import awake
from benchmarks.compare import native_programs, wire
from benchmarks.compare.cells import Cell
from benchmarks.compare.workloads import prepare
from benchmarks.regression import BULK, LONE, RECORD, Finding, Server, answer_of, echo, lone, python_time, worse
from logbus.testing import Broker
from tests.benchmarks.test_compare import compiled


class WorseTests(SynchronousTestCase):
    """What is reported as worse."""

    def test_worse(self) -> None:
        """What costs more than recorded by more than the share is worse; what is not recorded cannot be."""
        findings = [Finding(name, ratio, "") for name, ratio in (("a", 1.2), ("b", 1.3), ("c", 0.5), ("new", 9.0))]
        self.assertEqual(worse(findings, {"a": 1.0, "b": 1.0, "c": 1.0}, 0.25), ["b"])

    def test_record(self) -> None:
        """Every cell is recorded, and nothing else."""
        recorded = json.loads(RECORD.read_text())
        self.assertEqual(set(recorded["ratios"]), {cell.name for cell in (*LONE, *BULK)})

    def test_piece_of_python(self) -> None:
        """The piece of Python takes some time."""
        self.assertTrue(0 < python_time() < 1e4)


class AwakeTests(SynchronousTestCase):
    """Processes that keep processors awake."""

    def test_as_many_as_processors(self) -> None:
        """One for each, and none afterwards."""
        children = Path(f"/proc/self/task/{threading.get_native_id()}/children")
        before = children.read_text().split()
        with awake():
            self.assertEqual(len(children.read_text().split()) - len(before), len(os.sched_getaffinity(0)))
        self.assertEqual(children.read_text().split(), before)


@skipUnless(shutil.which("cc"), "no C compiler")
class EchoTests(SynchronousTestCase):
    """The echo in C, and a cell against it."""

    def setUp(self) -> None:
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.program = self.directory / "bare-echo"
        native_programs.compile_program("echo.c", self.program)

    def test_answers(self) -> None:
        """Each request is given the whole answer, from memory and from a file."""
        for size in (100, 300_000):
            response = os.urandom(size)
            answer = self.directory / "answer"
            answer.write_bytes(size.to_bytes(4, "big") + response)
            with echo(self.program, 50, answer) as server:
                self.assertEqual(wire.Admin(server.port).replay(bytes(50)), response)

    def test_cell(self) -> None:
        """A small cell runs against broker and echo, with the broker's own responses."""
        programs = compiled()
        broker = self.enterContext(Broker())
        server = Server(int(broker.bootstrap.rpartition(":")[2]), os.getpid())
        admin = wire.Admin(server.port)
        admin.create_topic("t", 1, {})
        load = prepare(Cell("lone produce", "produce", 100), "t", self.directory / "load", programs)
        found = lone(load, admin, server, self.program, 1, 0.05)
        self.assertEqual(found.name, "lone produce")
        self.assertIn("beyond the echo", found.text)
        self.assertGreater(answer_of(load, admin)[0], 100)
