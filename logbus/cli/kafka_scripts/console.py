"""Prints what commands say; on a terminal, control characters in it are escaped."""

from __future__ import annotations

import sys
from typing import TextIO

from logbus.cli.terminal_escapes import escape_controls


def say(text: str = "", end: str = "\n") -> None:
    """Print on standard output."""
    _write(sys.stdout, text + end)


def complain(text: str, end: str = "\n") -> None:
    """Print on standard error."""
    sys.stdout.flush()
    _write(sys.stderr, text + end)


def confirms(question: str) -> bool:
    """Ask on standard output, and read the answer from standard input: whether it begins with y."""
    say(question)
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower().startswith("y")


def _write(file: TextIO, text: str) -> None:
    try:
        file.write(escape_controls(text) if file.isatty() else text)
    except UnicodeEncodeError:
        # Names of a cluster can have characters that the locale has not.
        file.write(text.encode("ascii", "backslashreplace").decode())
    file.flush()
