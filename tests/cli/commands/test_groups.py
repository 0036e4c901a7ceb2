"""Tests of ``logbus groups`` as subprocesses, against a real broker."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.app import run_app
from logbus.testing import Broker
from tests.cli.command_line import Result, run


class WrongUsageTests(SynchronousTestCase):
    def test_wrong_usage(self) -> None:
        """
        It ends with 2, and says what would be right.
        """
        for part, *arguments in (
            ("--to-earliest", "reset-offsets", "g", "--topic", "t"),
            ("--to-earliest", "reset-offsets", "g", "--topic", "t", "--to-latest", "--to-earliest"),
            ("--all-topics", "reset-offsets", "g", "--to-latest"),
            ("--all-topics", "reset-offsets", "g", "--to-latest", "--topic", "t", "--all-topics"),
            ("2024-05-01T12:00", "reset-offsets", "g", "--topic", "t", "--to-datetime", "soon"),
            ("2024-05-01T12:00", "reset-offsets", "g", "--topic", "t", "--to-datetime", "9" * 20),
            ("2024-05-01T12:00", "reset-offsets", "g", "--topic", "t", "--to-datetime", "9" * 5000),
            ("1h30m", "reset-offsets", "g", "--topic", "t", "--by-duration", "soon"),
            ("write t:0,1,2", "reset-offsets", "g", "--topic", "t:x", "--to-latest"),
            ("0<=x", "reset-offsets", "g", "--topic", "t", "--to-offset", "-1"),
            ("TOPIC:0,1", "delete-offsets", "g"),
            ("stable", "list", "--state", "happy"),
            ("GROUP", "delete"),
            ("it is empty; give GROUP", "delete", "g", ""),
            ("it is empty; give GROUP", "describe", ""),
            ("at most 32767", "reset-offsets", "g" * 32768, "--all-topics", "--to-latest"),
            ("not UTF-8", "delete-offsets", "\udcff", "--topic", "t"),
        ):
            with mock.patch("sys.stdout", io.StringIO()) as out, mock.patch("sys.stderr", io.StringIO()) as err:
                status = run_app(["groups", *arguments])
            self.assertEqual((status, out.getvalue()), (2, ""), arguments)
            self.assertIn(part, err.getvalue(), arguments)


class GroupCommandTests(SynchronousTestCase):
    """The broker has a topic t with two partitions, the first with ten records."""

    broker: ClassVar[Broker]

    @classmethod
    def setUpClass(cls) -> None:
        cls.broker = cls.enterClassContext(Broker())
        environment = cls.environment()
        assert run("topics", "create", "t", "-p", "2", env=environment).status == 0
        assert run("produce", "t", "-p", "0", stdin=b"x\n" * 10, env=environment).status == 0

    @classmethod
    def environment(cls) -> dict[str, str]:
        return {**os.environ, "LOGBUS_BOOTSTRAP": cls.broker.bootstrap}

    def run_groups(self, *arguments: str, stdin: bytes = b"") -> Result:
        return run("groups", *arguments, stdin=stdin, env=self.environment())

    def run_ok(self, *arguments: str, stdin: bytes = b"") -> str:
        done = self.run_groups(*arguments, stdin=stdin)
        self.assertEqual((done.status, done.err), (0, ""))
        return done.out

    def refused(self, *arguments: str, stdin: bytes = b"") -> str:
        done = self.run_groups(*arguments, stdin=stdin)
        self.assertEqual((done.status, done.out, done.err.count("\n")), (1, "", 1), done.err)
        return done.err

    def offsets(self, group: str) -> dict[int, int]:
        (told,) = json.loads(self.run_ok("describe", group, "--json"))
        return {each["partition"]: each["offset"] for each in told["offsets"]}

    def test_group_lifecycle(self) -> None:
        """A group is created at given offsets, reset, loses offsets, and is deleted."""
        shown = self.run_ok("reset-offsets", "life", "--topic", "t", "--to-offset", "4")
        self.assertIn("--execute", shown)
        self.assertIn("no group 'life'", self.refused("describe", "life"))
        self.run_ok("reset-offsets", "life", "--topic", "t", "--to-offset", "4", "--execute")
        self.assertEqual(self.offsets("life"), {0: 4, 1: 0})
        for target, expected in (
            (("--shift-by", "-1"), 3),
            (("--to-latest",), 10),
            (("--to-earliest",), 0),
            (("--to-datetime", "2000-01-01T00:00+00:00"), 0),
            (("--to-datetime", "2100-01-01T00:00+00:00"), 10),
            (("--by-duration", "1h"), 0),
            (("--by-duration", "PT0S"), 10),
            (("--to-current",), 10),
        ):
            (told,) = json.loads(self.run_ok("reset-offsets", "life", "--topic", "t:0", *target, "--execute", "--json"))
            self.assertEqual([each["new"] for each in told["offsets"]], [expected], target)
        self.assertEqual(self.offsets("life"), {0: 10, 1: 0})
        self.assertIn("life", self.run_ok("list", "--state", "empty", "--type", "classic"))
        self.assertNotIn("life", self.run_ok("list", "--state", "stable"))
        self.run_ok("delete-offsets", "life", "--topic", "t:1")
        self.assertEqual(self.offsets("life"), {0: 10})
        self.run_ok("delete", "life")
        self.assertIn("no group 'life'", self.refused("delete", "life"))

    def test_lag(self) -> None:
        """
        For people and for scripts.
        """
        self.run_ok("reset-offsets", "lagging", "--topic", "t", "--to-offset", "4", "--execute")
        self.assertRegex(self.run_ok("describe", "lagging"), r"lag 6,(?s:.*)\nt +0 +4 +10 +6 +- +- +-\n")
        self.assertRegex(self.run_ok("describe", "lagging", "--state"), r"lagging +classic +Empty +- +- +0 +6 ")
        self.assertIn("0 members", self.run_ok("describe", "lagging", "--members"))
        (told,) = json.loads(self.run_ok("describe", "lagging", "--json"))
        self.assertEqual((told["lag"], told["state"], told["members"]), (6, "Empty", []))

    def test_export_and_import(self) -> None:
        """
        Exported offsets can be imported: from a file or a pipe, one group or all.
        """
        for group in ("x1", "x2"):
            self.run_ok("reset-offsets", group, "--topic", "t", "--to-offset", "5", "--execute")
        with TemporaryDirectory() as scratch:
            file = str(Path(scratch) / "offsets.json")
            self.assertEqual(self.run_ok("export", file, "x1", "x2"), f"{file}: 4 offsets of 2 groups\n")
            before = Path(file).read_bytes()
            self.assertIn(f"{file} exists already; ", self.refused("export", file))
            self.assertIn("there is no group 'x3'", self.refused("export", file, "x3", "--overwrite"))
            self.assertEqual(Path(file).read_bytes(), before)
            self.run_ok("export", file, "x1", "x2", "--overwrite")
            piped = self.run_ok("export", "-", "x1")
            self.assertEqual(
                json.loads(self.run_ok("export", "/dev/stdout", "x1"))["groups"], json.loads(piped)["groups"]
            )
            self.assertEqual(json.loads(piped)["groups"], json.loads(Path(file).read_text())["groups"][:1])
            self.run_ok("delete", "x1", "x2")
            self.assertIn("--execute", self.run_ok("import", file))
            self.assertIn("no group", self.refused("describe", "x1"))
            (told,) = json.loads(self.run_ok("import", file, "x2", "--execute", "--json"))
            self.assertEqual((told["group"], told["new"], told["executed"]), ("x2", True, True))
            self.assertIn("no group", self.refused("describe", "x1"))
            self.run_ok("import", "-", "--execute", stdin=piped.encode())
            self.assertEqual((self.offsets("x1"), self.offsets("x2")), ({0: 5, 1: 0}, {0: 5, 1: 0}))
            self.assertIn("has no group 'x3'; it has x1, x2", self.refused("import", file, "x3"))

    def test_refusals(self) -> None:
        """Each error is one line that names the group or topic."""
        self.run_ok("reset-offsets", "refused", "--topic", "t:0", "--to-latest", "--execute")
        good: dict[str, Any] = {"format": "logbus-group-offsets", "version": 1}
        wrong = good | {"groups": [{"group": "g", "offsets": [{"topic": "t", "partition": 0, "offset": "x"}]}]}
        gone = good | {"groups": [{"group": "g", "offsets": [{"topic": "gone", "partition": 0, "offset": 1}]}]}
        for part, *arguments in (
            ("there is no topic 'gone'", "reset-offsets", "g", "--topic", "gone", "--to-latest"),
            ("'t' has no partition 7; it has 0 to 1", "reset-offsets", "g", "--topic", "t:7", "--to-latest"),
            ("there is no group 'g'", "reset-offsets", "g", "--all-topics", "--to-latest"),
            ("nothing is committed for t-1", "reset-offsets", "refused", "--topic", "t", "--shift-by", "1"),
            ("there is no group 'g'", "describe", "g"),
            ("there is no group 'g'", "delete-offsets", "g", "--topic", "t"),
            ("has committed nothing for t-1", "delete-offsets", "refused", "--topic", "t:1"),
            ("has committed nothing for topic 'u'", "delete-offsets", "refused", "--topic", "u"),
            ("there is no group 'g'", "export", "-", "g"),
            ("'refused' is a group, and would be the name of a file", "export", "refused"),
            ("/nope/x: there is no directory /nope", "export", "/nope/x"),
        ):
            self.assertIn(part, self.refused(*arguments), arguments)
        for part, value in (
            ("line 1", b"{"),
            ("$.groups[0].offsets[0].offset is string, not integer", json.dumps(wrong).encode()),
            ("there is no topic 'gone'", json.dumps(gone).encode()),
        ):
            self.assertIn(part, self.refused("import", "-", stdin=value))

    def test_strange_names(self) -> None:
        """
        A group's name may be any text, and does not steer the terminal.
        """
        name = "a/b \x1b[2J\n%ü"
        self.run_ok("reset-offsets", name, "--topic", "t:0", "--to-offset", "1", "--execute")
        self.assertEqual(self.offsets(name), {0: 1})
        for shown in (self.run_ok("list"), self.run_ok("describe", name), self.run_ok("describe", name, "--state")):
            self.assertNotIn("\x1b", shown)
            self.assertIn('"a/b \\u001b[2J\\n%\\u00fc"', shown)
        self.run_ok("delete", name)
