"""Tests of ``logbus`` where standard input, output or error was closed before it started: Python has None there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.app import run_app
from logbus.testing import Broker

SECONDS = 60


class ClosedOutputTests(SynchronousTestCase):
    def test_standard_output(self) -> None:
        """What would be printed is lost, as it was asked for."""
        with patch.object(sys, "stdout", None):
            self.assertEqual(run_app(["--version"]), 0)

    def test_standard_error(self) -> None:
        """An error is told by the status."""
        with patch.object(sys, "stderr", None), patch.object(sys, "stdout", None):
            self.assertEqual(run_app(["dump-log", "/nowhere"]), 2)


def test_nobody_reads_the_help() -> None:
    """The process ends by SIGPIPE, as that of a command does."""
    reading, writing = os.pipe()
    os.close(reading)
    logbus = Path(sys.executable).with_name("logbus")
    for arguments in (["--help"], ["topics", "--help"]):
        done = subprocess.run(
            [logbus, *arguments], stdout=writing, stderr=subprocess.PIPE, check=False, timeout=SECONDS
        )
        assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")
    os.close(writing)


def test_closed_standard_input(broker: Broker) -> None:
    """What is to be read from there cannot be, and that is said; what is closed besides does not matter."""
    logbus = Path(sys.executable).with_name("logbus")
    create = f"{logbus} topics create closed -b {broker.bootstrap} >&- 2>&-"
    subprocess.run(["sh", "-c", create], check=True, timeout=SECONDS)
    produce = f"{logbus} produce closed -b {broker.bootstrap} <&-"
    done = subprocess.run(["sh", "-c", produce], capture_output=True, text=True, check=False, timeout=SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "logbus: standard input: Bad file descriptor\n")
    consume = f"{logbus} consume closed --from-beginning -e -b {broker.bootstrap} >&-"
    done = subprocess.run(["sh", "-c", consume], capture_output=True, text=True, check=False, timeout=SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
