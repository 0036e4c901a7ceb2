"""
Checks that the modules that docstrings refer to exist.

A name with a dot in front is that of a module or package beside the one that refers to it; in a test, also of one
beside the module it tests.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
_REFERENCE = re.compile(r":mod:`~?(\.\w+|(?:logbus|tests|benchmarks)(?:\.\w+)*)`")


def is_module(path: Path) -> bool:
    """Whether there is a module or a package, ``path`` being without its ending."""
    return path.is_dir() or any(path.with_suffix(ending).exists() for ending in (".py", ".pyx"))


def found(source: Path, reference: str) -> bool:
    """Whether what a file refers to exists."""
    if not reference.startswith("."):
        return is_module(ROOT.joinpath(*reference.split(".")))
    here = source.parent
    beside = [here]
    if here.is_relative_to(ROOT / "tests"):
        beside.append(ROOT / "logbus" / here.relative_to(ROOT / "tests"))
    return any(is_module(each / reference[1:]) for each in beside)


@pytest.mark.parametrize("tree", ["logbus", "tests", "benchmarks"])
def test_modules_exist(tree: str) -> None:
    """A reader can go from a docstring to each module it names."""
    missing = [
        f"{source.relative_to(ROOT)}: {reference}"
        for source in sorted((ROOT / tree).rglob("*.py"))
        for reference in _REFERENCE.findall(source.read_text())
        if not found(source, reference)
    ]
    assert not missing
