"""The output of commands on terminals, and elsewhere."""

from __future__ import annotations

import io
import sys
import time
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from logbus.cli import output
from logbus.cli.colours import styled


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class ColoursTests(SynchronousTestCase):
    """Text between escape sequences, on terminals that show them."""

    def _styled(self, stream: io.StringIO, **environment: str) -> str:
        with patch.dict("os.environ", environment, clear=True):
            return styled("it", "bold", stream)

    def test_where(self) -> None:
        self.assertEqual(self._styled(_Terminal()), "\x1b[1mit\x1b[0m")
        self.assertEqual(self._styled(_Terminal(), NO_COLOR=""), "\x1b[1mit\x1b[0m")  # empty is as if it was not set
        self.assertEqual(self._styled(io.StringIO()), "it")
        self.assertEqual(self._styled(_Terminal(), NO_COLOR="1"), "it")
        self.assertEqual(self._styled(_Terminal(), TERM="dumb"), "it")

    def test_tables(self) -> None:
        terminal = _Terminal()
        with patch("sys.stdout", terminal), patch.dict("os.environ", clear=True):
            output.print_table(["topic", "size"], [["a", 10]])
        self.assertEqual(terminal.getvalue(), "\x1b[1mtopic  size\x1b[0m\na        10\n")


class ProgressTests(SynchronousTestCase):
    """A line that changes, but not so often that nobody reads it."""

    def setUp(self) -> None:
        self.now = 100.0
        self.terminal = _Terminal()
        self.patch(sys, "stderr", self.terminal)
        self.patch(time, "monotonic", lambda: self.now)

    def test_interval(self) -> None:
        progress = output.Progress(0.5)
        for step in range(8):
            progress.show(f"{step}")
            self.now += 0.125
        progress.clear()
        progress.show("the next")
        drawn = self.terminal.getvalue().split("\r\x1b[K")
        self.assertEqual(drawn, ["", "0", "4", "", "the next"])

    def test_no_terminal(self) -> None:
        file = io.StringIO()
        self.patch(sys, "stderr", file)
        progress = output.Progress()
        progress.show("it")
        progress.clear()
        self.assertEqual(file.getvalue(), "")


def test_counted() -> None:
    """One thing is not several."""
    assert [output.counted(number, "record") for number in (0, 1, 2)] == ["0 records", "1 record", "2 records"]
