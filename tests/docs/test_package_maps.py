"""
Compares the map in each package's docstring with the package's files.

A line is ``* ``name``: what it is``, or has several names with commas between.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
_ROLE = re.compile(r":mod:`~?(?:[\w.]*\.)?(\w+)`")
_LINE = re.compile(r"^ *\* ((?:``\w+/?``(?:, | and )?)+)(?: \(.*\))?: \S", re.MULTILINE)
_NAME = re.compile(r"\w+")


def packages() -> list[Path]:
    """All packages of the product."""
    return sorted(path.parent for path in (ROOT / "logbus").rglob("__init__.py"))


def name_of(package: Path) -> str:
    return ".".join(package.relative_to(ROOT).parts)


def mapped(package: Path) -> list[str]:
    """The names in a package's map, in its order."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_bytes())) or ""
    lines = _LINE.findall(_ROLE.sub(r"``\1``", docstring))
    return [name for line in lines for name in _NAME.findall(line.replace(" and ", ", "))]


def members(package: Path) -> set[str]:
    """The modules and sub-packages of a package."""
    modules = {path.stem for path in package.glob("*.py")}
    inner = {path.parent.name for path in package.glob("*/__init__.py")}
    return (modules | inner) - {"__init__", "__main__"}


def differences(package: Path) -> list[str]:
    """The differences between a package's map and its files."""
    compiled = {path.stem for path in package.glob("*.pyx")}
    names, there = [name for name in mapped(package) if name not in compiled], members(package)
    found = [f"{name} is not on the map" for name in sorted(there - set(names))]
    found += [f"{name} is on the map, but not in the package" for name in sorted(set(names) - there)]
    found += [f"{name} is on the map twice" for name in sorted({name for name in names if names.count(name) > 1})]
    return found


@pytest.mark.parametrize("package", packages(), ids=name_of)
def test_map_names_the_package_s_modules(package: Path) -> None:
    """Each module and sub-package is in one line."""
    wrong = differences(package)
    assert not wrong, f"the map in {name_of(package)}'s docstring: {'; '.join(wrong)}"
