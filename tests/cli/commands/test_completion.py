"""Tests what shells complete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from unittest import TestCase, skipUnless

COMMAND = [sys.executable, "-c", "from logbus.cli import main; main()"]


def run(*arguments: str, **environment: str) -> str:
    """What the command prints."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        timeout=120,
        check=True,
        text=True,
    )
    return done.stdout


class CompletionTests(TestCase):
    """A shell asks the command for what may come next."""

    def completed(self, *words: str) -> list[str]:
        """What may be the last word."""
        said = run(_LOGBUS_COMPLETE="bash_complete", COMP_WORDS=" ".join(words), COMP_CWORD=str(len(words) - 1))
        return sorted(line.partition(",")[2] for line in said.split())

    def test_words(self) -> None:
        """Commands, commands of a group, options and their values."""
        self.assertEqual(self.completed("logbus", "con"), ["configs", "consume"])
        self.assertEqual(self.completed("logbus", "topics", "de"), ["delete", "describe"])
        self.assertEqual(self.completed("logbus", "produce", "--key"), ["--key-schema", "--key-separator"])
        self.assertEqual(self.completed("logbus", "produce", "--codec", "l"), ["lz4"])
        self.assertEqual(self.completed("logbus", "zz"), [])

    def test_scripts(self) -> None:
        """There is a script for each shell, which asks by the right variable."""
        for shell in ("bash", "zsh", "fish"):
            self.assertIn(f"_LOGBUS_COMPLETE={shell}_complete", run("completion", shell))

    @skipUnless(shutil.which("bash"), "there is no bash")
    def test_bash(self) -> None:
        """bash takes the script."""
        script = run("completion", "bash") + "\ncomplete -p logbus\n"
        done = subprocess.run(["bash", "--norc"], input=script, capture_output=True, text=True, timeout=120, check=True)
        self.assertIn("_logbus_completion", done.stdout)
