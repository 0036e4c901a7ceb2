"""Tests of ``logbus`` where standard output or error was closed before it started: Python has None there."""

from __future__ import annotations

import sys
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.app import run_app


class ClosedOutputTests(SynchronousTestCase):
    def test_standard_output(self) -> None:
        """What would be printed is lost, as it was asked for."""
        with patch.object(sys, "stdout", None):
            self.assertEqual(run_app(["--version"]), 0)

    def test_standard_error(self) -> None:
        """An error is told by the status."""
        with patch.object(sys, "stderr", None), patch.object(sys, "stdout", None):
            self.assertEqual(run_app(["dump-log", "/nowhere"]), 2)
