"""Runs mypy beside the tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping


def strict_mypy(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """
    What mypy says of programs in strict mode.

    In a process of its own: it changes how its interpreter works, and tests that came later took ten times as long.
    """
    command = [sys.executable, "-m", "mypy", "--strict", *arguments]
    return subprocess.run(command, env=env, check=False, capture_output=True, text=True)
