"""Tests of the commands that changes show."""

from __future__ import annotations

import subprocess

import pytest

from logbus.console.change import shell_line

WORDS = ["plain", "two words", "it's", "a\x07b'\\c", "\x1b[31mred", "\u202eabc", "two\nlines", "\U0001f600", ""]


@pytest.mark.parametrize("word", WORDS)
def test_words_come_back(word: str) -> None:
    """Bash reads each word as it was, and everything in the line is seen."""
    line = shell_line(["printf", "%s", word])
    assert line.isprintable()
    told = subprocess.run(["bash", "-c", line], capture_output=True, env={"LC_ALL": "C.UTF-8"}, check=True)
    assert told.stdout.decode() == word
