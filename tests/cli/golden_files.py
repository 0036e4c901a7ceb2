"""
Files with what commands print.

``LOGBUS_REWRITE=1 python -m pytest tests/cli/test_golden_help.py tests/cli/test_golden_tables.py`` writes them anew;
``git diff`` then shows what users will see change.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def compare(name: str, printed: str, *, words_only: bool = False) -> None:
    """
    Compare with a file, or write it.

    :param words_only: blanks and line breaks do not matter.
    """
    file = GOLDEN / name
    if os.environ.get("LOGBUS_REWRITE"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(printed)
        return
    expected = file.read_text() if file.exists() else ""
    if (expected.split() != printed.split()) if words_only else (expected != printed):
        lines = difflib.unified_diff(expected.splitlines(), printed.splitlines(), str(file), "printed", lineterm="")
        pytest.fail("\n".join([*lines, "LOGBUS_REWRITE=1 writes the file anew"]), pytrace=False)
