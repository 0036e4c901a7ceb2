"""Unpacks tar archives, whichever Python runs the tests."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: Path, where: Path) -> None:
    """Extract all that is in an archive; nothing outside of the directory, where Python sees to that (3.11.4)."""
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):
            opened.extractall(where, filter="data")
        else:
            opened.extractall(where)
