"""Ctrl-C before a command has imported what it needs."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from logbus.cli import main
sys.argv = ["logbus", "topics", "list"]
main()
"""


@pytest.mark.parametrize("module", ["logbus.cli.app", "logbus.cli.commands.topics"])
def test_interrupted_imports(module: str) -> None:
    """The process ends by the signal, and says nothing; click begins a new line behind the ``^C`` of a terminal."""
    command = [sys.executable, "-c", SCRIPT.format(module=module)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr.strip()) == (-signal.SIGINT, "")
